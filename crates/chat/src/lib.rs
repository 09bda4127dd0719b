//! The chat loop that lets a language model use tools (requirements H4 to H7), and the clients
//! of the providers whose models it speaks to.
//!
//! A [`LanguageModel`] answers one [`Turn`] of a conversation; [`HttpModel`] is one at a provider.
//! [`ChatLoop`] runs the calls that it asks for, and goes on until it answers in words. The
//! conversation stays in the shapes of the model's provider from its first turn to its last, so
//! that nothing that a provider sent is lost on the way back to it; [`pillion_core::provider`]
//! reads calls out of an answer and writes results.

mod backlog;
mod chat_loop;
mod depth;
mod dialect;
mod error;
mod http_model;
mod limits;
mod listener;
mod model;
mod runner;
mod shown;
mod state;

pub use backlog::Backlog;
pub use chat_loop::{ChatAnswer, ChatEnd, ChatLoop, Ending, NativeServer, SingleTurn, WantedBack};
pub use error::{ChatError, ModelError, ModelErrorKind};
pub use http_model::{HttpModel, HttpModelConfig, KeySource};
pub use limits::{ChatLimits, LimitReached};
pub use listener::{ChatEvent, ChatListener, EndedCall};
pub use model::{
    Answer, Conversation, Delta, Finish, LanguageModel, ToolChoice, Turn, TurnOptions, Usage,
};
pub use runner::ToolRunner;
pub use state::{ChatState, WaitingCall};

/// Runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/CHAT.md")]
struct Guide;
