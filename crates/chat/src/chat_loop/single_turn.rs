use pillion_core::tool::ToolCall;
use pillion_providers::{assistant_text, parse_tool_calls};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::native::ReportedCalls;
use super::{ChatLoop, ResponseEnd, check_finish, rounds};
use crate::{ChatError, ChatListener, ChatState, Finish, ModelError, ProviderMembers};

/// A model's response to one turn. The caller runs the tool calls in the response.
#[derive(Debug, Clone, PartialEq)]
pub struct SingleTurn {
    /// The text of the response, possibly empty.
    pub text: String,
    /// The calls in order; only the first call if the options allow one call at a time. Omits a
    /// call if the response was cut off before the call's arguments.
    pub calls: Vec<ToolCall>,
    /// Why the response ended.
    pub finish: Finish,
    /// Details about the end of the response.
    pub ending: ResponseEnd,
    /// The members of the response that the provider requires in later requests, together with the
    /// response.
    pub provider_members: ProviderMembers,
}

impl ChatLoop {
    /// Sends one request to the model and runs no calls, for a caller that runs the calls
    /// elsewhere. The same limits on tokens, context and time apply as for [`run`](Self::run). The
    /// state's conversation stays unchanged; the state's usage includes the turn.
    ///
    /// # Errors
    /// [`ChatError`]: the request to the model fails, or could exceed the token limit.
    pub async fn turn(
        &self,
        state: &mut ChatState,
        listener: &mut dyn ChatListener,
    ) -> Result<SingleTurn, ChatError> {
        self.check_provider(state)?;
        let deadline = Instant::now() + self.limits.timeout;
        let reported_calls = &mut ReportedCalls::default();
        let response = self
            .request_turn(state, &self.tools, deadline, reported_calls, listener)
            .await?;
        let provider = state.provider();
        let mut parsed_calls =
            parse_tool_calls(provider, &response.body).map_err(ModelError::from)?;
        let complete_call_count =
            rounds::count_complete_calls(&response.finish, parsed_calls.len());
        if self.options.one_call_at_a_time {
            parsed_calls.truncate(1);
        }
        let text = assistant_text(provider, &response.body).map_err(ModelError::from)?;
        if parsed_calls.is_empty() && text.is_empty() {
            check_finish(provider, &response.finish)?;
        }
        let indexed_calls = parsed_calls.into_iter().enumerate();
        let runnable_calls = indexed_calls
            .filter(|(index, call)| *index < complete_call_count || !has_no_arguments(call));
        let (indexes, calls): (Vec<_>, _) = runnable_calls.unzip();
        Ok(SingleTurn {
            text,
            calls,
            provider_members: provider.api().provider_members(&response.body, &indexes),
            ending: ResponseEnd::new(provider, &response.body),
            finish: response.finish,
        })
    }
}

/// Returns whether the call has no arguments, for example because the response was cut off before
/// them.
fn has_no_arguments(call: &ToolCall) -> bool {
    match &call.arguments {
        Value::String(text) => matches!(text.trim(), "" | "{}"),
        arguments => *arguments == json!({}) || arguments.is_null(),
    }
}
