use axum::extract::State;
use axum::{Extension, Json};
use pillion_core::store::Verdict;
use pillion_core::tool::JsonObject;
use pillion_gateway::access::AccessGrant;
use pillion_management::approvals::{self, NewDecision, invalid_reason};
use pillion_management::error::{RequestError, Result};
use pillion_wire::{ApprovalResponse, DecisionRequest, DenialRequest, route};
use serde_json::Value;

use crate::app::App;
use crate::routes::extract::{Body, BodyError, Caller};
use crate::routes::parameters::PathParameter;

/// The parts of a request that decides on an approval: the approval's ID from the path, and the
/// grant of the deciding client.
type DecisionParts = (
    State<App>,
    PathParameter,
    Extension<AccessGrant>,
    Caller,
    Body,
);

/// Approve one run of a call.
///
/// A client that still waits for the call gets the result; any other client must repeat the call.
/// With `arguments`, the call runs with these arguments instead of its own. If an approval is
/// decided twice, the first decision counts. Requests over TCP need a token with the scope
/// `approve`; a token that is restricted to one user can decide only on calls with that verified
/// user.
#[utoipa::path(
    post,
    path = route::APPROVE.path,
    params(
        ("id" = String, Path, description = "The approval's ID"),
        ("x-pillion-user" = Option<String>, Header, description = "The user who decides, recorded in the approval"),
    ),
    request_body(content = Option<DecisionRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "The updated approval", body = ApprovalResponse),
        (status = 400, description = "The request body is invalid"),
        (status = 404, description = "Approval not found"),
        (status = 409, description = "The approval is already decided, or has expired"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn approve(decision: DecisionParts) -> Result<Json<ApprovalResponse>> {
    decide(decision, Verdict::Approved).await
}

/// Deny a call.
///
/// The call fails with `denied`. Until the approval expires, identical calls fail in the same way.
#[utoipa::path(
    post,
    path = route::DENY.path,
    params(
        ("id" = String, Path, description = "The approval's ID"),
        ("x-pillion-user" = Option<String>, Header, description = "The user who decides, recorded in the approval"),
    ),
    request_body(content = Option<DenialRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "The updated approval", body = ApprovalResponse),
        (status = 400, description = "The request body is invalid"),
        (status = 404, description = "Approval not found"),
        (status = 409, description = "The approval is already decided, or has expired"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn deny(decision: DecisionParts) -> Result<Json<ApprovalResponse>> {
    decide(decision, Verdict::Denied).await
}

async fn decide(
    (State(app), PathParameter(id), Extension(grant), caller, Body(body)): DecisionParts,
    verdict: Verdict,
) -> Result<Json<ApprovalResponse>> {
    let (reason, arguments) = parse(&body)?;
    let decision = NewDecision {
        verdict,
        user: caller.context.user,
        reason,
        arguments,
    };
    Ok(Json(ApprovalResponse {
        success: true,
        approval: approvals::decide(&app, &grant, &id, decision).await?,
    }))
}

/// Returns the reason and the changed arguments from the request body.
fn parse(body: &[u8]) -> Result<(Option<String>, Option<JsonObject>)> {
    if body.trim_ascii().is_empty() {
        return Ok((None, None));
    }
    let value: Value = serde_json::from_slice(body).map_err(BodyError::MalformedJson)?;
    let mut members = match value {
        Value::Null => return Ok((None, None)),
        Value::Object(members) => members,
        _ => return Err(RequestError::invalid_parameter("body", "a JSON object")),
    };
    let arguments = match members.shift_remove("arguments") {
        None | Some(Value::Null) => None,
        Some(Value::Object(arguments)) => Some(arguments),
        Some(_) => return Err(RequestError::invalid_parameter("arguments", "an object")),
    };
    let reason = match members.shift_remove("reason") {
        None | Some(Value::Null) => None,
        Some(Value::String(reason)) => Some(reason),
        Some(_) => return Err(invalid_reason()),
    };
    Ok((reason, arguments))
}
