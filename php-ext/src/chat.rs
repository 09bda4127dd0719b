//! Chats with language models that use tools, as exposed to PHP. The tool loop runs in this process
//! or in the sidecar.

mod event_forwarder;
mod job;
mod keys;
mod local;
mod local_request;
mod paced_model;
mod runner;
mod settings;
mod sidecar;
mod values;

use ext_php_rs::types::Zval;
use serde_json::{Value, json};

use crate::exception;
use crate::json::to_value_as;
use crate::zend::Result;
pub use local::LocalChat;
pub use local_request::LocalChatRequest;
pub use settings::{ChatSettings, ModelSettings, read_model, read_options};
pub use sidecar::{SidecarChat, SidecarChatRequest};
pub use values::ChatValues;

/// The next step of a running chat.
pub enum ChatStep {
    /// An event of the chat, as the event's name and data.
    Event(String, Value),
    /// The chat's run has ended.
    Done(FinishedChat),
}

/// The outcome of a chat run.
pub struct FinishedChat {
    /// The outcome in the format of the sidecar's API (`ChatAnswer`).
    pub response: Value,
    /// The state from which the chat can be resumed.
    pub state: String,
}

/// Converts a string or a list of messages from PHP to messages in the format of OpenAI's chat
/// completions. Null becomes an empty list.
///
/// # Errors
/// An `InvalidInputException` if the messages are invalid.
pub fn parse_messages(message: Option<&Zval>) -> Result<Vec<Value>> {
    let Some(message) = message else {
        return Ok(Vec::new());
    };
    match to_value_as("argument $message", message)? {
        Value::String(text) => Ok(vec![json!({"role": "user", "content": text})]),
        Value::Array(messages) if messages.iter().all(Value::is_object) => Ok(messages),
        _ => Err(exception::invalid_input(
            "$message must be a string or a list of messages, which are arrays with 'role' and \
             'content'",
        )),
    }
}
