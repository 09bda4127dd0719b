use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use pillion_wire::{ServerList, route};
use serde::Serialize;

use super::{current_gateway, require_servers};
use crate::app::App;
use pillion_management::error::Result;
use pillion_management::servers::run_to_completion;

/// Reload the MCP servers from the store.
///
/// Applies changes that other processes made to the store, and reads the vault's key again.
#[utoipa::path(
    post,
    path = route::REFRESH_SERVERS.path,
    responses(
        (status = 200, description = "The servers", body = ServerList),
        (status = 500, description = "The vault's key does not match the store"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(in crate::routes) async fn refresh(State(app): State<App>) -> Result<Json<ServerList>> {
    let servers = require_servers(&app)?;
    let servers_to_refresh = Arc::clone(&servers);
    run_to_completion(async move { servers_to_refresh.refresh().await }).await?;
    let entries = servers.entries(&current_gateway(&app, &servers));
    Ok(Json(ServerList {
        success: true,
        total: entries.len(),
        servers: entries,
    }))
}

/// The response after a key rotation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::routes) struct RotationResponse {
    /// Always true.
    success: bool,
    /// The number of secrets that were encrypted with the new key.
    secrets: usize,
}

/// Encrypt every stored secret with a new key.
///
/// Reads the new key from the file that has the name of `vault.key_file` plus `.new`. `pillion
/// vault rotate` creates that file, sends this request, and then replaces `vault.key_file` with the
/// new key.
#[utoipa::path(
    post,
    path = route::ROTATE_VAULT.path,
    responses(
        (status = 200, description = "Every stored secret is encrypted with the new key", body = RotationResponse),
        (status = 409, description = "The file with the new key is missing or invalid, or `vault.key_file` is not set"),
        (status = 403, description = "The vault has no encryption key"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn rotate(State(app): State<App>) -> Result<Json<RotationResponse>> {
    let servers = require_servers(&app)?;
    let secrets = run_to_completion(async move { servers.rotate_key().await }).await?;
    Ok(Json(RotationResponse {
        success: true,
        secrets,
    }))
}
