use axum::Json;
use axum::extract::State;
use pillion_wire::SchemaList;

use super::Filter;
use crate::app::App;

/// Lists every tool's schema in OpenAI's form (I1, A3). Asks MCP servers as the list of
/// tools does.
#[utoipa::path(
    get,
    path = "/api/v1/tools/schemas",
    tag = "tools",
    summary = "List the tools' schemas in OpenAI's form",
    description = "MCP servers are asked as for the list of tools.",
    params(Filter),
    responses((status = 200, description = "The schemas", body = SchemaList))
)]
pub(in crate::routes) async fn schemas(State(app): State<App>, filter: Filter) -> Json<SchemaList> {
    let unavailable_servers = app.discover().await;
    let schemas = app.registry().schemas(filter.category.as_deref());
    Json(SchemaList {
        success: true,
        total: schemas.len(),
        schemas,
        unavailable_servers,
    })
}
