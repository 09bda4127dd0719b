//! Routes under `/api/v1/approvals`: calls that need approval.

pub(super) mod decide;

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use pillion_core::store::{ApprovalFilter, ApprovalRecord, Store, Timestamp, Verdict};
use pillion_wire::{ApprovalEntry, ApprovalList, ApprovalResponse, route};
use serde::Deserialize;

use super::error::{CONFLICT, NOT_FOUND, RequestError, route_error};
use super::page::{PageQuery, convert_records, stored_json};
use super::parameters::{Parameters, PathParameter};
use super::store::store_of;
use super::tagged::EntityTags;
use super::tool_calls::only_of;
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::timestamp::format_timestamp;

/// Maximum size of the arguments shown in a list, as JSON, in bytes.
const MAX_SHOWN: usize = 16 * 1024;

route_error! {
    /// Why an approval cannot be shown or decided.
    #[derive(Debug, thiserror::Error)]
    enum ApprovalError {
        #[error("There is no approval with this ID")]
        Unknown => NOT_FOUND,
        #[error("{reason}")]
        Conflict { reason: String } => CONFLICT,
    }
}

/// The filter of the approval list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ApprovalQuery {
    /// Only approvals with this status: `pending`, `approved` (used or not), `denied` or `expired`.
    #[param(inline, value_type = Option<StatusName>)]
    status: Option<String>,
    /// Only approvals for calls of this tool.
    tool: Option<String>,
    /// Only approvals for calls on behalf of this user.
    user: Option<String>,
}

/// The status names, for the OpenAPI document.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes a parameter, and is never made")]
enum StatusName {
    Pending,
    Approved,
    Denied,
    Expired,
}

impl ApprovalQuery {
    /// Returns the filter, restricted to the approvals that `grant` may see.
    fn filter(&self, grant: &AccessGrant) -> Result<ApprovalFilter, RequestError> {
        let now = Some(Timestamp::now());
        let mut filter = ApprovalFilter {
            tool: self.tool.clone(),
            user: only_of(grant.only_user(), self.user.clone())?,
            only_verified: grant.only_user().is_some(),
            ..ApprovalFilter::default()
        };
        match self.status.as_deref() {
            None => {}
            Some("pending") => filter.open_at = now,
            Some("expired") => filter.expired_at = now,
            Some(name) => {
                let verdict = Verdict::from_name(name);
                let known = ["pending", "approved", "denied", "expired"];
                let wrong = || RequestError::word("status", known);
                filter.verdict = Some(verdict.ok_or_else(wrong)?);
            }
        }
        Ok(filter)
    }
}

/// List approvals, newest first.
///
/// A token for one user sees only the approvals in which that user is verified.
#[utoipa::path(
    get,
    path = route::LIST_APPROVALS.path,
    params(
        ApprovalQuery,
        PageQuery,
        ("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the page")
    ),
    responses(
        (status = 200, description = "A page of approvals", body = ApprovalList),
        (status = 304, description = "The page has not changed"),
        (status = 400, description = "A parameter is invalid"),
        (status = 403, description = "The token is for another user"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn list(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    Parameters(query): Parameters<ApprovalQuery>,
    Parameters(page): Parameters<PageQuery>,
    known: EntityTags,
) -> Result<Response, RequestError> {
    let filter = query.filter(&grant)?;
    let page = store_of(&app)?.approvals(&filter, &page.request()?).await?;
    let to_entry = |record| entry(record, MAX_SHOWN);
    let approvals = convert_records(&grant, page.items, bytes, to_entry);
    known.or(&ApprovalList {
        success: true,
        approvals: approvals.await,
        next: page.next.map(|cursor| cursor.to_string()),
    })
}

/// Show an approval.
///
/// A token for one user sees only the approvals in which that user is verified.
#[utoipa::path(
    get,
    path = route::SHOW_APPROVAL.path,
    params(("id" = String, Path, description = "The approval's ID, from a result's `metadata.approval_id`")),
    responses(
        (status = 200, description = "The approval", body = ApprovalResponse),
        (status = 404, description = "Approval not found"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn show(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    PathParameter(id): PathParameter,
) -> Result<Json<ApprovalResponse>, RequestError> {
    let record = find(&*store_of(&app)?, &id, &grant).await?;
    Ok(Json(ApprovalResponse {
        success: true,
        approval: entry(record, usize::MAX),
    }))
}

/// Returns the approval with this ID, if the client may see it.
async fn find(
    store: &dyn Store,
    id: &str,
    grant: &AccessGrant,
) -> Result<ApprovalRecord, RequestError> {
    let found = store.approval(id).await?;
    let visible = found.filter(|record| grant.may_see_records_of(record.verified_user()));
    Ok(visible.ok_or(ApprovalError::Unknown)?)
}

/// Returns the size of an approval's stored JSON, in bytes.
fn bytes(record: &ApprovalRecord) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let decision = record.decision.as_ref();
    let edited = decision.map_or(0, |decision| length(&decision.arguments));
    record.arguments.len() + length(&record.forwarded) + edited
}

/// Converts a stored approval to its form in the API. Arguments and parameters of more than
/// `max_shown` bytes of JSON are absent.
fn entry(record: ApprovalRecord, max_shown: usize) -> ApprovalEntry {
    let status = record.status(Timestamp::now()).to_owned();
    let shown = |text: &str| (text.len() <= max_shown).then(|| stored_json(text));
    let mut entry = ApprovalEntry {
        id: record.id,
        status,
        tool: record.tool,
        server: record.server,
        user: record.user,
        user_is_verified: record.user_is_verified,
        principal: record.principal,
        channel: record.channel,
        arguments: shown(&record.arguments),
        forwarded: record.forwarded.as_deref().and_then(shown),
        arguments_hash: record.arguments_hash,
        call_id: record.call.map(|call| call.to_string()),
        created_at: format_timestamp(record.created_at),
        expires_at: format_timestamp(record.expires_at),
        used_at: record.used_at.map(format_timestamp),
        ..ApprovalEntry::default()
    };
    if let Some(decision) = record.decision {
        let edited = decision.arguments.filter(|_| entry.arguments.is_some());
        entry.approved_arguments = edited.as_deref().and_then(shown);
        entry.decided_by = Some(decision.by);
        entry.decided_at = Some(format_timestamp(decision.at));
        entry.reason = decision.reason;
    }
    entry
}
