//! The chat loop that lets a language model use tools, and the HTTP client of model providers.
//!
//! A [`LanguageModel`] responds to one [`ModelTurn`] of a conversation; [`HttpModel`] is a model at
//! a provider. [`ChatLoop`] runs the tool calls of a response and sends the results to the model,
//! until the model responds without calls. The conversation stays in the provider's message format
//! throughout, so that everything that a provider sends can be sent back unchanged;
//! [`pillion_providers`] parses the calls in a response and formats the results.

mod backlog;
mod chat_loop;
mod depth;
mod error;
mod event_json;
mod http_model;
mod limits;
mod listener;
mod model;
pub mod parameters;
mod response;
mod runner;
mod state;

pub use backlog::Backlog;
pub use chat_loop::{ChatEnd, ChatLoop, NativeServer, SingleTurn};
pub use error::ChatError;
pub use http_model::{HttpModel, HttpModelConfig, KeySource};
pub use limits::{ChatLimits, LimitReached};
pub use listener::{ChatEvent, ChatListener, EndedCall};
pub use model::LanguageModel;
pub use pillion_providers::{
    Delta, Finish, ModelError, ModelErrorKind, ModelTurn, ProviderConversation, ProviderMembers,
    ToolChoice, TurnOptions, TurnResponse, Usage,
};
pub use response::{FinalResponse, ResponseEnd};
pub use runner::ToolRunner;
pub use state::{ChatState, WaitingCall};

/// Runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/chats-in-rust.md")]
struct ChatGuideDoctests;
