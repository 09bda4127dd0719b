use axum::Json;
use axum::extract::State;
use pillion_wire::ToolCallStatistics;

use super::{Wanted, entry};
use crate::app::App;
use crate::routes::error::RequestError;
use crate::routes::parameters::Parameters;
use crate::routes::store_of;

/// What is known of each tool's calls: counts, success rate, latency.
#[utoipa::path(
    get,
    path = "/api/v1/tool-calls/statistics",
    tag = "tool-calls",
    summary = "Counts, success rate and latency of each tool",
    params(Wanted),
    responses(
        (status = 200, description = "Tool by tool", body = ToolCallStatistics),
        (status = 400, description = "A parameter is not what it can be"),
        (status = 503, description = "The store cannot be read"),
    )
)]
pub(in crate::routes) async fn statistics(
    State(app): State<App>,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Json<ToolCallStatistics>, RequestError> {
    let tools = store_of(&app)?.call_statistics(&wanted.filter()?).await?;
    Ok(Json(ToolCallStatistics {
        success: true,
        tools: tools.into_iter().map(entry::of_tool).collect(),
    }))
}
