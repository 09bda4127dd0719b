//! Handles `POST /api/v1/tools/execute/{tool_name}` and `POST /api/v1/tools/batch-execute`: looks
//! up the tools, runs the calls, and creates the response. A request with a single call is handled
//! as a batch of one call.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::iter::empty;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Bytes, HttpBody};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hyper::body::{Frame, SizeHint};
use memchr::memmem;
use pillion_core::executor::{CompletedCall, RESPONSE_ALLOWANCE, ResolvedCall};
use pillion_core::store::CallId;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use pillion_core::{compute, similar_name};
use pillion_wire::{
    BatchCall, BatchMode, BatchRequest, BatchResponse, BatchResult, ExecuteResponse, Execution,
    Failure, IDEMPOTENCY_REPLAYED_HEADER, MAX_ID_BYTES, ToolOutcome, UnavailableServer, route,
};
use serde_json::{Value, json};

use super::ToolPathError;
use super::idempotency::{self, IdempotencyKeyHeader};
use crate::app::App;
use crate::routes::HttpRequestId;
use crate::routes::extract::{Arguments, Body, BodyError, Caller};
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::upstream::CallerTools;
use pillion_gateway::visibility::Visibility;
use pillion_gateway::{MissingTool, NameScope};
use pillion_management::error::{INVALID_INPUT, InternalError, RequestError, Result, route_error};

/// Minimum length of a result's text, in bytes, for which `data` is searched for the same text, so
/// that the two occurrences share memory.
const MIN_SHARED_TEXT_BYTES: usize = 64 * 1024;

/// Call a tool.
///
/// The request body has the arguments. The status is 200 even if the call fails: `result.success`
/// has the outcome. For an unknown tool, `success` is false.
#[utoipa::path(
    post,
    path = route::EXECUTE_TOOL.path,
    params(
        ("tool_name" = String, Path, description = "The tool's name or an alias of it", example = "calculator"),
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf the call runs"),
        ("x-pillion-channel" = Option<String>, Header, description = "The channel the call comes from"),
        ("x-request-id" = Option<String>, Header, description = "The client's ID for the request"),
        ("idempotency-key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = r#"^([!#-\[\]-~]+|"([!#-\[\]-~]|\\["\\])+")$"#, description = "Identifies the request: a retry with the same key does not run the tool again, but returns the first response with the header `idempotency-replayed: true`"),
        ("x-pillion-approval" = Option<String>, Header, description = "The ID of the approval to use"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for an approval, in milliseconds; the header `x-pillion-approval-wait-ms` has the same meaning"),
    ),
    request_body(content = Option<Arguments>, description = "The arguments", content_type = "application/json", example = json!({"expression": "2 + 2"})),
    responses(
        (status = 200, description = "The result of the call, or the error of an unknown tool", body = ExecuteResponse),
        (status = 400, description = "The request body is not a JSON object"),
        (status = 409, description = "A request with this Idempotency-Key is still running"),
        (status = 413, description = "The request body is too large"),
        (status = 422, description = "The Idempotency-Key was used for a different request"),
        (status = 429, description = "Too many requests with an Idempotency-Key are still running after their clients disconnected"),
        (status = 503, description = "The request has an Idempotency-Key, and the store is not available"),
    )
)]
pub(in crate::routes) async fn execute(
    State(app): State<App>,
    Extension(HttpRequestId(id)): Extension<HttpRequestId>,
    path: Result<Path<String>, PathRejection>,
    key: Option<IdempotencyKeyHeader>,
    caller: Caller,
    Arguments(arguments): Arguments,
) -> Result<Response> {
    let Path(name) = path.map_err(|_| ToolPathError::InvalidName)?;
    tracing::Span::current().record("tool_name", truncate_input(&name));
    let batch = BatchRequest {
        calls: vec![BatchCall {
            id: id.to_string(),
            name,
            arguments,
        }],
        mode: BatchMode::Sequential,
    };
    let response = run(&app, key, batch, CallsFormat::SingleCall, caller).await?;
    Ok(response.into_response(CallsFormat::SingleCall))
}

route_error! {
    /// The reason why a batch is rejected.
    #[derive(Debug, thiserror::Error)]
    enum BatchError {
        #[error("The request body is not a valid batch: {0}")]
        Invalid(#[source] serde_json::Error) => INVALID_INPUT,
        #[error("The batch has {calls} calls; the limit is {limit}")]
        TooManyCalls { calls: usize, limit: usize } => INVALID_INPUT,
    }
}

/// Call several tools.
///
/// The calls run in parallel or in sequence. The results have the order of the calls; each result
/// is the same as for a single call.
#[utoipa::path(
    post,
    path = route::EXECUTE_BATCH.path,
    params(
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf the calls run"),
        ("x-pillion-channel" = Option<String>, Header, description = "The channel the calls come from"),
        ("x-request-id" = Option<String>, Header, description = "The client's ID for the request"),
        ("idempotency-key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = r#"^([!#-\[\]-~]+|"([!#-\[\]-~]|\\["\\])+")$"#, description = "Identifies the batch: a retry with the same key does not run the calls again, but returns the first response with the header `idempotency-replayed: true`"),
        ("x-pillion-approval" = Option<String>, Header, description = "The ID of the approval to use"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for an approval, in milliseconds; the header `x-pillion-approval-wait-ms` has the same meaning"),
    ),
    request_body(content = BatchRequest, content_type = "application/json"),
    responses(
        (status = 200, description = "One result per call", body = BatchResponse),
        (status = 400, description = "The request body is invalid, or has too many calls"),
        (status = 409, description = "A batch with this Idempotency-Key is still running"),
        (status = 413, description = "The request body is too large"),
        (status = 422, description = "The Idempotency-Key was used for a different request"),
        (status = 429, description = "Too many requests with an Idempotency-Key are still running after their clients disconnected"),
        (status = 503, description = "The request has an Idempotency-Key, and the store is not available"),
    )
)]
pub(in crate::routes) async fn batch_execute(
    State(app): State<App>,
    key: Option<IdempotencyKeyHeader>,
    mut caller: Caller,
    Body(body): Body,
) -> Result<Response> {
    let (limit, bytes) = (app.http().max_batch_calls.get(), body.len());
    let account = caller.context.principal.as_deref().unwrap_or_default();
    let batch = compute::run(account, bytes, move || parse(&body, limit)).await?;
    if batch.calls.len() > 1 {
        let memory = caller.context.result_memory.take();
        caller.context.result_memory = memory.map(|memory| memory.shared());
    }
    let response = run(&app, key, batch, CallsFormat::Batch, caller).await?;
    Ok(response.into_response(CallsFormat::Batch))
}

/// Parses the body. Malformed JSON and JSON of another form have different errors.
fn parse(body: &[u8], limit: usize) -> Result<BatchRequest> {
    let request: BatchRequest = serde_json::from_slice(body).map_err(|error| {
        if error.is_data() {
            RequestError::from(BatchError::Invalid(error))
        } else {
            RequestError::from(BodyError::MalformedJson(error))
        }
    })?;
    let calls = request.calls.len();
    if calls > limit {
        return Err(BatchError::TooManyCalls { calls, limit }.into());
    }
    let mut ids = request.calls.iter().map(|call| &call.id);
    if ids.any(|id| id.len() > MAX_ID_BYTES) {
        let expected = format!("at most {MAX_ID_BYTES} bytes");
        return Err(RequestError::invalid_parameter("id", expected));
    }
    Ok(request)
}

/// The format in which a request and its response represent the calls.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallsFormat {
    /// A request with one call; the response is that call's response.
    SingleCall,
    /// A list of calls; the response is the list of their responses.
    Batch,
}

impl CallsFormat {
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

    /// Returns the HTTP response with this content.
    fn respond(self, response: Arc<BatchResponse>) -> Response {
        if let Self::Batch = self {
            return Json(&*response).into_response();
        }
        // The response is cloned if the task that stores the response still shares it.
        match Arc::unwrap_or_clone(response).results.pop() {
            Some(result) => serialize_response(result.response),
            None => RequestError::from(InternalError).into_response(),
        }
    }
}

/// The response to a request.
pub(super) enum CallsResponse {
    /// The response to a request whose calls have just run.
    New(Arc<BatchResponse>),
    /// The request has already run with the same idempotency key; its stored response, as JSON.
    Replayed(String),
}

impl CallsResponse {
    /// Returns the HTTP response. A replayed response has the header
    /// [`IDEMPOTENCY_REPLAYED_HEADER`].
    fn into_response(self, calls_format: CallsFormat) -> Response {
        match self {
            Self::New(response) => calls_format.respond(response),
            Self::Replayed(json) => {
                let headers = [
                    (CONTENT_TYPE.as_str(), "application/json"),
                    (IDEMPOTENCY_REPLAYED_HEADER, "true"),
                ];
                (headers, json).into_response()
            }
        }
    }
}

/// Runs the request. A request with an idempotency key runs only if it has not run with this key
/// before.
pub(super) async fn run(
    app: &App,
    key: Option<IdempotencyKeyHeader>,
    batch: BatchRequest,
    calls_format: CallsFormat,
    caller: Caller,
) -> Result<CallsResponse> {
    if let Some(key) = key {
        // The future is boxed, so that the future of a request without a key stays small.
        return Box::pin(idempotency::run(
            app.clone(),
            key,
            batch,
            calls_format,
            caller,
        ))
        .await;
    }
    // The future is boxed, because the future of a call, with its contexts, is large.
    let outcome = Box::pin(run_calls(app, batch, caller, Duration::ZERO, empty())).await;
    Ok(CallsResponse::New(Arc::new(outcome.response)))
}

/// The outcome of a request.
pub(super) struct RequestOutcome {
    pub(super) response: BatchResponse,
    /// Whether a repeated request must get this response, because a tool was started or a call
    /// succeeded.
    pub(super) is_final: bool,
    /// The deadline for returning the response to the client.
    pub(super) response_deadline: Instant,
}

/// Runs a batch that has already waited for `wait_time`; the wait counts toward the deadlines of
/// the batch's calls. `record_ids` are the call log IDs, in the order of the calls; the call log
/// generates an ID for each call without one.
pub(super) async fn run_calls(
    app: &App,
    batch: BatchRequest,
    caller: Caller,
    wait_time: Duration,
    mut record_ids: impl Iterator<Item = CallId> + Send,
) -> RequestOutcome {
    let names: Vec<_> = batch.calls.iter().map(|call| call.name.as_str()).collect();
    let (context, visibility) = (&caller.context, &caller.visibility);
    let resolution = app
        .resolve(context, visibility, NameScope::Registered, &names)
        .await;
    let executor = resolution.executor(app);
    let total_wait = wait_time + resolution.duration;
    let contexts = std::iter::repeat_n(caller.context, batch.calls.len());

    // Calls of unknown tools get their responses here, without the executor.
    let ids: Vec<_> = batch.calls.iter().map(|call| call.id.clone()).collect();
    let mut responses = Vec::with_capacity(ids.len());
    let mut calls = Vec::with_capacity(ids.len());
    for ((call, context), tool) in batch.calls.into_iter().zip(contexts).zip(resolution.tools) {
        let record = record_ids.next().or(context.record);
        responses.push(match tool {
            Ok(tool) => {
                let resolved_call = ResolvedCall {
                    call: ToolCall::new(call.id, call.name, call.arguments),
                    tool: Some(tool),
                    wait_time: total_wait,
                };
                calls.push((resolved_call, CallContext { record, ..context }));
                None
            }
            Err(missing_tool) => {
                let own_tools = resolution.caller_tools.as_ref();
                let unavailable_servers = &resolution.unavailable_servers;
                let failure = missing_tool_failure(
                    app,
                    visibility,
                    own_tools,
                    &call.name,
                    missing_tool,
                    unavailable_servers,
                );
                Some(ExecuteResponse::NotFound(failure))
            }
        });
    }
    let completed_calls = match batch.mode {
        BatchMode::Parallel => executor.execute_parallel_resolved(calls).await,
        BatchMode::Sequential => {
            let mut completed_calls = Vec::with_capacity(calls.len());
            for (call, context) in calls {
                completed_calls.push(executor.execute_resolved(call, &context).await);
            }
            completed_calls
        }
    };
    let is_final = completed_calls.iter().any(CompletedCall::is_final);
    let response_deadline = completed_calls
        .iter()
        .map(|completed_call| completed_call.response_deadline)
        .max();
    let open_responses = responses.iter_mut().filter(|response| response.is_none());
    for (response, completed_call) in open_responses.zip(completed_calls) {
        *response = Some(executed_response(completed_call.result));
    }
    RequestOutcome {
        response: batch_response(ids.into_iter().zip(responses.into_iter().flatten())),
        is_final,
        response_deadline: response_deadline.unwrap_or_else(|| Instant::now() + RESPONSE_ALLOWANCE),
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

/// Converts the result of a tool to a response.
pub(super) fn executed_response(result: ToolResult) -> ExecuteResponse {
    let text = result.to_message();
    let (data, model_result) = match result.data {
        Some(data) => (data, Some(result.result)),
        None => (result.result, None),
    };
    ExecuteResponse::Executed(Execution {
        success: true,
        tool: result.tool_name,
        result: ToolOutcome {
            success: result.success,
            data,
            error: result.error,
            error_code: result.error_code.map(|code| code.as_str().to_owned()),
            result: model_result,
            text,
            metadata: result.metadata,
        },
    })
}

/// Returns the response to a call of a tool that the caller does not have. If the tool does not
/// exist, the response lists the existing tools. `own_tools` are the caller's per-user tools.
pub(super) fn missing_tool_failure(
    app: &App,
    visibility: &Visibility,
    own_tools: Option<&CallerTools>,
    name: &str,
    missing_tool: MissingTool,
    unavailable_servers: &[UnavailableServer],
) -> Failure {
    let name = truncate_input(name);
    match missing_tool {
        MissingTool::NoCredential(failure) => {
            Failure::new(failure.code.as_str(), failure.message).for_tool(name)
        }
        MissingTool::Blocked(blocked_tool) => {
            let reason = blocked_tool.reason(&name);
            Failure::new(ErrorCode::Denied.as_str(), reason).for_tool(name)
        }
        MissingTool::Unavailable(unavailable_tool) => {
            let reason = unavailable_tool.reason(&name);
            Failure::new(ErrorCode::Unavailable.as_str(), reason)
                .for_tool(name)
                .detail("unavailable_servers", json!([unavailable_tool.server]))
        }
        MissingTool::Unknown => {
            let mut available_tools = app.registry().tools(None);
            available_tools.extend(
                own_tools
                    .into_iter()
                    .flat_map(|own_tools| own_tools.tools.values().cloned()),
            );
            available_tools
                .retain(|tool| tool.is_offered() && visibility.admits(tool, tool.name().as_str()));
            let available_names: Vec<_> = available_tools.iter().map(|tool| tool.name()).collect();
            let own_unavailable = own_tools
                .into_iter()
                .flat_map(|own_tools| &own_tools.unavailable_servers);
            let all_unavailable: Vec<_> =
                unavailable_servers.iter().chain(own_unavailable).collect();
            let names = available_names.iter().map(|name| name.as_str());
            let message = match similar_name(&name, names) {
                Some(suggestion) => {
                    format!("Tool '{name}' not found: did you mean '{suggestion}'?")
                }
                None => format!("Tool '{name}' not found"),
            };
            let failure = Failure::new(ErrorCode::NotFound.as_str(), message)
                .for_tool(name)
                .detail("available_tools", json!(available_names));
            if all_unavailable.is_empty() {
                failure
            } else {
                failure.detail("unavailable_servers", json!(all_unavailable))
            }
        }
    }
}

/// Serializes the response as JSON. `text` usually repeats a part of `data`. In a large response,
/// the two occurrences share memory while the client reads the response.
fn serialize_response(response: ExecuteResponse) -> Response {
    match response {
        ExecuteResponse::Executed(execution)
            if execution.result.text.len() >= MIN_SHARED_TEXT_BYTES =>
        {
            serialize_large(execution).unwrap_or_else(|response| Json(response).into_response())
        }
        response => Json(response).into_response(),
    }
}

/// Serializes a response so that a repeated text is in memory only once.
///
/// # Errors
/// Returns the response itself if its JSON does not have the expected form.
#[expect(clippy::result_large_err, reason = "the error is the response itself")]
fn serialize_large(mut execution: Execution) -> Result<Response, ExecuteResponse> {
    let text = mem::take(&mut execution.result.text);
    let (Ok(text_json), Ok(response_json), Ok(metadata)) = (
        serde_json::to_vec(&text),
        serde_json::to_vec(&execution),
        serde_json::to_vec(&execution.result.metadata),
    ) else {
        return Err(restore_text(execution, text));
    };
    // The serialized response ends with the text, which was replaced by an empty string above, and
    // the metadata.
    let expected_tail = [br#"","metadata":"#, &metadata[..], b"}}"].concat();
    let Some(text_index) = response_json
        .strip_suffix(&expected_tail[..])
        .filter(|head| head.ends_with(b"\"text\":\""))
        .map(|head| head.len() - 1)
    else {
        return Err(restore_text(execution, text));
    };
    drop((execution, text));
    let response_bytes = Bytes::from(response_json);
    let head = response_bytes.slice(..text_index);
    let text_part = match memmem::find(&head, &text_json) {
        Some(start) => response_bytes.slice(start..start + text_json.len()),
        None => text_json.into(),
    };
    // The two quotation marks of the empty text are skipped.
    let tail = response_bytes.slice(text_index + 2..);
    let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let parts = PartsBody([head, text_part, tail].into());
    Ok((headers, axum::body::Body::new(parts)).into_response())
}

fn restore_text(mut execution: Execution, text: String) -> ExecuteResponse {
    execution.result.text = text;
    ExecuteResponse::Executed(execution)
}

/// A body of several buffers, with a known length.
struct PartsBody(VecDeque<Bytes>);

impl HttpBody for PartsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let length: usize = self.0.iter().map(Bytes::len).sum();
        SizeHint::with_exact(length as u64)
    }
}

#[cfg(test)]
mod tests;
