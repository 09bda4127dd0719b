use axum::Json;
use axum::extract::State;
use pillion_wire::{Failure, ToolCallList};

use super::{CallQuery, Wanted, entry, store_of};
use crate::app::App;
use crate::routes::error::RequestError;

/// Lists recorded calls, the newest first (F4).
#[utoipa::path(
    get,
    path = "/api/v1/tool-calls/",
    tag = "tool-calls",
    summary = "List recorded calls, the newest first",
    params(Wanted),
    responses(
        (status = 200, description = "A page of calls", body = ToolCallList),
        (status = 400, description = "A parameter is not what it can be", body = Failure),
        (status = 503, description = "The store cannot be read", body = Failure),
    )
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    query: CallQuery,
) -> Result<Json<ToolCallList>, RequestError> {
    let page = store_of(&app)?.calls(&query.filter, &query.page).await?;
    Ok(Json(ToolCallList {
        success: true,
        calls: page.items.into_iter().map(entry::of).collect(),
        next: page.next.map(|cursor| cursor.to_string()),
    }))
}
