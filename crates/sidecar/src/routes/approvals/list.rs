use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use pillion_core::store::{ApprovalFilter, Timestamp, Verdict};
use pillion_wire::{ApprovalList, route};
use serde::Deserialize;

use super::{bytes, entry};
use crate::app::App;
use crate::routes::error::RequestError;
use crate::routes::page::{PageQuery, convert_records};
use crate::routes::parameters::Parameters;
use crate::routes::store::store_of;
use crate::routes::tagged::EntityTags;
use crate::routes::tool_calls::only_of;
use pillion_gateway::access::AccessGrant;

/// Maximum size of the arguments shown in a list, as JSON, in bytes.
const MAX_SHOWN: usize = 16 * 1024;

/// The filter of the approval list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::routes) struct ApprovalQuery {
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
pub(in crate::routes) async fn list(
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
