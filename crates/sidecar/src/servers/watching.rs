//! Background tasks for the servers.

use std::sync::Weak;

use tokio::sync::broadcast::error::RecvError;

use super::{Application, Servers};
use pillion_gateway::connections::Connections;
use pillion_gateway::upstream::SWEEP_INTERVAL;

/// Closes outdated user connections at intervals, as long as `application` exists.
pub(super) async fn sweep_users(application: Weak<dyn Application>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(application) = application.upgrade() else {
            return;
        };
        let gateway = application.gateway();
        drop(application);
        gateway.upstreams().sweep_users().await;
    }
}

/// Records in the store when each server last connected.
pub(super) async fn note_connections(servers: Weak<Servers>, connections: Connections) {
    let mut connected_servers = connections.subscribe();
    drop(connections);
    loop {
        let connected = match connected_servers.recv().await {
            Ok(connected) => connected,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let Some(servers) = servers.upgrade() else {
            return;
        };
        let mut stored = servers.stored().into_iter();
        let store = &servers.store;
        if let Some(server) = stored.find(|it| it.record.name == connected.server)
            && let Err(error) = store
                .mark_server_connected(&server.record.id, connected.at)
                .await
        {
            tracing::debug!(%error, "Cannot record when an MCP server connected");
        }
    }
}
