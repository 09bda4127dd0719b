use axum::extract::State;
use axum::{Extension, Json};
use pillion_core::store::Verdict;
use pillion_gateway::access::AccessGrant;
use pillion_management::approvals::{self, NewDecision};
use pillion_management::error::Result;
use pillion_wire::{ApprovalResponse, DecisionRequest, DenialRequest, route};

use crate::app::App;
use crate::routes::extract::{Caller, OptionalBody};
use crate::routes::parameters::PathParameter;

/// The parts of a request that decides on an approval: the approval's ID from the path, and the
/// grant of the deciding client.
type DecisionParts = (
    State<App>,
    PathParameter,
    Extension<AccessGrant>,
    Caller,
    OptionalBody<DecisionRequest>,
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
    (State(app), PathParameter(id), Extension(grant), caller, OptionalBody(request)): DecisionParts,
    verdict: Verdict,
) -> Result<Json<ApprovalResponse>> {
    let decision = NewDecision {
        verdict,
        user: caller.context.user,
        reason: request.reason,
        arguments: request.arguments,
    };
    Ok(Json(ApprovalResponse {
        success: true,
        approval: approvals::decide(&app, &grant, &id, decision).await?,
    }))
}
