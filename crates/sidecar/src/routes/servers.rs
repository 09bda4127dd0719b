//! Routes under `/api/v1/servers`, and the key rotation of the vault.

pub(super) mod connection;
pub(super) mod credentials;
pub(super) mod definitions;
pub(super) mod refresh;
pub(super) mod resources;
pub(super) mod test;
pub(super) mod tools;

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Request};
use pillion_wire::ServerResponse;
use serde_json::{Map, Value};

use super::extract::AnyJson;
use super::parameters::PathParameter;
use crate::app::App;
use pillion_gateway::Gateway;
use pillion_management::error::{RequestError, Result};
use pillion_management::servers::{ServerError, Servers, run_to_completion};

/// A JSON object body with the settings of a server.
pub(super) struct ServerSettingsBody(Map<String, Value>);

impl FromRequest<App> for ServerSettingsBody {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let AnyJson(value) = AnyJson::from_request(request, app).await?;
        match value {
            Value::Object(keys) => Ok(Self(keys)),
            _ => Err(ServerError::Invalid {
                key: "body".to_owned(),
                message: "expected a JSON object".to_owned(),
            }
            .into()),
        }
    }
}

fn require_servers(app: &App) -> Result<Arc<Servers>, ServerError> {
    app.servers().cloned().ok_or(ServerError::NoStore)
}

/// Returns the gateway with the current servers, which may be newer than the request's gateway.
fn current_gateway(app: &App, servers: &Servers) -> Gateway {
    let running_gateway = servers.gateway();
    running_gateway.unwrap_or_else(|| app.gateway().clone())
}

/// Runs `change`, which returns the ID or name of the changed server, and returns the state of this
/// server after the change.
async fn change_server<F>(
    app: &App,
    change: impl FnOnce(Arc<Servers>) -> F,
) -> Result<Json<ServerResponse>>
where
    F: Future<Output = Result<String, ServerError>> + Send + 'static,
{
    let servers = require_servers(app)?;
    let key = run_to_completion(change(Arc::clone(&servers))).await?;
    show_server(app, &servers, &key)
}

/// Returns the current state of the server with this ID or name.
fn show_server(app: &App, servers: &Servers, key: &str) -> Result<Json<ServerResponse>> {
    Ok(Json(ServerResponse {
        success: true,
        server: servers.entry(key, &current_gateway(app, servers))?,
    }))
}
