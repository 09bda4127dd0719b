use axum::Json;
use axum::extract::State;
use pillion_wire::{Failure, ToolCallStatistics};

use super::{CallQuery, Wanted, entry, store_of};
use crate::app::App;
use crate::routes::error::RequestError;

/// What is known of each tool's calls: counts, success rate, latency.
#[utoipa::path(
    get,
    path = "/api/v1/tool-calls/statistics",
    tag = "tool-calls",
    summary = "Counts, success rate and latency of each tool",
    params(Wanted),
    responses(
        (status = 200, description = "Tool by tool", body = ToolCallStatistics),
        (status = 400, description = "A parameter is not what it can be", body = Failure),
        (status = 503, description = "The store cannot be read", body = Failure),
    )
)]
pub(in crate::routes) async fn statistics(
    State(app): State<App>,
    query: CallQuery,
) -> Result<Json<ToolCallStatistics>, RequestError> {
    let tools = store_of(&app)?.call_statistics(&query.filter).await?;
    Ok(Json(ToolCallStatistics {
        success: true,
        tools: tools.into_iter().map(entry::of_tool).collect(),
    }))
}
