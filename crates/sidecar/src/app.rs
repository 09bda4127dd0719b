//! What a running sidecar is made of, apart from its socket.

use std::sync::Arc;

use pillion_core::executor::Executor;
use pillion_core::registry::ToolRegistry;
use pillion_wire::UnavailableServer;

use crate::config::{Config, HttpSection};
use crate::upstream::Upstreams;

/// What every request handler shares. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    executor: Executor,
    upstreams: Upstreams,
    http: HttpSection,
}

impl Config {
    /// Puts together what the configuration asks for, over the tools of `registry`. No
    /// I/O happens: MCP servers are asked for their tools when somebody needs them.
    #[must_use]
    pub fn build(&self, registry: Arc<ToolRegistry>) -> App {
        let mut executor = self.executor.to_core(&self.tools);
        for server in &self.mcp_servers {
            if let Some(limit) = server.rate_limit {
                let servers = &mut executor.rate_limits.servers;
                servers.insert(server.label().to_owned(), limit.into());
            }
        }
        let upstreams = Upstreams::new(&self.mcp_servers, self.mcp.clone(), Arc::clone(&registry));
        let executor = Executor::new(registry, executor);
        App {
            shared: Arc::new(Shared {
                executor,
                upstreams,
                http: self.http.clone(),
            }),
        }
    }
}

impl App {
    /// The executor that runs the calls.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.shared.executor
    }

    /// The tools there are.
    #[must_use]
    pub fn registry(&self) -> &Arc<ToolRegistry> {
        self.shared.executor.registry()
    }

    /// The limits of the HTTP server.
    #[must_use]
    pub fn http(&self) -> &HttpSection {
        &self.shared.http
    }

    /// Asks the MCP servers for their tools where that is due, and names those that failed.
    pub(crate) async fn discover(&self) -> Vec<UnavailableServer> {
        self.shared.upstreams.discover().await
    }

    /// Asks the MCP servers if a name is unknown, for it may be one of theirs, and names
    /// those that failed.
    pub(crate) async fn look_for(&self, names: &[&str]) -> Vec<UnavailableServer> {
        if names.iter().all(|name| self.registry().contains(name)) {
            return Vec::new();
        }
        self.discover().await
    }

    /// What stands before the names of the tools of the MCP server with that label.
    pub(crate) fn tool_prefix(&self, label: &str) -> &str {
        self.shared.upstreams.tool_prefix(label)
    }

    /// Ends the sessions with the MCP servers.
    pub(crate) async fn disconnect(&self) {
        self.shared.upstreams.disconnect().await;
    }
}
