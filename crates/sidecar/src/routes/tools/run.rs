//! Runs the calls of a request. A request of a single call is a batch of one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::response::{IntoResponse, Response};
use pillion_core::executor::{CompletedCall, RESPONSE_ALLOWANCE, ResolvedCall};
use pillion_core::store::CallId;
use pillion_core::tool::{CallContext, ToolCall};
use pillion_wire::{BatchMode, BatchRequest, BatchResponse, BatchResult, ExecuteResponse};
use serde_json::{Value, json};

use super::response;
use crate::app::App;
use crate::routes::caller::Caller;
use crate::routes::error::{InternalError, RequestError};
use pillion_gateway::NameScope;

/// How a request and its response represent the calls.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// A request with one call; the response is that call's response.
    SingleCall,
    /// A list of calls; the response is the list of their responses.
    Batch,
}

impl Form {
    /// Returns the content of a request. Requests with equal content, in any key order, count as
    /// the same request.
    pub(super) fn content(self, batch: &BatchRequest) -> Value {
        match (self, &batch.calls[..]) {
            (Self::SingleCall, [call]) => json!({"tool": call.name, "arguments": call.arguments}),
            _ => json!({"batch": batch}),
        }
    }

    /// Serializes the response to a request.
    ///
    /// # Errors
    /// A value of the response is not valid JSON.
    pub(super) fn to_json(self, response: &BatchResponse) -> serde_json::Result<String> {
        match (self, &response.results[..]) {
            (Self::SingleCall, [result]) => serde_json::to_string(&result.response),
            _ => serde_json::to_string(response),
        }
    }

    /// Returns the HTTP response.
    pub(super) fn respond(self, response: Arc<BatchResponse>) -> Response {
        if let Self::Batch = self {
            return Json(&*response).into_response();
        }
        // The task that stores the response may still share it.
        match Arc::unwrap_or_clone(response).results.pop() {
            Some(result) => response::respond(result.response),
            None => RequestError::from(InternalError).into_response(),
        }
    }
}

/// The outcome of a request.
pub(super) struct Executed {
    pub(super) response: BatchResponse,
    /// Whether a repeated request must get this response: a tool was started, or a call succeeded.
    pub(super) is_final: bool,
    /// The latest time at which the response is due.
    pub(super) respond_by: Instant,
}

/// Runs a batch after a wait of `waited`, which counts toward the deadlines of its calls. `records`
/// are the call log IDs of the calls, in order; the call log chooses missing IDs.
pub(super) async fn run(
    app: &App,
    batch: BatchRequest,
    caller: Caller,
    waited: Duration,
    mut records: impl Iterator<Item = CallId> + Send,
) -> Executed {
    let names: Vec<_> = batch.calls.iter().map(|call| call.name.as_str()).collect();
    let (context, visibility) = (&caller.context, &caller.visibility);
    let resolution = app
        .resolve(context, visibility, NameScope::Registered, &names)
        .await;
    let executor = resolution.executor(app);
    let waited = waited + resolution.took;
    let contexts = std::iter::repeat_n(caller.context, batch.calls.len());

    // Calls of unknown tools get their responses here, without the executor.
    let ids: Vec<_> = batch.calls.iter().map(|call| call.id.clone()).collect();
    let mut responses = Vec::with_capacity(ids.len());
    let mut calls = Vec::with_capacity(ids.len());
    for ((call, context), tool) in batch.calls.into_iter().zip(contexts).zip(resolution.tools) {
        let record = records.next().or(context.record);
        responses.push(match tool {
            Ok(tool) => {
                let resolved = ResolvedCall {
                    call: ToolCall::new(call.id, call.name, call.arguments),
                    tool: Some(tool),
                    waited,
                };
                calls.push((resolved, CallContext { record, ..context }));
                None
            }
            Err(missing) => {
                let own = resolution.own.as_ref();
                let unavailable = &resolution.unavailable_servers;
                let failure =
                    response::unknown(app, visibility, own, &call.name, missing, unavailable);
                Some(ExecuteResponse::NotFound(failure))
            }
        });
    }
    let all = match batch.mode {
        BatchMode::Parallel => executor.execute_parallel_resolved(calls).await,
        BatchMode::Sequential => {
            let mut all = Vec::with_capacity(calls.len());
            for (call, context) in calls {
                all.push(executor.execute_resolved(call, &context).await);
            }
            all
        }
    };
    let is_final = all.iter().any(CompletedCall::is_final);
    let respond_by = all.iter().map(|ended| ended.respond_by).max();
    let open = responses.iter_mut().filter(|response| response.is_none());
    for (response, ended) in open.zip(all) {
        *response = Some(response::ran(ended.result));
    }
    Executed {
        response: batch_response(ids.into_iter().zip(responses.into_iter().flatten())),
        is_final,
        respond_by: respond_by.unwrap_or_else(|| Instant::now() + RESPONSE_ALLOWANCE),
    }
}

/// Combines the results of calls with the calls' IDs.
pub(super) fn batch_response(
    responses: impl Iterator<Item = (String, ExecuteResponse)>,
) -> BatchResponse {
    let results: Vec<_> = responses
        .map(|(id, response)| BatchResult { id, response })
        .collect();
    BatchResponse {
        success: true,
        total: results.len(),
        results,
    }
}
