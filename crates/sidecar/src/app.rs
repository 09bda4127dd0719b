//! What a running sidecar is made of, apart from its socket.

use std::sync::Arc;
use std::time::Duration;

use pillion_core::executor::{Executor, ExecutorHooks};
use pillion_core::registry::ToolRegistry;
use pillion_core::store::Store;
use pillion_wire::UnavailableServer;
use tokio::time::timeout;

use crate::config::{Config, HttpSection};
use crate::mcp_server::McpServer;
use crate::state::State;
use crate::upstream::Upstreams;

/// How long the sessions with MCP servers may take to end.
const FAREWELL: Duration = Duration::from_secs(2);

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
    state: Option<State>,
    mcp: McpServer,
}

impl Config {
    /// Puts together what the configuration asks for, over the tools of `registry`. No
    /// I/O happens: MCP servers are asked for their tools when somebody needs them. Without
    /// `state` nothing outlives the process, and no call is recorded.
    #[must_use]
    pub fn build(&self, registry: Arc<ToolRegistry>, state: Option<State>) -> App {
        let mut executor = self.executor.to_core(&self.tools);
        for server in &self.mcp_servers {
            if let Some(limit) = server.rate_limit {
                let servers = &mut executor.rate_limits.servers;
                servers.insert(server.label().to_owned(), limit.into());
            }
        }
        let upstreams = Upstreams::new(&self.mcp_servers, self.mcp.clone(), Arc::clone(&registry));
        let hooks = ExecutorHooks {
            journal: state.as_ref().map(|state| state.journal(self)),
            ..ExecutorHooks::default()
        };
        let executor = Executor::with_hooks(registry, executor, hooks);
        App {
            shared: Arc::new(Shared {
                executor,
                upstreams,
                http: self.http.clone(),
                state,
                mcp: McpServer::new(&self.models),
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

    /// What is kept, if anything is.
    pub(crate) fn store(&self) -> Option<Arc<dyn Store>> {
        self.shared.state.as_ref().map(State::store)
    }

    /// The MCP servers whose tools are offered.
    pub(crate) fn upstreams(&self) -> &Upstreams {
        &self.shared.upstreams
    }

    /// What the MCP server keeps between requests.
    pub(crate) fn mcp(&self) -> &McpServer {
        &self.shared.mcp
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

    /// Ends the sessions with the MCP servers. Whether they hear of it in time is their affair.
    pub(crate) async fn disconnect(&self) {
        drop(timeout(FAREWELL, self.shared.upstreams.disconnect()).await);
    }
}
