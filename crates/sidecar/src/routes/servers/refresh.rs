use axum::Json;
use axum::extract::State;
use pillion_wire::{ServerList, route};
use serde::Serialize;

use super::{run_to_completion, servers_of};
use crate::app::App;
use crate::routes::error::RequestError;

/// Reloads the servers from the store, and the vault's key.
#[utoipa::path(
    post,
    path = route::REFRESH_SERVERS.path,
    tag = "servers",
    summary = "Reload the MCP servers from the store",
    description = "Applies changes that other processes made to the store, and reads the vault's key again.",
    responses(
        (status = 200, description = "The servers", body = ServerList),
        (status = 500, description = "The vault's key does not match the store"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(in crate::routes) async fn refresh(
    State(app): State<App>,
) -> Result<Json<ServerList>, RequestError> {
    let servers = servers_of(&app)?;
    let refreshed = std::sync::Arc::clone(&servers);
    run_to_completion(async move { refreshed.refresh().await }).await?;
    let gateway = servers.gateway();
    let gateway = gateway.as_ref().unwrap_or_else(|| app.gateway());
    let servers = servers.entries(gateway);
    Ok(Json(ServerList {
        success: true,
        total: servers.len(),
        servers,
    }))
}

/// The response after a key rotation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::routes) struct RotationResponse {
    /// Always true.
    success: bool,
    /// The number of secrets encrypted with the new key.
    secrets: usize,
}

/// Re-encrypts every credential with a new key.
#[utoipa::path(
    post,
    path = route::ROTATE_VAULT.path,
    tag = "servers",
    summary = "Encrypt every stored secret with a new key",
    description = "Reads the new key from the file that has the name of `vault.key_file` plus `.new`. `pillion vault rotate` creates that file, sends this request, and then replaces `vault.key_file` with the new key.",
    responses(
        (status = 200, description = "Every stored secret is encrypted with the new key", body = RotationResponse),
        (status = 409, description = "The file with the new key is missing or invalid, or `vault.key_file` is not set"),
        (status = 403, description = "The vault has no encryption key"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn rotate(
    State(app): State<App>,
) -> Result<Json<RotationResponse>, RequestError> {
    let servers = servers_of(&app)?;
    let secrets = run_to_completion(async move { servers.rotate().await }).await?;
    Ok(Json(RotationResponse {
        success: true,
        secrets,
    }))
}
