use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use pillion_wire::{ApprovalResponse, route};

use super::{ApprovalError, entry};
use crate::app::App;
use crate::routes::error::RequestError;
use crate::routes::store::store_of;
use pillion_gateway::access::AccessGrant;

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
pub(in crate::routes) async fn show(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<ApprovalResponse>, RequestError> {
    let Path(id) = path.map_err(|_| ApprovalError::Unknown)?;
    let record = store_of(&app)?.approval(&id).await?;
    let record = record.filter(|record| grant.may_see_records_of(record.verified_user()));
    let record = record.ok_or(ApprovalError::Unknown)?;
    Ok(Json(ApprovalResponse {
        success: true,
        approval: entry(record, usize::MAX),
    }))
}
