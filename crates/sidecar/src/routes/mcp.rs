//! `/mcp`: the MCP server over Streamable HTTP, and over an upgraded connection with one client.

use std::time::Duration;

use axum::Extension;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use tokio::io::BufReader;

use super::body::Body;
use super::caller::Caller;
use super::error::{INVALID_INPUT, RequestError, route_error};
use super::parameters::Parameters;
use super::upgrade::{Upgrade, UpgradeError};
use crate::app::App;
use crate::current_app::CurrentApp;
use pillion_core::tool::CallContext;
use pillion_gateway::access::{Peer, TokenValidity};
use pillion_mcp_server::http::Exchange;
use pillion_mcp_server::stdio;

/// The query of `/mcp`: `?model=ID` offers only the tools that this model may use.
#[derive(Debug, Deserialize)]
pub(super) struct McpQuery {
    model: Option<String>,
}

route_error! {
    /// The query names a model that is not configured.
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct UnknownModel(String) => INVALID_INPUT
}

/// Handles a message of a client (`POST`), opens the stream of a session (`GET`), or ends a session
/// (`DELETE`).
pub(super) async fn http(
    State(app): State<App>,
    headers: HeaderMap,
    caller: Caller,
    token_validity: TokenValidity,
    Parameters(query): Parameters<McpQuery>,
    request: Request,
) -> Result<Response, RequestError> {
    let method = request.method().clone();
    let mut message = None;
    if method == Method::POST {
        message = Some(Body::from_request(request, &app).await?);
    }
    let is_origin_checked = caller.came_over_tcp();
    let (context, visibility) = (caller.context, caller.visibility);
    let model = query.model.as_deref();
    let exchange =
        match pillion_mcp_server::Caller::new(app.mcp().clone(), context, visibility, model) {
            Ok(caller) => Exchange {
                caller,
                headers: &headers,
                is_origin_checked,
                token_validity,
            },
            Err(error) => {
                let status = StatusCode::BAD_REQUEST;
                return Ok(pillion_mcp_server::http::failed(status, None, error));
            }
        };
    Ok(match message {
        Some(Body(message)) => exchange.post(&message).await,
        None if method == Method::DELETE => exchange.delete(),
        None => exchange.get(),
    })
}

/// Upgrades the connection to the stdio transport: one JSON-RPC message per line. The client is
/// `pillion mcp-stdio`.
pub(super) async fn stdio(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    caller: Caller,
    Parameters(McpQuery { model }): Parameters<McpQuery>,
    Extension(current_app): Extension<CurrentApp>,
    mut request: Request,
) -> Result<Response, RequestError> {
    let peer = peer.map(|Extension(peer)| peer);
    if let Some(Peer::Network { .. }) = peer {
        let action = "upgrade its connection to MCP";
        return Err(UpgradeError::NotUnixSocket { action }.into());
    }
    let upgrade = Upgrade::begin_client(&app, &mut request, stdio::PROTOCOL)?;
    let context = CallContext {
        // Only responses over HTTP are counted, not responses over an upgraded connection.
        result_memory: None,
        ..caller.context
    };
    let client = stdio::Client::new(
        move || current_app.app().mcp().clone(),
        context,
        caller.visibility,
        model,
    )
    .map_err(|error| UnknownModel(error.message))?;
    let process = app.process();
    let draining = process.draining();
    let announcement = async {
        draining.await;
        stdio::draining()
    };
    let mut admission = process.watch(peer);
    let response = upgrade.response();
    process.clients.spawn(async move {
        let Some(stream) = upgrade.stream().await else {
            return;
        };
        let (input, output) = tokio::io::split(stream);
        let endings = stdio::StdioShutdown {
            // After the client has disconnected, running calls get no grace period.
            grace: Duration::ZERO,
            announcement,
            unwelcome: async move { admission.ended().await },
        };
        let served = client.serve(BufReader::new(input), output, endings).await;
        if let Err(error) = served {
            tracing::debug!(%error, "The connection of an MCP client broke");
        }
    });
    Ok(response)
}
