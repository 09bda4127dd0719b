//! Routes under `/api/v1/tool-calls`: the call log.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use pillion_gateway::access::AccessGrant;
use pillion_management::calls::{self, CallQuery};
use pillion_management::error::Result;
use pillion_management::page::PageQuery;
use pillion_wire::{ToolCallList, ToolCallResponse, ToolCallStatistics, route};

use super::parameters::{Parameters, PathParameter};
use crate::app::App;

/// List recorded calls, newest first.
///
/// With a token that is restricted to one user, returns only the calls with that verified user.
#[utoipa::path(
    get,
    path = route::LIST_TOOL_CALLS.path,
    params(CallQuery, PageQuery),
    responses(
        (status = 200, description = "A page of calls", body = ToolCallList),
        (status = 400, description = "A parameter is invalid"),
        (status = 403, description = "The token is for another user"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn list(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    Parameters(query): Parameters<CallQuery>,
    Parameters(page): Parameters<PageQuery>,
) -> Result<Json<ToolCallList>> {
    let servers = app.servers().map(Arc::as_ref);
    let list = calls::list(&app, servers, &grant, query, page).await?;
    Ok(Json(list))
}

/// Return the number of calls, success rate and latency of each tool.
///
/// With a token that is restricted to one user, the statistics cover only the calls with that
/// verified user.
#[utoipa::path(
    get,
    path = route::TOOL_CALL_STATISTICS.path,
    params(CallQuery),
    responses(
        (status = 200, description = "The statistics of each tool", body = ToolCallStatistics),
        (status = 400, description = "A parameter is invalid"),
        (status = 403, description = "The token is for another user"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn statistics(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    Parameters(query): Parameters<CallQuery>,
) -> Result<Json<ToolCallStatistics>> {
    let servers = app.servers().map(Arc::as_ref);
    let statistics = calls::statistics(&app, servers, &grant, query).await?;
    Ok(Json(statistics))
}

/// Show a recorded call.
///
/// With a token that is restricted to one user, returns only calls with that verified user.
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
pub(super) async fn show(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    PathParameter(id): PathParameter,
) -> Result<Json<ToolCallResponse>> {
    let servers = app.servers().map(Arc::as_ref);
    Ok(Json(ToolCallResponse {
        success: true,
        call: calls::find(&app, servers, &grant, &id).await?,
    }))
}
