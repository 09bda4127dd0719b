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

/// Timeout of the `resources/list` request whose result is ignored.
const RESOURCES_TIMEOUT: Duration = Duration::from_secs(2);

/// Requests the tools within `limit`, with the configured number of immediate retries.
pub(super) async fn list_tools(
    server: &Server,
    client: &McpClient,
    limit: Duration,
) -> Result<Vec<Box<RawValue>>, String> {
    let _request_guard = server.report.begin_request();
    let mut retry_interval = MIN_RETRY_INTERVAL;
    let mut last_error = None;
    let attempts_result = timeout(limit, async {
        for attempt in 0..=server.section.settings.retry_attempts {
            if attempt > 0 {
                tokio::time::sleep(retry_interval).await;
                retry_interval *= 2;
            }
            match client.list_tools().await {
                Ok(tools) => return Some(tools),
                Err(error) => last_error = Some(error.to_string()),
            }
        }
        None
    })
    .await;
    match (attempts_result, last_error) {
        (Ok(Some(tools)), _) => {
            list_resources(server, client).await;
            Ok(tools)
        }
        (_, Some(error)) => Err(error),
        (_, None) => Err(list_timeout_error(limit)),
    }
}

/// Lists the resources of a server that has resources, if the configuration sets a protocol
/// revision whose clients listed resources after connecting. The result is ignored.
async fn list_resources(server: &Server, client: &McpClient) {
    let pinned_version = server.section.server.protocol_version;
    if !pinned_version.is_some_and(|version| version.supports(Feature::ResourcesAfterTools)) {
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
        Ok(Err(error)) => tracing::debug!(
            server.label = server.label, %error,
            "Cannot list the resources of an MCP server"
        ),
        Err(_) => tracing::debug!(
            server.label = server.label,
            "An MCP server did not list its resources in time"
        ),
    }
}

#[derive(Deserialize)]
struct HandshakeResult {
    capabilities: ListedCapabilities,
}

#[derive(Deserialize)]
struct ListedCapabilities {
    #[serde(default)]
    resources: Option<IgnoredAny>,
}

/// Returns the error of a server that did not list its tools in time.
pub(super) fn list_timeout_error(limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    format!("the server did not list its tools within {seconds:.1}s")
}
