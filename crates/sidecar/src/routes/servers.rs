//! Routes under `/api/v1/servers`, and the key rotation of the vault.

pub(super) mod add;
pub(super) mod change;
pub(super) mod connection;
pub(super) mod credentials;
pub(super) mod list;
pub(super) mod refresh;
pub(super) mod remove;
pub(super) mod resources;
pub(super) mod show;
pub(super) mod test;
pub(super) mod tools;

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use pillion_wire::ServerResponse;
use serde_json::{Map, Value};

use super::body::AnyJson;
use super::error::RequestError;
use crate::app::App;
use crate::servers::{ServerError, Servers};
use pillion_gateway::upstream;

/// A JSON object body that describes a server.
pub(super) struct Keys(Map<String, Value>);

impl FromRequest<App> for Keys {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self, RequestError> {
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

/// The ID or name of a server in the path.
pub(super) struct ServerKey(String);

impl FromRequestParts<App> for ServerKey {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, RequestError> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, app).await;
        match path {
            Ok(Path(key)) => Ok(Self(key)),
            Err(_) => Err(ServerError::NotFound.into()),
        }
    }
}

fn servers_of(app: &App) -> Result<Arc<Servers>, ServerError> {
    app.servers().cloned().ok_or(ServerError::NoStore)
}

/// Returns the server with this ID or name, if it is in use.
///
/// # Errors
/// [`ServerError::NotFound`], [`ServerError::NotInUse`].
fn in_use(app: &App, servers: &Servers, key: &str) -> Result<Arc<upstream::Server>, ServerError> {
    let (_, place) = servers.find(key)?;
    let entry = servers.entries(app).into_iter().nth(place);
    let entry = entry.ok_or(ServerError::NotFound)?;
    let server = app.upstreams().server(&entry.name);
    server.ok_or_else(|| {
        let why = entry.error.filter(|_| entry.enabled);
        let why = why.unwrap_or_else(|| "it is disabled".to_owned());
        let name = entry.name;
        ServerError::NotInUse { name, why }
    })
}

/// Runs a change to completion even if the client disconnects.
async fn run_to_completion<T: Send + 'static>(
    change: impl Future<Output = Result<T, ServerError>> + Send + 'static,
) -> Result<T, ServerError> {
    let change = tokio::spawn(change).await;
    change.unwrap_or(Err(ServerError::Panicked))
}

/// Returns the current state of the server, which may be newer than the application state of this
/// request.
fn answer_of(
    app: &App,
    servers: &Servers,
    key: &str,
) -> Result<Json<ServerResponse>, RequestError> {
    let gateway = servers.gateway();
    let gateway = gateway.as_ref().unwrap_or_else(|| app.gateway());
    let (_, place) = servers.find(key)?;
    let server = servers.entries(gateway).into_iter().nth(place);
    Ok(Json(ServerResponse {
        success: true,
        server: server.ok_or(ServerError::NotFound)?,
    }))
}
