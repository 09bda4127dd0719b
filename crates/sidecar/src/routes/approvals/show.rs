use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use pillion_wire::ApprovalAnswer;

use super::entry;
use crate::access::Grant;
use crate::app::App;
use crate::routes::error::RequestError;
use crate::routes::store_of;

/// Shows one approval.
#[utoipa::path(
    get,
    path = "/api/v1/approvals/{id}",
    tag = "approvals",
    summary = "Show one call that waits, or waited, for approval",
    description = "A token that was made for one user sees that user's, unless it may decide.",
    params(("id" = String, Path, description = "The approval's id, as in a result's `metadata.approval_id`")),
    responses(
        (status = 200, description = "The approval", body = ApprovalAnswer),
        (status = 404, description = "There is no such approval"),
        (status = 503, description = "The store cannot be read"),
    )
)]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    Extension(grant): Extension<Grant>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<ApprovalAnswer>, RequestError> {
    let Path(id) = path.map_err(|_| RequestError::UnknownApproval)?;
    let record = store_of(&app)?.approval(&id).await?;
    let own = grant.approvals_of();
    let record = record.filter(|record| own.is_none() || own == record.user.as_deref());
    let record = record.ok_or(RequestError::UnknownApproval)?;
    Ok(Json(ApprovalAnswer {
        success: true,
        approval: entry(record),
    }))
}
