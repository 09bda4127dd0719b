//! The MCP servers whose tools the sidecar offers as its own.
//!
//! Nothing is asked at start-up. When somebody lists tools, or names a tool that is not
//! there, each server whose list is missing or old is asked, all side by side and under a
//! deadline; whoever comes meanwhile waits for the same answers. A server that fails is
//! left alone for a while; it takes nothing from the others, and the tools it had stay.

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

/// The longest that a server which fails again and again is left alone.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Every enabled server of the configuration.
#[derive(Debug)]
pub(crate) struct Upstreams {
    servers: Vec<Upstream>,
    /// What is known of each server. Held while servers are being asked.
    states: Mutex<Vec<State>>,
    registry: Arc<ToolRegistry>,
    times: McpSection,
}

/// One server.
#[derive(Debug)]
struct Upstream {
    label: String,
    tool_prefix: String,
    client: McpClient,
}

/// What is known of one server.
#[derive(Debug, Default)]
struct State {
    /// The names under which the server's tools are registered.
    tools: Vec<ToolName>,
    /// When to ask next; now, if none is set.
    next: Option<Next>,
    /// Why the last try failed.
    error: Option<String>,
    /// How many tries have failed since the last that did not.
    failures: u32,
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
        let servers: Vec<_> = servers
            .map(|section| Upstream {
                label: section.label().to_owned(),
                tool_prefix: section.tool_prefix(),
                client: McpClient::new(section.server.clone()),
            })
            .collect();
        let states = servers.iter().map(|_| State::default()).collect();
        Self {
            states: Mutex::new(states),
            servers,
            registry,
            times,
        }
    }

    /// Asks every server whose list is missing or old, and names those that failed.
    pub(crate) async fn discover(&self) -> Vec<UnavailableServer> {
        if self.servers.is_empty() {
            return Vec::new();
        }
        let mut states = self.states.lock().await;
        let asked = self.servers.iter().zip(&*states).map(|(server, state)| {
            let limit = self.times.discovery_timeout;
            async move {
                if state.is_due() {
                    Some(server.list(limit).await)
                } else {
                    None
                }
            }
        });
        let answers = join_all(asked).await;
        // In the order of the configuration, whichever server answered first.
        let known = self.servers.iter().zip(states.iter_mut());
        for ((server, state), answer) in known.zip(answers) {
            match answer {
                Some(Ok(tools)) => self.accept(server, state, &tools),
                Some(Err(error)) => self.give_up(server, state, error),
                None => {}
            }
        }
        let states = self.servers.iter().zip(&*states);
        states
            .filter_map(|(server, state)| {
                Some(UnavailableServer {
                    label: server.label.clone(),
                    error: state.error.clone()?,
                })
            })
            .collect()
    }

    /// What stands before the names of a server's tools; nothing for a label that is not known.
    pub(crate) fn tool_prefix(&self, label: &str) -> &str {
        let server = self.servers.iter().find(|server| server.label == label);
        server.map_or("", |server| &server.tool_prefix)
    }

    /// Ends the sessions with the servers.
    pub(crate) async fn disconnect(&self) {
        join_all(self.servers.iter().map(|server| server.client.disconnect())).await;
    }

    fn accept(&self, server: &Upstream, state: &mut State, tools: &[offer::RawTool]) {
        let offer = offer::Offer {
            label: &server.label,
            tool_prefix: &server.tool_prefix,
            client: &server.client,
        };
        let refresh_after = self.times.refresh_after;
        *state = State {
            tools: offer.register(tools, &state.tools, &self.registry),
            next: Some(if refresh_after.is_zero() {
                Next::Never
            } else {
                Next::At(Instant::now() + refresh_after)
            }),
            error: None,
            failures: 0,
        };
        let tools = state.tools.len();
        tracing::info!(
            server.label = server.label,
            tools,
            "MCP server `{}` offers {tools} tools",
            server.label
        );
    }

    fn give_up(&self, server: &Upstream, state: &mut State, error: String) {
        // Once for each reason, not once for each try.
        if state.error.as_ref() != Some(&error) {
            tracing::warn!(server.label = server.label, %error, "Failed to list MCP tools");
        }
        let pause = self
            .times
            .retry_after
            .saturating_mul(1 << state.failures.min(16));
        let pause = pause.min(LONGEST_PAUSE.max(self.times.retry_after));
        state.error = Some(error);
        state.failures += 1;
        state.next = Some(Next::At(Instant::now() + pause));
    }
}

impl State {
    fn is_due(&self) -> bool {
        match self.next {
            None => true,
            Some(Next::At(instant)) => Instant::now() >= instant,
            Some(Next::Never) => false,
        }
    }
}

impl Upstream {
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
}
