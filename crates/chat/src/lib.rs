//! The chat loop that lets a language model use tools (requirements H4 to H7), and the clients
//! of the providers whose models it speaks to.
//!
//! A [`LanguageModel`] answers one [`Turn`] of a conversation. The conversation stays in the shapes of
//! the model's provider from its first turn to its last, so that nothing that a provider sent
//! is lost on the way back to it; [`pillion_core::provider`] reads calls out of an answer and
//! writes results.

mod error;
mod model;

pub use error::{ModelError, ModelErrorKind};
pub use model::{Answer, Conversation, Delta, Finish, LanguageModel, Turn, TurnOptions, Usage};
