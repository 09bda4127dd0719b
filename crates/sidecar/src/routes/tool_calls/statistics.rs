use axum::extract::State;
use axum::{Extension, Json};
use pillion_wire::{ToolCallStatistics, route};

use super::{CallQuery, ServerIds, entry};
use crate::app::App;
use crate::routes::error::RequestError;
use crate::routes::parameters::Parameters;
use crate::routes::store::store_of;
use pillion_gateway::access::AccessGrant;

/// Return the number of calls, success rate and latency of each tool.
///
/// For a token for one user, the statistics cover only the calls in which that user is verified.
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
pub(in crate::routes) async fn statistics(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    Parameters(query): Parameters<CallQuery>,
) -> Result<Json<ToolCallStatistics>, RequestError> {
    let servers = ServerIds::of(&app);
    let tools = store_of(&app)?
        .call_statistics(&query.filter(&grant, &servers)?)
        .await?;
    Ok(Json(ToolCallStatistics {
        success: true,
        tools: tools
            .into_iter()
            .map(|tool| entry::of_tool(tool, &servers))
            .collect(),
    }))
}
