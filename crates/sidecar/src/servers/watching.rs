//! Background tasks for the servers.

use std::sync::Weak;

use tokio::sync::broadcast::error::RecvError;

use super::Servers;
use crate::current_app::WeakCurrentApp;
use pillion_gateway::connections::Connections;
use pillion_gateway::upstream::SWEEP_INTERVAL;

/// Closes outdated user connections at intervals, as long as `current_app` exists.
pub(super) async fn sweep_users(current_app: WeakCurrentApp) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(current_app) = current_app.upgrade() else {
            return;
        };
        let app = current_app.app();
        app.upstreams().sweep_users().await;
    }
}

/// Records in the store when servers last connected.
pub(super) async fn note_connections(servers: Weak<Servers>, connections: Connections) {
    let mut answers = connections.subscribe();
    drop(connections);
    loop {
        let connected = match answers.recv().await {
            Ok(connected) => connected,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let Some(servers) = servers.upgrade() else {
            return;
        };
        let known = servers.known();
        let known = known.iter().find(|it| it.record.name == connected.server);
        if let Some(known) = known
            && let Err(error) = servers
                .store
                .mark_server_connected(&known.record.id, connected.at)
                .await
        {
            tracing::debug!(%error, "Cannot record when an MCP server connected");
        }
    }
}
