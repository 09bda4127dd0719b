use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use pillion_core::tool::ToolCall;
use pillion_wire::Answer;

use super::answer;
use crate::app::App;
use crate::echo::shortened;
use crate::problem::Problem;
use crate::routes::body::Arguments;
use crate::routes::caller::Caller;
use crate::routes::error::RequestError;
use crate::routes::request_log::RequestId;

/// Runs one tool; the body is its arguments (I1).
///
/// The status is 200 whether or not the tool worked (I2): `result.success` says so. A tool
/// that is not there has `success` false (B5).
#[utoipa::path(
    post,
    path = "/api/v1/tools/execute/{tool_name}",
    tag = "tools",
    summary = "Run one tool",
    description = "The body is the arguments. The status is 200 whether or not the tool worked: `result.success` says so. A tool that is not there has `success` false.",
    params(
        ("tool_name" = String, Path, description = "The tool's name or an alias of it", example = "calculator"),
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf the call runs"),
        ("x-pillion-channel" = Option<String>, Header, description = "The channel the call comes from"),
        ("x-request-id" = Option<String>, Header, description = "The caller's id of the request"),
        ("x-pillion-approval" = Option<String>, Header, description = "The approval that the call is to use"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for an approval that is needed; so does the header `x-pillion-approval-wait-ms`"),
    ),
    request_body(content = Option<Arguments>, description = "The arguments", content_type = "application/json", example = json!({"expression": "2 + 2"})),
    responses(
        (status = 200, description = "The tool ran, or is not there", body = Answer),
        (status = 400, description = "The body is no JSON object", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too long", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::routes) async fn execute(
    State(app): State<App>,
    Extension(RequestId(id)): Extension<RequestId>,
    path: Result<Path<String>, PathRejection>,
    Caller(context): Caller,
    Arguments(arguments): Arguments,
) -> Result<Json<Answer>, RequestError> {
    let Path(name) = path.map_err(|_| RequestError::BadToolName)?;
    tracing::Span::current().record("tool_name", shortened(&name));
    let unavailable = app.look_for(&[&name]).await;
    if !app.registry().contains(&name) {
        return Ok(Json(answer::unknown(&app, &name, &unavailable)));
    }
    let call = ToolCall::new(&*id, name, arguments);
    let result = app.executor().execute_one(call, &context).await;
    Ok(Json(answer::ran(result)))
}
