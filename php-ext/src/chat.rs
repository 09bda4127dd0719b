//! Chats with language models that use tools, as exposed to PHP: with the tool loop in this process
//! or in the sidecar.

mod begin;
mod company;
mod errand;
mod here;
mod keys;
mod paced_model;
mod runner;
mod settings;
mod teller;
mod there;

use ext_php_rs::types::Zval;
use serde_json::{Value, json};

use crate::exception;
use crate::json::to_value_as;
use crate::zend::Failure;
pub use begin::Begin;
pub use company::Company;
pub use here::Here;
pub use settings::{ModelSettings, Settings, read_model, read_options};
pub use there::{Request, There};

/// The next step of a running chat.
pub enum Step {
    /// An event: its name and its data.
    Said(String, Value),
    /// The run has ended.
    Done(Done),
}

/// The outcome of a chat run.
pub struct Done {
    /// A `ChatAnswer` of the sidecar's API.
    pub answer: Value,
    /// The state that resumes the chat.
    pub state: String,
}

/// Returns the new messages in the format of OpenAI's chat completions, from a string or a list of
/// messages; no messages for null.
///
/// # Errors
/// An `InvalidInputException`.
pub fn messages_of(said: Option<&Zval>) -> Result<Vec<Value>, Failure> {
    let Some(said) = said else {
        return Ok(Vec::new());
    };
    match to_value_as("argument $message", said)? {
        Value::String(text) => Ok(vec![json!({"role": "user", "content": text})]),
        Value::Array(messages) if messages.iter().all(Value::is_object) => Ok(messages),
        _ => Err(exception::invalid_input(
            "$message must be a text or a list of messages: arrays with 'role' and 'content'",
        )),
    }
}
