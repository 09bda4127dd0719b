use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use pillion_core::store::{ApprovalDecision, ApprovalRecord, StoreErrorKind, Timestamp, Verdict};
use pillion_wire::{ApprovalResponse, DecisionRequest};

use super::entry;
use crate::app::App;
use crate::routes::body::Body;
use crate::routes::caller::Caller;
use crate::routes::error::RequestError;
use crate::routes::store_of;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::timestamp::format_timestamp;

/// Maximum length of a reason, in characters.
const MAX_REASON_LEN: usize = 1_000;

/// The grant of the client that decides.
type Decider = Extension<AccessGrant>;

/// Approves a call, which then runs once.
#[utoipa::path(
    post,
    path = "/api/v1/approvals/{id}/approve",
    tag = "approvals",
    summary = "Approve one run of a call",
    description = "A client that is waiting gets the result; any other client repeats the call. The first decision counts. Requests over TCP need a token with the scope `approve`; a token for one user decides only on approvals in which that user is verified.",
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
pub(in crate::routes) async fn approve(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    decider: Decider,
    Caller { context, .. }: Caller,
    Body(body): Body,
) -> Result<Json<ApprovalResponse>, RequestError> {
    decide(&app, path, &decider, context.user, &body, Verdict::Approved).await
}

/// Denies a call.
#[utoipa::path(
    post,
    path = "/api/v1/approvals/{id}/deny",
    tag = "approvals",
    summary = "Deny a call",
    description = "The call fails with `denied`. Until the approval expires, identical calls fail in the same way.",
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
pub(in crate::routes) async fn deny(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    decider: Decider,
    Caller { context, .. }: Caller,
    Body(body): Body,
) -> Result<Json<ApprovalResponse>, RequestError> {
    decide(&app, path, &decider, context.user, &body, Verdict::Denied).await
}

async fn decide(
    app: &App,
    path: Result<Path<String>, PathRejection>,
    Extension(grant): &Decider,
    user: Option<String>,
    body: &[u8],
    verdict: Verdict,
) -> Result<Json<ApprovalResponse>, RequestError> {
    let Path(id) = path.map_err(|_| RequestError::UnknownApproval)?;
    let reason = reason_of(body)?;
    let holder = grant.principal();
    let decision = ApprovalDecision {
        verdict,
        // The principal is authenticated; the user is a claim of the client.
        by: match user {
            Some(user) => format!("{holder} for {user}"),
            None => holder,
        },
        at: Timestamp::now(),
        reason,
        arguments: None,
    };
    let store = store_of(app)?;
    let record = store.approval(&id).await?;
    if record.is_none_or(|record| !grant.may_see_records_of(record.verified_user())) {
        return Err(RequestError::UnknownApproval);
    }
    let decided = app.approvals().decide(&*store, &id, &decision).await;
    match decided {
        Ok(record) => Ok(Json(ApprovalResponse {
            success: true,
            approval: entry(record),
        })),
        Err(error) if error.is_not_found() => Err(RequestError::UnknownApproval),
        Err(error) if error.kind() == StoreErrorKind::Conflict => {
            let record = store.approval(&id).await?;
            let record = record.ok_or(RequestError::UnknownApproval)?;
            Err(RequestError::NotOpen { why: why(&record) })
        }
        Err(error) => Err(error.into()),
    }
}

fn reason_of(body: &[u8]) -> Result<Option<String>, RequestError> {
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    let wrong = || {
        let expected = format!("a string of at most {MAX_REASON_LEN} characters");
        RequestError::parameter("reason", expected)
    };
    let value: serde_json::Value =
        serde_json::from_slice(body).map_err(RequestError::MalformedJson)?;
    let request: Option<DecisionRequest> = serde_json::from_value(value).map_err(|_| wrong())?;
    let DecisionRequest { reason } = request.unwrap_or_default();
    match reason {
        Some(reason) if reason.chars().count() > MAX_REASON_LEN => Err(wrong()),
        reason => Ok(reason.filter(|reason| !reason.trim().is_empty())),
    }
}

/// Returns why the approval can no longer be decided.
fn why(record: &ApprovalRecord) -> String {
    match &record.decision {
        Some(decision) => format!(
            "The call was {} by {} at {}",
            decision.verdict.as_str(),
            decision.by,
            format_timestamp(decision.at)
        ),
        None => format!(
            "The approval expired at {}",
            format_timestamp(record.expires_at)
        ),
    }
}
