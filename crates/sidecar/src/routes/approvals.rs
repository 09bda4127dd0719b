//! Routes under `/api/v1/approvals`: calls that need approval.

pub(super) mod decide;

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use pillion_gateway::access::AccessGrant;
use pillion_management::approvals::{self, ApprovalQuery};
use pillion_management::error::Result;
use pillion_management::page::PageQuery;
use pillion_wire::{ApprovalList, ApprovalResponse, route};

use super::etag::EntityTags;
use super::parameters::{Parameters, PathParameter};
use crate::app::App;

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
    client_tags.respond(&approvals::list(&app, &grant, &query, page).await?)
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
    Ok(Json(ApprovalResponse {
        success: true,
        approval: approvals::find(&app, &grant, &id).await?,
    }))
}
