use pillion_core::provider::{assistant_text, parse_tool_calls};
use pillion_core::tool::ToolCall;
use tokio::time::Instant;

use super::native::Told;
use super::{ChatLoop, malformed, says_something};
use crate::{ChatError, ChatListener, ChatState, Finish};

/// What a model says in one turn, with the calls that somebody else is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct SingleTurn {
    /// Its words, if any.
    pub text: String,
    /// The calls that it makes, in their order; the first alone where they are to come one at a time.
    pub calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Finish,
}

impl ChatLoop {
    /// Asks the model once, and runs nothing: for whoever runs the calls elsewhere. The limits on
    /// tokens, context and time are those of [`run`](Self::run). The conversation of the state
    /// stays as it is; what the turn cost is counted in it.
    ///
    /// # Errors
    /// [`ChatError`].
    pub async fn turn(
        &self,
        state: &mut ChatState,
        listener: &mut dyn ChatListener,
    ) -> Result<SingleTurn, ChatError> {
        self.check_provider(state)?;
        let deadline = Instant::now() + self.limits.timeout;
        let told = &mut Told::default();
        let answer = self.ask(state, &self.tools, deadline, told, listener);
        let answer = answer.await?;
        let provider = state.provider();
        let mut calls =
            parse_tool_calls(provider, &answer.body).map_err(|error| malformed(&error))?;
        if self.options.one_call_at_a_time {
            calls.truncate(1);
        }
        let text = assistant_text(provider, &answer.body).map_err(|error| malformed(&error))?;
        if calls.is_empty() && text.is_empty() {
            says_something(provider, &answer.finish)?;
        }
        Ok(SingleTurn {
            text,
            calls,
            finish: answer.finish,
        })
    }
}
