//! Background tasks for the servers.

use std::sync::Weak;

use tokio::sync::broadcast::error::RecvError;

use super::{RunningApp, Servers};
use pillion_gateway::connections::Connections;
use pillion_gateway::upstream::IDLE_CHECK_INTERVAL;

/// Closes outdated user connections at intervals, until `application` is dropped.
pub(super) async fn sweep_users(application: Weak<dyn RunningApp>) {
    loop {
        tokio::time::sleep(IDLE_CHECK_INTERVAL).await;
        let Some(running_application) = application.upgrade() else {
            return;
        };
        let gateway = running_application.gateway();
        drop(running_application);
        gateway.upstreams().close_unneeded_connections().await;
    }
}

/// Records in the store the time at which each server last connected.
pub(super) async fn record_connections(servers: Weak<Servers>, connections: Connections) {
    let mut connected_servers = connections.subscribe();
    drop(connections);
    loop {
        let event = match connected_servers.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let Some(servers) = servers.upgrade() else {
            return;
        };
        let mut stored_servers = servers.stored_servers().into_iter();
        let store = &servers.store;
        if let Some(server) = stored_servers.find(|server| server.record.name == event.server)
            && let Err(error) = store
                .mark_server_connected(&server.record.id, event.at)
                .await
        {
            tracing::debug!(%error, "Cannot record when an MCP server connected");
        }
    }
}
