//! Calls of the sidecar's own tools by PHP executors.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::IntoResponse;
use futures_util::FutureExt;
use pillion_core::tool::{ErrorCode, JsonObject, ToolFailure, ToolName, ToolOutput, ToolResult};
use pillion_gateway::access::Peer;
use pillion_gateway::problem::ProblemSummary;
use pillion_wire::{BatchCall, BatchMode, BatchRequest, ExecuteResponse, Failure, route};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::Instrument;

use super::execute::{self, CallsFormat, CallsResponse};
use super::idempotency::IdempotencyKeyHeader;
use crate::app::App;
use crate::routes::extract::{Body, BodyError, Caller};
use crate::routes::request_memory::RequestMemory;
use crate::routes::{LoggedRequest, local_grant};
use pillion_management::error::{InternalError, Result};

/// A call of one of the sidecar's own tools by a PHP process.
pub(in crate::routes) struct ExecutorCall {
    pub(in crate::routes) name: ToolName,
    pub(in crate::routes) arguments: JsonObject,
    /// The headers of the call, as in a request to the REST API.
    pub(in crate::routes) headers: HeaderMap,
    /// The process that makes the call.
    pub(in crate::routes) peer: Peer,
}

impl ExecutorCall {
    /// Runs the call as `POST /api/v1/tools/execute/{tool_name}` would run a call of the process
    /// `peer`: with the same user, limits, idempotency, log line, metrics, trace and errors.
    pub(in crate::routes) async fn run(self, app: &App) -> Result<ToolOutput, ToolFailure> {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = Method::POST;
        parts.headers = self.headers;
        parts.extensions.insert(self.peer);
        let route = route::EXECUTE_TOOL.path;
        let logged_request = LoggedRequest::begin(app, &mut parts, route);
        let call = BatchCall {
            id: logged_request.id.to_string(),
            name: self.name.as_str().to_owned(),
            arguments: Value::Object(self.arguments),
        };
        // The future is boxed, because the future of a call is large.
        let call_future =
            Box::pin(run_call(app, &mut parts, call)).instrument(logged_request.span.clone());
        let outcome = AssertUnwindSafe(call_future).catch_unwind().await;
        match outcome.unwrap_or(Err(InternalError.into())) {
            Ok(response) => {
                logged_request.finish(app, StatusCode::OK);
                convert_response(response)
            }
            Err(error) => {
                let response = error.into_response();
                logged_request.finish(app, response.status());
                let reason = response.extensions().get::<ProblemSummary>().cloned();
                Err(reason.map_or_else(
                    || ToolFailure::internal("The sidecar failed unexpectedly"),
                    |reason| ToolFailure::new(parse_code(&reason.code), reason.message),
                ))
            }
        }
    }
}

async fn run_call(app: &App, parts: &mut Parts, call: BatchCall) -> Result<CallsResponse> {
    let grant = local_grant(parts.extensions.get());
    tracing::Span::current().record("client", &grant.name);
    tracing::Span::current().record("tool_name", &call.name);
    let body = Bytes::from(call.arguments.to_string());
    let memory = RequestMemory::for_body(Some(body.len() as u64), app, Some(&grant));
    parts.extensions.insert(grant);
    let key =
        <IdempotencyKeyHeader as OptionalFromRequestParts<App>>::from_request_parts(parts, app)
            .await?;
    let caller = Caller::from_request_parts(parts, app).await?;
    let limit_bytes = app.http().max_body_bytes.get();
    if body.len() > limit_bytes {
        return Err(BodyError::TooLong { limit_bytes }.into());
    }
    // `memory` keeps the memory of the arguments reserved until the call has ended.
    Body::from_bytes(body, memory.as_ref()).await?;
    let batch = BatchRequest {
        calls: vec![call],
        mode: BatchMode::Sequential,
    };
    execute::run(app, key, batch, CallsFormat::SingleCall, caller).await
}

/// Converts the response to a call to the outcome of a tool.
fn convert_response(response: CallsResponse) -> Result<ToolOutput, ToolFailure> {
    let response = match response {
        CallsResponse::New(response) => Arc::unwrap_or_clone(response)
            .results
            .pop()
            .map(|result| result.response)
            .ok_or_else(|| ToolFailure::internal("The sidecar failed unexpectedly"))?,
        CallsResponse::Replayed(text) => {
            serde_json::from_str(&text).map_err(|error| ToolFailure::internal(error.to_string()))?
        }
    };
    let execution = match response {
        ExecuteResponse::Executed(execution) => execution,
        ExecuteResponse::NotFound(Failure {
            error, error_code, ..
        }) => return Err(ToolFailure::new(parse_code(&error_code), error)),
    };
    let mut outcome = execution.result;
    let (result, data) = match outcome.result {
        Some(result) => (result, Some(outcome.data)),
        None => (outcome.data, None),
    };
    if !outcome.success {
        // Removes the execution time, because the executor of the PHP process measures the time
        // itself.
        outcome.metadata.shift_remove("execution_time");
    }
    let tool_result = ToolResult {
        tool_call_id: String::new(),
        tool_name: execution.tool,
        success: outcome.success,
        result,
        data,
        error: outcome.error,
        error_code: outcome.error_code.map(|code| parse_code(&code)),
        metadata: outcome.metadata,
    };
    tool_result.into_output()
}

fn parse_code(code: &str) -> ErrorCode {
    ErrorCode::deserialize(&json!(code)).unwrap_or(ErrorCode::InternalError)
}
