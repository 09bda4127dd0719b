use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use pillion_core::store::CallId;
use pillion_wire::{ToolCallResponse, route};

use super::{ServerIds, entry};
use crate::app::App;
use crate::routes::error::{NOT_FOUND, RequestError, route_error};
use crate::routes::store::store_of;
use pillion_gateway::access::AccessGrant;

route_error! {
    /// No visible call has the ID.
    #[derive(Debug, thiserror::Error)]
    #[error("There is no recorded call with this ID")]
    struct UnknownCall => NOT_FOUND
}

/// Show a recorded call.
///
/// A token for one user sees only the calls in which that user is verified.
#[utoipa::path(
    get,
    path = route::SHOW_TOOL_CALL.path,
    params(("id" = String, Path, description = "The call's ID, from a result's `metadata.record_id`")),
    responses(
        (status = 200, description = "The call", body = ToolCallResponse),
        (status = 404, description = "Call not found"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<ToolCallResponse>, RequestError> {
    let id = path.ok().and_then(|Path(id)| id.parse::<CallId>().ok());
    let store = store_of(&app)?;
    let call = match id {
        Some(id) => store.call(id).await?,
        None => None,
    };
    let call = call.filter(|call| grant.may_see_records_of(call.verified_user()));
    let call = call.ok_or(UnknownCall)?;
    Ok(Json(ToolCallResponse {
        success: true,
        call: entry::of(call, &ServerIds::of(&app)),
    }))
}
