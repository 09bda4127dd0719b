//! The MCP servers whose tools the sidecar offers as its own.
//!
//! Nothing is asked at start-up. When somebody lists tools, or names a tool that is not
//! there, each server whose list is missing or old is asked, all side by side, each once at
//! a time and under a deadline. A server that fails is left alone for a while; it takes
//! nothing from the others, and the tools it had stay.

mod offer;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pillion_core::mcp::McpClient;
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::ToolName;
use pillion_wire::UnavailableServer;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::config::{McpSection, McpServerSection};

/// Every enabled server of the configuration.
#[derive(Debug)]
pub(crate) struct Upstreams {
    servers: Vec<Upstream>,
    registry: Arc<ToolRegistry>,
    times: McpSection,
}

/// One server.
#[derive(Debug)]
struct Upstream {
    label: String,
    tool_prefix: String,
    client: McpClient,
    /// Held while the server is being asked: whoever else needs the list waits for that
    /// answer instead of asking too.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The names under which the server's tools are registered.
    tools: Vec<ToolName>,
    /// When to ask next; now, if none is set.
    next: Option<Next>,
    /// Why the last try failed.
    error: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    At(Instant),
    Never,
}

impl Upstreams {
    pub(crate) fn new(
        servers: &[McpServerSection],
        times: McpSection,
        registry: Arc<ToolRegistry>,
    ) -> Self {
        let servers = servers.iter().filter(|server| server.enabled);
        let servers = servers.map(|section| Upstream {
            label: section.label().to_owned(),
            tool_prefix: section.tool_prefix(),
            client: McpClient::new(section.server.clone()),
            state: Mutex::default(),
        });
        Self {
            servers: servers.collect(),
            registry,
            times,
        }
    }

    /// Asks every server whose list is missing or old, and names those that failed.
    pub(crate) async fn discover(&self) -> Vec<UnavailableServer> {
        let asked = self.servers.iter().map(|server| async move {
            let error = server.discover(&self.registry, &self.times).await?;
            let label = server.label.clone();
            Some(UnavailableServer { label, error })
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// Ends the sessions with the servers.
    pub(crate) async fn disconnect(&self) {
        join_all(self.servers.iter().map(|server| server.client.disconnect())).await;
    }
}

impl Upstream {
    /// Asks the server if it is time to; returns why its tools are not to be had, if so.
    async fn discover(&self, registry: &ToolRegistry, times: &McpSection) -> Option<String> {
        let mut state = self.state.lock().await;
        let is_time = match state.next {
            None => true,
            Some(Next::At(instant)) => Instant::now() >= instant,
            Some(Next::Never) => false,
        };
        if is_time {
            match self.list(times.discovery_timeout).await {
                Ok(tools) => self.accept(&mut state, &tools, registry, times.refresh_after),
                Err(error) => self.give_up(&mut state, error, times.retry_after),
            }
        }
        state.error.clone()
    }

    async fn list(&self, limit: Duration) -> Result<Vec<offer::RawTool>, String> {
        match timeout(limit, self.client.list_tools()).await {
            Ok(Ok(tools)) => Ok(tools),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!(
                "the server did not list its tools within {:.1}s",
                limit.as_secs_f64()
            )),
        }
    }

    fn accept(
        &self,
        state: &mut State,
        tools: &[offer::RawTool],
        registry: &ToolRegistry,
        refresh_after: Duration,
    ) {
        let offer = offer::Offer {
            label: &self.label,
            tool_prefix: &self.tool_prefix,
            client: &self.client,
        };
        state.tools = offer.register(tools, &state.tools, registry);
        state.error = None;
        state.next = Some(if refresh_after.is_zero() {
            Next::Never
        } else {
            Next::At(Instant::now() + refresh_after)
        });
        let tools = state.tools.len();
        tracing::info!(
            server.label = self.label,
            tools,
            "MCP server `{}` offers {tools} tools",
            self.label
        );
    }

    fn give_up(&self, state: &mut State, error: String, retry_after: Duration) {
        // Once for each reason, not once for each try.
        if state.error.as_ref() != Some(&error) {
            tracing::warn!(server.label = self.label, %error, "Failed to list MCP tools");
        }
        state.error = Some(error);
        state.next = Some(Next::At(Instant::now() + retry_after));
    }
}
