use axum::extract::State;
use axum::{Extension, Json};
use pillion_core::store::{ApprovalDecision, ApprovalRecord, StoreErrorKind, Timestamp, Verdict};
use pillion_core::tool::{CallContext, JsonObject};
use pillion_wire::{ApprovalResponse, DecisionRequest, DenialRequest, route};
use serde_json::Value;

use super::{ApprovalError, entry, find};
use crate::app::App;
use crate::routes::body::{Body, BodyError};
use crate::routes::caller::Caller;
use crate::routes::error::RequestError;
use crate::routes::parameters::PathParameter;
use crate::routes::store::store_of;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::approvals::check_edit;
use pillion_gateway::timestamp::format_timestamp;

/// Maximum length of a reason, in characters.
const MAX_REASON_LEN: usize = 1_000;

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
/// A client that is waiting gets the result; any other client repeats the call. With `arguments`,
/// the call runs with these arguments instead of its own. The first decision counts. Requests over
/// TCP need a token with the scope `approve`; a token for one user decides only on approvals in
/// which that user is verified.
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
pub(in crate::routes) async fn approve(
    decision: DecisionParts,
) -> Result<Json<ApprovalResponse>, RequestError> {
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
pub(in crate::routes) async fn deny(
    decision: DecisionParts,
) -> Result<Json<ApprovalResponse>, RequestError> {
    decide(decision, Verdict::Denied).await
}

async fn decide(
    (State(app), PathParameter(id), Extension(grant), caller, Body(body)): DecisionParts,
    verdict: Verdict,
) -> Result<Json<ApprovalResponse>, RequestError> {
    let (reason, edited) = parse(&body)?;
    if edited.is_some() && verdict == Verdict::Denied {
        return Err(RequestError::parameter("arguments", "absent in a denial"));
    }
    let store = store_of(&app)?;
    let record = find(&*store, &id, &grant).await?;
    let arguments = match edited {
        Some(edited) if record.decision.is_none() => checked_edit(&app, &record, edited).await?,
        _ => None,
    };
    let holder = grant.principal();
    let decision = ApprovalDecision {
        verdict,
        // The principal is authenticated; the user is only what the client claims.
        by: match caller.context.user {
            Some(user) => format!("{holder} for {user}"),
            None => holder,
        },
        at: Timestamp::now(),
        reason,
        arguments,
    };
    match app.approvals().decide(&*store, &id, &decision).await {
        Ok(record) => Ok(Json(ApprovalResponse {
            success: true,
            approval: entry(record, usize::MAX),
        })),
        Err(error) if error.is_not_found() => Err(ApprovalError::Unknown.into()),
        Err(error) if error.kind() == StoreErrorKind::Conflict => {
            let decided = store.approval(&id).await?.ok_or(ApprovalError::Unknown)?;
            let reason = closed_reason(&decided);
            Err(ApprovalError::Conflict { reason }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the reason and the changed arguments.
fn parse(body: &[u8]) -> Result<(Option<String>, Option<JsonObject>), RequestError> {
    if body.trim_ascii().is_empty() {
        return Ok((None, None));
    }
    let wrong = || {
        let expected = format!("a string of at most {MAX_REASON_LEN} characters");
        RequestError::parameter("reason", expected)
    };
    let value: Value = serde_json::from_slice(body).map_err(BodyError::MalformedJson)?;
    let mut members = match value {
        Value::Null => return Ok((None, None)),
        Value::Object(members) => members,
        _ => return Err(wrong()),
    };
    let arguments = match members.shift_remove("arguments") {
        None | Some(Value::Null) => None,
        Some(Value::Object(arguments)) => Some(arguments),
        Some(_) => return Err(RequestError::parameter("arguments", "an object")),
    };
    let reason = match members.shift_remove("reason") {
        None | Some(Value::Null) => None,
        Some(Value::String(reason)) if reason.chars().count() <= MAX_REASON_LEN => {
            Some(reason).filter(|reason| !reason.trim().is_empty())
        }
        Some(_) => return Err(wrong()),
    };
    Ok((reason, arguments))
}

/// Returns the changed arguments as JSON, or `None` if nothing was changed. The arguments are
/// checked against the tool's schema if nothing in them is redacted; in any case they are checked
/// again when the call runs.
async fn checked_edit(
    app: &App,
    record: &ApprovalRecord,
    edited: JsonObject,
) -> Result<Option<String>, RequestError> {
    let wrong = |why: String| RequestError::parameter("arguments", format!("valid: {why}"));
    let shown: Value = serde_json::from_str(&record.arguments).unwrap_or_default();
    if shown.as_object() == Some(&edited) {
        return Ok(None);
    }
    let redaction = app.approvals().redaction();
    check_edit(redaction, &shown, &edited).map_err(|error| wrong(error.to_string()))?;
    let arguments = Value::Object(edited.clone());
    let has_redacted = redaction.shown(&arguments) != arguments;
    let tool = app.executor().find(&record.tool);
    if let (Some(tool), false) = (tool, has_redacted) {
        let context = CallContext {
            user: record.user.clone(),
            is_user_verified: record.user_is_verified,
            principal: record.principal.clone(),
            ..CallContext::default()
        };
        let executor = app.executor();
        let checked = executor.check_approved_arguments(&tool, edited, &context);
        checked.await.map_err(|failure| wrong(failure.message))?;
    }
    Ok(Some(arguments.to_string()))
}

/// Returns why the approval can no longer be decided, as text.
fn closed_reason(record: &ApprovalRecord) -> String {
    match &record.decision {
        Some(decision) => format!(
            "The call was {} by {} at {}",
            decision.verdict.as_str(),
            decision.by,
            format_timestamp(decision.at)
        ),
        None => format!(
            "The approval expired at {}: the call must be sent again",
            format_timestamp(record.expires_at)
        ),
    }
}
