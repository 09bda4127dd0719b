//! Routes under `/api/v1/approvals`: calls that need approval.

pub(super) mod decide;

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use pillion_core::store::{ApprovalFilter, ApprovalRecord, Store, Timestamp, Verdict};
use pillion_wire::{ApprovalEntry, ApprovalList, ApprovalResponse, route};
use serde::Deserialize;

use super::error::{CONFLICT, NOT_FOUND, RequestError, Result, route_error};
use super::etag::EntityTags;
use super::page::{PageQuery, convert_records, stored_json};
use super::parameters::{Parameters, PathParameter};
use super::store::require_store;
use super::tool_calls::user_filter;
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::timestamp::format_timestamp;

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
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ApprovalQuery {
    /// Restricts the list to approvals with this status: `pending`, `approved` (used or not),
    /// `denied` or `expired`.
    #[param(inline, value_type = Option<StatusName>)]
    status: Option<String>,
    /// Restricts the list to approvals for calls of this tool.
    tool: Option<String>,
    /// Restricts the list to approvals for calls on behalf of this user.
    user: Option<String>,
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
            user: user_filter(grant.only_user(), self.user.clone())?,
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

/// List approvals, newest first.
///
/// With a token that is restricted to one user, returns only the approvals of calls with that
/// verified user.
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
    client_tags: EntityTags,
) -> Result<Response> {
    let filter = query.build_filter(&grant)?;
    let approvals_page = require_store(&app)?
        .approvals(&filter, &page.request()?)
        .await?;
    let to_entry = |record| build_entry(record, MAX_LISTED_BYTES);
    let approvals = convert_records(&grant, approvals_page.items, count_json_bytes, to_entry);
    client_tags.respond(&ApprovalList {
        success: true,
        approvals: approvals.await,
        next: approvals_page.next.map(|cursor| cursor.to_string()),
    })
}

/// Show an approval.
///
/// With a token that is restricted to one user, returns only the approvals of calls with that
/// verified user.
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
) -> Result<Json<ApprovalResponse>> {
    let record = find(&*require_store(&app)?, &id, &grant).await?;
    Ok(Json(ApprovalResponse {
        success: true,
        approval: build_entry(record, usize::MAX),
    }))
}

/// Returns the approval with this ID, if the client may see the approval.
async fn find(store: &dyn Store, id: &str, grant: &AccessGrant) -> Result<ApprovalRecord> {
    let stored_record = store.find_approval(id).await?;
    let visible_record =
        stored_record.filter(|record| grant.may_see_records_of(record.verified_user()));
    let unknown_approval = || ApprovalError::Unknown { id: id.to_owned() };
    Ok(visible_record.ok_or_else(unknown_approval)?)
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
