use axum::extract::State;
use axum::response::Response;
use pillion_providers::{Provider, format_tools};
use pillion_wire::{SchemaList, route};

use super::Filter;
use super::list::respond;
use crate::app::App;
use crate::routes::caller::Caller;
use crate::routes::error::RequestError;
use crate::routes::parameters::Parameters;
use crate::routes::tagged::EntityTags;
use pillion_gateway::Offered;

/// List the tools' schemas in OpenAI's format.
///
/// Like the list of tools, this request contacts MCP servers whose tools are unknown.
#[utoipa::path(
    get,
    path = route::LIST_SCHEMAS.path,
    params(
        Filter,
        ("x-pillion-user" = Option<String>, Header, description = "The user whose personal tools are included"),
        ("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the list")
    ),
    responses(
        (status = 200, description = "The schemas", body = SchemaList),
        (status = 304, description = "The list has not changed"),
    )
)]
pub(in crate::routes) async fn schemas(
    State(app): State<App>,
    Parameters(filter): Parameters<Filter>,
    caller: Caller,
    known: EntityTags,
) -> Result<Response, RequestError> {
    respond(app, &filter, caller, known, schema_list).await
}

fn schema_list(_app: &App, _caller: &Caller, listed: Offered) -> SchemaList {
    let definitions = listed.tools.iter().map(|tool| tool.definition());
    let schemas = format_tools(Provider::OpenAiChat, definitions);
    SchemaList {
        success: true,
        total: schemas.len(),
        schemas,
        unavailable_servers: listed.unavailable(),
    }
}
