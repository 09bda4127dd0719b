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
