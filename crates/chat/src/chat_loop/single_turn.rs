use pillion_core::provider::{assistant_text, parse_tool_calls};
use pillion_core::tool::ToolCall;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::native::Told;
use super::{ChatLoop, Ending, WantedBack, malformed, rounds, says_something};
use crate::{ChatError, ChatListener, ChatState, Finish};

/// What a model says in one turn, with the calls that somebody else is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct SingleTurn {
    /// Its words, if any.
    pub text: String,
    /// The calls that it makes, in their order; the first alone where they are to come one at a time.
    /// One that was cut off before its arguments is none.
    pub calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Finish,
    /// The same in more words.
    pub ending: Ending,
    /// What the provider wants back with the words and the calls.
    pub wanted_back: WantedBack,
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
        let whole = rounds::whole(&answer.finish, calls.len());
        if self.options.one_call_at_a_time {
            calls.truncate(1);
        }
        let text = assistant_text(provider, &answer.body).map_err(|error| malformed(&error))?;
        if calls.is_empty() && text.is_empty() {
            says_something(provider, &answer.finish)?;
        }
        let calls = calls.into_iter().enumerate();
        let calls = calls.filter(|(place, call)| *place < whole || !has_no_arguments(call));
        let (places, calls): (Vec<_>, _) = calls.unzip();
        Ok(SingleTurn {
            text,
            calls,
            wanted_back: WantedBack::of(provider, &answer.body, &places),
            ending: Ending::of(provider, &answer.body),
            finish: answer.finish,
        })
    }
}

/// Whether the call has none, or nothing of those that it was to have.
fn has_no_arguments(call: &ToolCall) -> bool {
    match &call.arguments {
        Value::String(text) => matches!(text.trim(), "" | "{}"),
        arguments => *arguments == json!({}) || arguments.is_null(),
    }
}
