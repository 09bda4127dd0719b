use axum::extract::State;
use axum::{Extension, Json};
use pillion_core::store::{ApprovalDecision, ApprovalRecord, StoreErrorKind, Timestamp, Verdict};
use pillion_core::tool::{CallContext, JsonObject};
use pillion_wire::{ApprovalResponse, DecisionRequest, DenialRequest, route};
use serde_json::Value;

use super::{ApprovalError, build_entry, find};
use crate::app::App;
use crate::routes::error::{RequestError, Result};
use crate::routes::extract::{Body, BodyError, Caller};
use crate::routes::parameters::PathParameter;
use crate::routes::store::require_store;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::approvals::check_edit;
use pillion_gateway::timestamp::format_timestamp;

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 1_000;

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
    let (reason, edited_arguments) = parse(&body)?;
    if edited_arguments.is_some() && verdict == Verdict::Denied {
        return Err(RequestError::invalid_parameter(
            "arguments",
            "absent in a denial",
        ));
    }
    let store = require_store(&app)?;
    let record = find(&*store, &id, &grant).await?;
    let arguments = match edited_arguments {
        Some(edited_arguments) if record.decision.is_none() => {
            check_edited_arguments(&app, &record, edited_arguments).await?
        }
        _ => None,
    };
    let holder = grant.principal();
    let decision = ApprovalDecision {
        verdict,
        // Records the principal, which is authenticated, as well as the user, which the client only
        // claims.
        decider: match caller.context.user {
            Some(user) => format!("{holder} for {user}"),
            None => holder,
        },
        decided_at: Timestamp::now(),
        reason,
        arguments,
    };
    let unknown_approval = || ApprovalError::Unknown { id: id.clone() };
    match app.approvals().decide(&*store, &id, &decision).await {
        Ok(record) => Ok(Json(ApprovalResponse {
            success: true,
            approval: build_entry(record, usize::MAX),
        })),
        Err(error) if error.is_not_found() => Err(unknown_approval().into()),
        Err(error) if error.kind() == StoreErrorKind::Conflict => {
            let decided_record = store
                .find_approval(&id)
                .await?
                .ok_or_else(unknown_approval)?;
            let reason = closed_reason(&decided_record);
            Err(ApprovalError::Conflict { reason }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the reason and the changed arguments from the request body.
fn parse(body: &[u8]) -> Result<(Option<String>, Option<JsonObject>)> {
    if body.trim_ascii().is_empty() {
        return Ok((None, None));
    }
    let invalid_reason = || {
        let expected = format!("a string of at most {MAX_REASON_CHARS} characters");
        RequestError::invalid_parameter("reason", expected)
    };
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
        Some(Value::String(reason)) if reason.chars().count() <= MAX_REASON_CHARS => {
            Some(reason).filter(|reason| !reason.trim().is_empty())
        }
        Some(_) => return Err(invalid_reason()),
    };
    Ok((reason, arguments))
}

/// Returns the changed arguments as JSON, or `None` if nothing was changed. The arguments are
/// checked against the tool's schema if nothing in them is redacted. In any case, the executor
/// checks the arguments again when the call runs.
async fn check_edited_arguments(
    app: &App,
    record: &ApprovalRecord,
    edited_arguments: JsonObject,
) -> Result<Option<String>> {
    let invalid_arguments =
        |reason: String| RequestError::invalid_parameter("arguments", format!("valid: {reason}"));
    let shown_arguments: Value = serde_json::from_str(&record.arguments).unwrap_or_default();
    if shown_arguments.as_object() == Some(&edited_arguments) {
        return Ok(None);
    }
    let redaction = app.approvals().redaction();
    check_edit(redaction, &shown_arguments, &edited_arguments)
        .map_err(|error| invalid_arguments(error.to_string()))?;
    let arguments = Value::Object(edited_arguments.clone());
    let has_redacted_values = redaction.redact(&arguments) != arguments;
    let tool = app.executor().find(&record.tool);
    if let (Some(tool), false) = (tool, has_redacted_values) {
        let context = CallContext {
            user: record.user.clone(),
            is_user_verified: record.user_is_verified,
            principal: record.principal.clone(),
            ..CallContext::default()
        };
        let executor = app.executor();
        let check_future = executor.check_approved_arguments(&tool, edited_arguments, &context);
        check_future
            .await
            .map_err(|failure| invalid_arguments(failure.message))?;
    }
    Ok(Some(arguments.to_string()))
}

/// Returns why the approval can no longer be decided, as text.
fn closed_reason(record: &ApprovalRecord) -> String {
    match &record.decision {
        Some(decision) => format!(
            "The call was {} by {} at {}",
            decision.verdict.as_str(),
            decision.decider,
            format_timestamp(decision.decided_at)
        ),
        None => format!(
            "The approval expired at {}: the call must be sent again",
            format_timestamp(record.expires_at)
        ),
    }
}
