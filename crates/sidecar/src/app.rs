//! What a running sidecar is made of, apart from its socket.

use std::sync::Arc;

use pillion_core::executor::Executor;
use pillion_core::registry::ToolRegistry;

use crate::config::{Config, HttpSection};

/// What every request handler shares. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    executor: Executor,
    http: HttpSection,
}

impl Config {
    /// Puts together what the configuration asks for, over the tools of `registry`. No
    /// I/O happens: MCP servers are asked for their tools when somebody needs them.
    #[must_use]
    pub fn build(&self, registry: Arc<ToolRegistry>) -> App {
        let executor = Executor::new(registry, self.executor.to_core(&self.tools));
        App {
            shared: Arc::new(Shared {
                executor,
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

    pub(crate) async fn discover(&self) -> Vec<pillion_wire::UnavailableServer> {
        Vec::new()
    }
    pub(crate) async fn has_tools(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.registry().contains(name))
    }
}
