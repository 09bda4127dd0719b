use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use pillion_wire::{ServerAnswer, ServerInput, route};

use super::{Keys, answer_of, servers_of, to_the_end};
use crate::app::App;
use crate::routes::error::RequestError;

/// Adds an MCP server.
#[utoipa::path(
    post,
    path = "/api/v1/servers/",
    tag = "servers",
    summary = "Add an MCP server",
    description = "It is there for requests from now on, and asked when somebody needs its tools. A server that is a program is refused: the operator adds those.",
    request_body(
        content = ServerInput,
        content_type = "application/json",
        example = json!({"name": "weather", "url": "https://mcp.example.com/mcp", "timeout": 10_000})
    ),
    responses(
        (status = 201, description = "The server", body = ServerAnswer),
        (status = 400, description = "A key is not what it can be"),
        (status = 403, description = "A program, or a credential where there is no key to encrypt it with"),
        (status = 409, description = "There is a server of that name"),
        (status = 503, description = "The store cannot be written to"),
    )
)]
pub(in crate::routes) async fn add(
    State(app): State<App>,
    Keys(keys): Keys,
) -> Result<Response, RequestError> {
    let servers = servers_of(&app)?;
    let changed = std::sync::Arc::clone(&servers);
    let id = to_the_end(async move { changed.add(keys).await }).await?;
    let location = [(LOCATION, format!("{}{id}", route::SERVERS))];
    let answer = answer_of(&app, &servers, &id)?;
    Ok((StatusCode::CREATED, location, answer).into_response())
}
