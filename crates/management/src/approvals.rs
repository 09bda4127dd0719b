//! Calls that need approval: lists of approvals, and decisions.

use pillion_core::store::{
    ApprovalDecision, ApprovalFilter, ApprovalRecord, Store, StoreErrorKind, Timestamp, Verdict,
};
use pillion_core::tool::{CallContext, JsonObject, QuotaAccount};
use pillion_gateway::Gateway;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::approvals::check_edit;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::timestamp::format_timestamp;
use pillion_wire::{ApprovalEntry, ApprovalList};
use serde::Deserialize;
use serde_json::Value;

use crate::calls::user_filter;
use crate::error::{CONFLICT, NOT_FOUND, RequestError, Result, route_error};
use crate::page::{PageQuery, convert_records, stored_json};
use crate::store::require_store;

/// Maximum length of a reason, in characters.
pub const MAX_REASON_CHARS: usize = 1_000;

/// Maximum size of an approval's arguments that a list shows, as JSON, in bytes.
const MAX_LISTED_BYTES: usize = 16 * 1024;

route_error! {
    /// The reason why an approval cannot be shown or decided.
    #[derive(Debug, thiserror::Error)]
    enum ApprovalError {
        #[error("There is no approval '{}'", truncate_input(id))]
        Unknown { id: String } => NOT_FOUND,
        #[error("{reason}")]
        Conflict { reason: String } => CONFLICT,
    }
}

/// The filter of the approval list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ApprovalQuery {
    /// Restricts the list to approvals with this status: `pending`, `approved` (used or not),
    /// `denied` or `expired`.
    #[param(inline, value_type = Option<StatusName>)]
    pub status: Option<String>,
    /// Restricts the list to approvals for calls of this tool.
    pub tool: Option<String>,
    /// Restricts the list to approvals for calls on behalf of this user.
    pub user: Option<String>,
}

/// The values of the query parameter `status`, for the OpenAPI document.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes a parameter, and is never constructed")]
enum StatusName {
    Pending,
    Approved,
    Denied,
    Expired,
}

impl ApprovalQuery {
    /// Returns the filter, restricted to the approvals that `grant` may see.
    fn build_filter(&self, grant: &AccessGrant) -> Result<ApprovalFilter> {
        let now = Some(Timestamp::now());
        let mut filter = ApprovalFilter {
            tool: self.tool.clone(),
            user: user_filter(grant, self.user.clone())?,
            only_verified: grant.only_user().is_some(),
            ..ApprovalFilter::default()
        };
        match self.status.as_deref() {
            None => {}
            Some("pending") => filter.open_at = now,
            Some("expired") => filter.expired_at = now,
            Some(name) => {
                let verdict = Verdict::from_name(name);
                let statuses = ["pending", "approved", "denied", "expired"];
                let invalid_status = || RequestError::not_one_of("status", statuses);
                filter.verdict = Some(verdict.ok_or_else(invalid_status)?);
            }
        }
        Ok(filter)
    }
}

/// Lists the approvals that `grant` may see, newest first.
///
/// # Errors
/// The query is invalid, or the store cannot be read.
pub async fn list(
    gateway: &Gateway,
    grant: &AccessGrant,
    query: &ApprovalQuery,
    page: PageQuery,
) -> Result<ApprovalList> {
    let filter = query.build_filter(grant)?;
    let approvals_page = require_store(gateway)?
        .approvals(&filter, &page.request()?)
        .await?;
    let to_entry = |record| build_entry(record, MAX_LISTED_BYTES);
    let approvals = convert_records(grant, approvals_page.items, count_json_bytes, to_entry);
    Ok(ApprovalList {
        success: true,
        approvals: approvals.await,
        next: approvals_page.next.map(|cursor| cursor.to_string()),
    })
}

/// Returns the number of approvals that wait for a decision and that `grant` may see.
///
/// # Errors
/// The store cannot be read.
pub async fn count_pending(gateway: &Gateway, grant: &AccessGrant) -> Result<u64> {
    let store = require_store(gateway)?;
    let only_user = grant.only_user();
    let account = QuotaAccount::new(only_user, only_user.is_some(), None);
    let counts = store
        .count_open_approvals(&account, Timestamp::now())
        .await?;
    Ok(match only_user {
        Some(_) => counts.account_total,
        None => counts.total,
    })
}

/// Returns the approval with this ID, if `grant` may see the approval.
///
/// # Errors
/// There is no such approval, or the store cannot be read.
pub async fn find(gateway: &Gateway, grant: &AccessGrant, id: &str) -> Result<ApprovalEntry> {
    let record = find_record(&*require_store(gateway)?, id, grant).await?;
    Ok(build_entry(record, usize::MAX))
}

/// A decision on an approval.
#[derive(Debug)]
pub struct NewDecision {
    /// Whether the call may run.
    pub verdict: Verdict,
    /// The user who decides. Recorded in addition to the principal, because clients only claim to
    /// act for the user.
    pub user: Option<String>,
    /// Why, in at most [`MAX_REASON_CHARS`] characters.
    pub reason: Option<String>,
    /// The arguments with which an approved call runs, in place of its own.
    pub arguments: Option<JsonObject>,
}

/// Decides on an approval that `grant` may see. If an approval is decided twice, the first decision
/// counts.
///
/// # Errors
/// There is no such approval; the approval is already decided, or has expired; the arguments are
/// invalid; the store cannot be written.
pub async fn decide(
    gateway: &Gateway,
    grant: &AccessGrant,
    id: &str,
    decision: NewDecision,
) -> Result<ApprovalEntry> {
    if decision.arguments.is_some() && decision.verdict == Verdict::Denied {
        let expected = "absent in a denial";
        return Err(RequestError::invalid_parameter("arguments", expected));
    }
    let reason = decision.reason.filter(|reason| !reason.trim().is_empty());
    if reason
        .as_ref()
        .is_some_and(|reason| reason.chars().count() > MAX_REASON_CHARS)
    {
        let expected = format!("at most {MAX_REASON_CHARS} characters");
        return Err(RequestError::invalid_parameter("reason", expected));
    }
    let store = require_store(gateway)?;
    let record = find_record(&*store, id, grant).await?;
    let arguments = match decision.arguments {
        Some(edited_arguments) if record.decision.is_none() => {
            check_edited_arguments(gateway, &record, edited_arguments).await?
        }
        _ => None,
    };
    let principal = grant.principal();
    let recorded_decision = ApprovalDecision {
        verdict: decision.verdict,
        decider: match decision.user {
            Some(user) => format!("{principal} for {user}"),
            None => principal,
        },
        decided_at: Timestamp::now(),
        reason,
        arguments,
    };
    match gateway
        .approvals()
        .decide(&*store, id, &recorded_decision)
        .await
    {
        Ok(record) => Ok(build_entry(record, usize::MAX)),
        Err(error) if error.is_not_found() => Err(unknown_error(id)),
        Err(error) if error.kind() == StoreErrorKind::Conflict => {
            let stored_record = store.find_approval(id).await?;
            let decided_record = stored_record.ok_or_else(|| unknown_error(id))?;
            let reason = closed_reason(&decided_record);
            Err(ApprovalError::Conflict { reason }.into())
        }
        Err(error) => Err(error.into()),
    }
}

fn unknown_error(id: &str) -> RequestError {
    ApprovalError::Unknown { id: id.to_owned() }.into()
}

/// Returns the approval with this ID, if the client may see the approval.
async fn find_record(store: &dyn Store, id: &str, grant: &AccessGrant) -> Result<ApprovalRecord> {
    let stored_record = store.find_approval(id).await?;
    let visible_record =
        stored_record.filter(|record| grant.may_see_records_of(record.verified_user()));
    visible_record.ok_or_else(|| unknown_error(id))
}

/// Returns the size of an approval's stored JSON, in bytes.
fn count_json_bytes(record: &ApprovalRecord) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let decision = record.decision.as_ref();
    let edited_bytes = decision.map_or(0, |decision| length(&decision.arguments));
    record.arguments.len() + length(&record.forwarded) + edited_bytes
}

/// Converts a stored approval to its representation in the REST API. Arguments and parameters of
/// more than `max_bytes` bytes of JSON are absent.
fn build_entry(record: ApprovalRecord, max_bytes: usize) -> ApprovalEntry {
    let status = record.status(Timestamp::now()).to_owned();
    let listed_json = |text: &str| (text.len() <= max_bytes).then(|| stored_json(text));
    let mut entry = ApprovalEntry {
        id: record.id,
        status,
        tool: record.tool,
        server: record.server,
        user: record.user,
        user_is_verified: record.user_is_verified,
        principal: record.principal,
        channel: record.channel,
        arguments: listed_json(&record.arguments),
        forwarded: record.forwarded.as_deref().and_then(listed_json),
        arguments_hash: record.arguments_hash,
        call_id: record.call.map(|call| call.to_string()),
        created_at: format_timestamp(record.created_at),
        expires_at: format_timestamp(record.expires_at),
        used_at: record.used_at.map(format_timestamp),
        ..ApprovalEntry::default()
    };
    if let Some(decision) = record.decision {
        let edited_arguments = decision.arguments.filter(|_| entry.arguments.is_some());
        entry.approved_arguments = edited_arguments.as_deref().and_then(listed_json);
        entry.decided_by = Some(decision.decider);
        entry.decided_at = Some(format_timestamp(decision.decided_at));
        entry.reason = decision.reason;
    }
    entry
}

/// Returns the changed arguments as JSON, or `None` if nothing was changed. The arguments are
/// checked against the tool's schema if nothing in them is redacted. In any case, the executor
/// checks the arguments again when the call runs.
async fn check_edited_arguments(
    gateway: &Gateway,
    record: &ApprovalRecord,
    edited_arguments: JsonObject,
) -> Result<Option<String>> {
    let invalid_arguments =
        |reason: String| RequestError::invalid_parameter("arguments", format!("valid: {reason}"));
    let shown_arguments: Value = serde_json::from_str(&record.arguments).unwrap_or_default();
    if shown_arguments.as_object() == Some(&edited_arguments) {
        return Ok(None);
    }
    let redaction = gateway.approvals().redaction();
    check_edit(redaction, &shown_arguments, &edited_arguments)
        .map_err(|error| invalid_arguments(error.to_string()))?;
    let arguments = Value::Object(edited_arguments.clone());
    let has_redacted_values = redaction.redact(&arguments) != arguments;
    let tool = gateway.executor().find(&record.tool);
    if let (Some(tool), false) = (tool, has_redacted_values) {
        let context = CallContext {
            user: record.user.clone(),
            is_user_verified: record.user_is_verified,
            principal: record.principal.clone(),
            ..CallContext::default()
        };
        let executor = gateway.executor();
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
