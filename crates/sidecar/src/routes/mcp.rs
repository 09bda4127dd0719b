//! The route `/mcp` of the MCP server, over Streamable HTTP and over an upgraded connection with
//! one client.

use std::time::Duration;

use axum::Extension;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use tokio::io::BufReader;

use super::extract::{Body, Caller};
use super::parameters::Parameters;
use super::upgrade::{Upgrade, UpgradeError};
use crate::app::App;
use crate::current_app::CurrentApp;
use pillion_core::tool::CallContext;
use pillion_gateway::access::{Peer, TokenValidity};
use pillion_management::error::{INVALID_INPUT, Result, route_error};
use pillion_mcp_server::http::Exchange;
use pillion_mcp_server::stdio;

/// The query of `/mcp`. With `?model=ID`, only the tools that this model may use are offered.
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
) -> Result<Response> {
    let method = request.method().clone();
    let mut message = None;
    if method == Method::POST {
        message = Some(Body::from_request(request, &app).await?);
    }
    let is_origin_checked = caller.is_over_tcp();
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
                return Ok(pillion_mcp_server::http::error_response(
                    status, None, error,
                ));
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
) -> Result<Response> {
    let peer = peer.map(|Extension(peer)| peer);
    if let Some(Peer::Network { .. }) = peer {
        let action = "upgrade its connection to MCP";
        return Err(UpgradeError::NotUnixSocket { action }.into());
    }
    let upgrade = Upgrade::begin_client(&app, &mut request, stdio::PROTOCOL)?;
    let context = CallContext {
        // No memory is reserved for responses over an upgraded connection, unlike for responses
        // over HTTP.
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
    let drain_start = process.wait_for_draining();
    let announcement = async {
        drain_start.await;
        stdio::draining_notification()
    };
    let mut admission = process.watch_admission(peer);
    let response = upgrade.response();
    process.client_tasks.spawn(async move {
        let Some(stream) = upgrade.stream().await else {
            return;
        };
        let (input, output) = tokio::io::split(stream);
        let shutdown = stdio::StdioShutdown {
            // After the client has disconnected, running calls get no grace period.
            grace: Duration::ZERO,
            announcement,
            access_ended: async move { admission.wait_until_revoked().await },
        };
        let serve_outcome = client.serve(BufReader::new(input), output, shutdown).await;
        if let Err(error) = serve_outcome {
            tracing::debug!(%error, "The connection of an MCP client failed");
        }
    });
    Ok(response)
}
