use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use pillion_core::executor::{RESPONSE_ALLOWANCE, ResolvedCall};
use pillion_core::store::CallId;
use pillion_core::tool::ToolCall;
use pillion_wire::{ExecuteResponse, route};
use serde_json::{Value, json};

use super::once::{self, Executed, Key, Request};
use super::{ToolPathError, answer};
use crate::app::App;
use crate::routes::body::Arguments;
use crate::routes::caller::Caller;
use crate::routes::error::RequestError;
use crate::routes::request_log::HttpRequestId;
use pillion_gateway::NameScope;
use pillion_gateway::client_text::truncate_input;

/// Runs one tool; the body is its arguments.
///
/// The status is 200 even if the tool failed: `result.success` has the outcome. An unknown tool has
/// `success` false.
#[utoipa::path(
    post,
    path = route::EXECUTE_TOOL.path,
    tag = "tools",
    summary = "Call a tool",
    description = "The request body has the arguments. The status is 200 even if the call fails: `result.success` has the outcome. For an unknown tool, `success` is false.",
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
    let call = ToolCall::new(&*id, name, arguments);
    match key {
        Some(key) => once::run(app, key, call, caller).await,
        None => {
            let ran = run(&app, call, &caller, Duration::ZERO).await;
            Ok(answer::respond(ran.answer))
        }
    }
}

/// Runs a call that has waited for `waited` before.
async fn run(
    app: &App,
    call: ToolCall,
    caller: &Caller,
    waited: Duration,
) -> Executed<ExecuteResponse> {
    let Caller {
        context,
        visibility,
        ..
    } = caller;
    let names = [call.name.as_str()];
    let resolution = app.resolve(context, visibility, NameScope::Registered, &names);
    let mut resolution = resolution.await;
    match resolution.take_only() {
        Ok(tool) => {
            let tool = Some(tool);
            let executor = resolution.executor(app);
            let waited = waited + resolution.took;
            let call = ResolvedCall { call, tool, waited };
            let ended = executor.execute_resolved(call, context);
            let ended = ended.await;
            Executed {
                is_final: ended.is_final(),
                respond_by: ended.respond_by,
                answer: answer::ran(ended.result),
            }
        }
        Err(missing) => {
            let (own, unavailable) = (resolution.own.as_ref(), &resolution.unavailable_servers);
            let failure = answer::unknown(app, visibility, own, &call.name, missing, unavailable);
            Executed {
                answer: ExecuteResponse::NotFound(failure),
                is_final: false,
                respond_by: Instant::now() + RESPONSE_ALLOWANCE,
            }
        }
    }
}

impl Request for ToolCall {
    type Response = ExecuteResponse;

    fn content(&self) -> Value {
        json!({"tool": self.name, "arguments": self.arguments})
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str())
    }

    async fn run(
        self,
        app: App,
        mut caller: Caller,
        waited: Duration,
        mut records: impl Iterator<Item = CallId> + Send,
    ) -> Executed<ExecuteResponse> {
        caller.context.record = records.next();
        run(&app, self, &caller, waited).await
    }

    fn not_stored(
        answer: &ExecuteResponse,
        mut records: impl Iterator<Item = CallId>,
    ) -> ExecuteResponse {
        once::not_stored(answer, records.next())
    }

    fn cut_off(self, begun: Vec<Option<CallId>>) -> ExecuteResponse {
        once::cut_off(self, begun.into_iter().flatten().next())
    }
}
