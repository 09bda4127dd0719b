use axum::Json;
use axum::extract::State;
use pillion_wire::SchemaList;

use super::Filter;
use crate::app::App;
use crate::routes::caller::Caller;
use crate::routes::parameters::Parameters;

/// Lists every tool's schema in OpenAI's form (I1, A3). Asks MCP servers as the list of
/// tools does.
#[utoipa::path(
    get,
    path = "/api/v1/tools/schemas",
    tag = "tools",
    summary = "List the tools' schemas in OpenAI's form",
    description = "MCP servers are asked as for the list of tools.",
    params(
        Filter,
        ("x-pillion-user" = Option<String>, Header, description = "The user whose own tools are listed as well")
    ),
    responses((status = 200, description = "The schemas", body = SchemaList))
)]
pub(in crate::routes) async fn schemas(
    State(app): State<App>,
    Parameters(filter): Parameters<Filter>,
    Caller(context): Caller,
) -> Json<SchemaList> {
    let listed = filter.listed(&app, &context).await;
    let tools = listed.tools.iter();
    let schemas: Vec<_> = tools.map(|tool| tool.definition().to_schema()).collect();
    Json(SchemaList {
        success: true,
        total: schemas.len(),
        schemas,
        unavailable_servers: listed.unavailable(),
    })
}
