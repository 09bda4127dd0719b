use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use pillion_core::compute;
use pillion_wire::{
    BatchCall, BatchMode, BatchRequest, BatchResponse, ExecuteResponse, MAX_ID_BYTES, route,
};

use super::ToolPathError;
use super::once::{self, Key};
use super::run::Form;
use crate::app::App;
use crate::routes::body::{Arguments, Body, BodyError};
use crate::routes::caller::Caller;
use crate::routes::error::{INVALID_INPUT, RequestError, route_error};
use crate::routes::request_log::HttpRequestId;
use pillion_gateway::client_text::truncate_input;

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
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for an approval, in milliseconds; the header `x-pillion-approval-wait-ms` sets the same"),
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
    key: Option<Key>,
    caller: Caller,
    Arguments(arguments): Arguments,
) -> Result<Response, RequestError> {
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
    let response = once::run(&app, key, batch, Form::SingleCall, caller).await?;
    Ok(response.into_response(Form::SingleCall))
}

route_error! {
    /// Why a batch is rejected.
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
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for an approval, in milliseconds; the header `x-pillion-approval-wait-ms` sets the same"),
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
    key: Option<Key>,
    mut caller: Caller,
    Body(body): Body,
) -> Result<Response, RequestError> {
    let (limit, bytes) = (app.http().max_batch_calls.get(), body.len());
    let account = caller.context.principal.as_deref().unwrap_or_default();
    let batch = compute::run(account, bytes, move || parse(&body, limit)).await?;
    if batch.calls.len() > 1 {
        let memory = caller.context.result_memory.take();
        caller.context.result_memory = memory.map(|memory| memory.shared());
    }
    let response = once::run(&app, key, batch, Form::Batch, caller).await?;
    Ok(response.into_response(Form::Batch))
}

/// Parses the body. Malformed JSON and JSON of another form have different errors.
fn parse(body: &[u8], limit: usize) -> Result<BatchRequest, RequestError> {
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
        return Err(RequestError::parameter("id", expected));
    }
    Ok(request)
}
