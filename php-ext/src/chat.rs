//! Chats with language models that use tools (requirements H4 to H7), as the PHP classes have
//! them: with the loop in this process, or in the sidecar.

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

/// What comes next in a chat that runs.
pub enum Step {
    /// Something has happened: its name and its data.
    Said(String, Value),
    /// The run has ended.
    Done(Done),
}

/// How a run has ended.
pub struct Done {
    /// A `ChatAnswer` of the sidecar's API.
    pub answer: Value,
    /// What it takes to go on.
    pub state: String,
}

/// What is said now, in the shapes of OpenAI's chat completions: a text, or a list of messages;
/// nothing where it is null.
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
