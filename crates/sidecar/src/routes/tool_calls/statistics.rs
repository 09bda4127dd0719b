use axum::extract::State;
use axum::{Extension, Json};
use pillion_wire::ToolCallStatistics;

use super::{CallQuery, ServerIds, entry};
use crate::access::Grant;
use crate::app::App;
use crate::routes::error::RequestError;
use crate::routes::parameters::Parameters;
use crate::routes::store_of;

/// Returns counts, success rate and latency of each tool.
#[utoipa::path(
    get,
    path = "/api/v1/tool-calls/statistics",
    tag = "tool-calls",
    summary = "Counts, success rate and latency of each tool",
    description = "With a token that was made for one user, of that user's calls.",
    params(CallQuery),
    responses(
        (status = 200, description = "Tool by tool", body = ToolCallStatistics),
        (status = 400, description = "A parameter is not what it can be"),
        (status = 403, description = "The token is another user's"),
        (status = 503, description = "The store cannot be read"),
    )
)]
pub(in crate::routes) async fn statistics(
    State(app): State<App>,
    Extension(grant): Extension<Grant>,
    Parameters(wanted): Parameters<CallQuery>,
) -> Result<Json<ToolCallStatistics>, RequestError> {
    let servers = ServerIds::of(&app);
    let tools = store_of(&app)?
        .call_statistics(&wanted.filter(&grant, &servers)?)
        .await?;
    Ok(Json(ToolCallStatistics {
        success: true,
        tools: tools
            .into_iter()
            .map(|tool| entry::of_tool(tool, &servers))
            .collect(),
    }))
}
