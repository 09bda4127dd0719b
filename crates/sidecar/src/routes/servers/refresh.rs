use axum::Json;
use axum::extract::State;
use pillion_wire::ServerList;
use serde::Serialize;

use super::{servers_of, to_the_end};
use crate::app::App;
use crate::live::Live;
use crate::routes::error::RequestError;

/// Reloads the servers from the store, and the vault's key.
#[utoipa::path(
    post,
    path = "/api/v1/servers/refresh",
    tag = "servers",
    summary = "Look at the store once more",
    description = "For what somebody else has changed there, such as the operator. The vault's key is read again as well.",
    responses(
        (status = 200, description = "The servers", body = ServerList),
        (status = 500, description = "The vault's key is another one than the store's"),
        (status = 503, description = "The store cannot be read"),
    )
)]
pub(in crate::routes) async fn refresh(
    State(app): State<App>,
) -> Result<Json<ServerList>, RequestError> {
    let servers = servers_of(&app)?;
    let refreshed = std::sync::Arc::clone(&servers);
    to_the_end(async move { refreshed.refresh().await }).await?;
    let app = servers.live().as_ref().map_or(app, Live::app);
    let servers = servers.entries(&app);
    Ok(Json(ServerList {
        success: true,
        total: servers.len(),
        servers,
    }))
}

/// The response after a key rotation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::routes) struct Rotated {
    /// Always true.
    success: bool,
    /// The number of secrets encrypted with the new key.
    secrets: usize,
}

/// Re-encrypts every credential with a new key.
#[utoipa::path(
    post,
    path = "/api/v1/vault/rotate",
    tag = "servers",
    summary = "Encrypt every credential under another key",
    description = "The key is in a file beside that of `vault.key_file`, with `.new` at the end of its name; `pillion vault rotate` puts it there, and in the place of the other one afterwards.",
    responses(
        (status = 200, description = "Only the other key opens the vault now", body = Rotated),
        (status = 409, description = "There is no such file"),
        (status = 403, description = "The vault has no key at all"),
        (status = 503, description = "The store cannot be written to"),
    )
)]
pub(in crate::routes) async fn rotate(
    State(app): State<App>,
) -> Result<Json<Rotated>, RequestError> {
    let servers = servers_of(&app)?;
    let secrets = to_the_end(async move { servers.rotate().await }).await?;
    Ok(Json(Rotated {
        success: true,
        secrets,
    }))
}
