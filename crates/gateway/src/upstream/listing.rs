//! Requests the tools of one server.

use std::time::Duration;

use pillion_deadline::timeout;
use pillion_mcp_client::{Feature, McpClient};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::Server;

/// Pause before the first immediate retry of a tool list; doubled for each further retry.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Timeout of a request for resources whose result is not used.
const RESOURCES_TIMEOUT: Duration = Duration::from_secs(2);

/// Requests the tools within `limit`, with the configured number of immediate retries.
pub(super) async fn list_tools(
    server: &Server,
    client: &McpClient,
    limit: Duration,
) -> Result<Vec<Box<RawValue>>, String> {
    let _asking = server.report.begin_request();
    let mut wait = MIN_RETRY_INTERVAL;
    let mut error = None;
    let tried = timeout(limit, async {
        for attempt in 0..=server.section.settings.retry_attempts {
            if attempt > 0 {
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            match client.list_tools().await {
                Ok(tools) => return Some(tools),
                Err(failure) => error = Some(failure.to_string()),
            }
        }
        None
    })
    .await;
    match (tried, error) {
        (Ok(Some(tools)), _) => {
            list_resources(server, client).await;
            Ok(tools)
        }
        (_, Some(error)) => Err(error),
        (_, None) => Err(not_listed_within(limit)),
    }
}

/// Lists the resources of a server that has resources, if the configuration pins a revision
/// whose clients did so after connecting. The result is ignored.
async fn list_resources(server: &Server, client: &McpClient) {
    let pinned = server.section.server.protocol_version;
    if !pinned.is_some_and(|version| version.supports(Feature::ResourcesAfterTools)) {
        return;
    }
    let Ok(connection) = client.connection().await else {
        return;
    };
    let handshake = connection
        .server
        .as_ref()
        .and_then(|handshake| serde_json::from_str::<HandshakeResult>(handshake.get()).ok());
    if handshake.is_none_or(|handshake| handshake.capabilities.resources.is_none()) {
        return;
    }
    match timeout(RESOURCES_TIMEOUT, client.list_resources()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::debug!(
                server.label = server.label, %error,
                "Cannot list the resources of an MCP server"
            );
        }
        Err(_) => tracing::debug!(
            server.label = server.label,
            "An MCP server did not list its resources in time"
        ),
    }
}

#[derive(Deserialize)]
struct HandshakeResult {
    capabilities: HasResources,
}

#[derive(Deserialize)]
struct HasResources {
    #[serde(default)]
    resources: Option<IgnoredAny>,
}

/// Returns the error of a server that did not list its tools in time.
pub(super) fn not_listed_within(limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    format!("the server did not list its tools within {seconds:.1}s")
}
