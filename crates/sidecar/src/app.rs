//! The state of a running sidecar, apart from its sockets.

use std::ops::Deref;
use std::sync::Arc;

use pillion_core::registry::ToolRegistry;

use pillion_config::{Config, ConsoleSection, HttpSection};
use pillion_gateway::access::Access;
use pillion_gateway::credentials::UserCredentials;
use pillion_gateway::state::State;
use pillion_gateway::{Gateway, GatewayParts, ReloadScope};
use pillion_management::servers::Servers;
use pillion_mcp_server::{McpServer, McpServerState};

/// The state that all request handlers share: the [`Gateway`], to which `App` dereferences, and the
/// interfaces to the gateway. Cheap to clone.
///
/// An `App` never changes: a reload of the configuration builds a new `App`, and each request keeps
/// the `App` with which the request began ([`CurrentApp`](crate::current_app::CurrentApp)).
#[derive(Debug, Clone)]
pub struct App {
    parts: Arc<AppParts>,
}

#[derive(Debug)]
struct AppParts {
    mcp: McpServer,
    http: HttpSection,
    console: ConsoleSection,
    access: Access,
    servers: Option<Arc<Servers>>,
}

impl App {
    /// Builds an [`App`] from a configuration, with the tools of `registry`. Performs no I/O: the
    /// tools of MCP servers are listed on first use. Without `state`, nothing outlives the process
    /// and no call is recorded.
    ///
    /// The access rules of the configuration do not apply, because they require user lookups and
    /// token files.
    #[must_use]
    pub fn build(config: &Config, registry: Arc<ToolRegistry>, state: Option<State>) -> Self {
        Self::assemble(config, registry, state, None, Access::default())
    }

    /// Builds an [`App`] like [`build`](Self::build), and applies the access rules `access`. If
    /// `servers` is given, also registers the built-in tools and the packs of the configuration,
    /// and lets clients add and change MCP servers at run time.
    pub(crate) fn assemble(
        config: &Config,
        registry: Arc<ToolRegistry>,
        state: Option<State>,
        servers: Option<Arc<Servers>>,
        access: Access,
    ) -> Self {
        let mcp_state = Arc::new(McpServerState::default());
        let credentials = servers.as_ref().map(|servers| servers.user_credentials());
        let parts = GatewayParts {
            registry,
            state,
            credentials: credentials.map_or_else(UserCredentials::default, Clone::clone),
            tool_listener: Arc::<McpServerState>::clone(&mcp_state),
            has_all_tools: servers.is_some(),
        };
        let gateway = Gateway::build(config, parts);
        gateway.process().set_peer_rules(&access.peers);
        mcp_state.offer_packs(gateway.packs());
        Self::new(AppParts {
            mcp: McpServer::new(gateway, mcp_state),
            http: config.http.clone(),
            console: config.console.clone(),
            access,
            servers,
        })
    }

    fn new(parts: AppParts) -> Self {
        Self {
            parts: Arc::new(parts),
        }
    }

    /// Returns the [`App`] of the new configuration `config`, with the gateway that
    /// [`Gateway::reload`] returns. If `access` is `None`, `config` differs from the current
    /// configuration only in its MCP servers.
    pub async fn reload(&self, config: &Config, access: Option<Access>) -> Self {
        let scope = match access {
            Some(_) => ReloadScope::WholeConfig,
            None => ReloadScope::WithoutTools,
        };
        let gateway = self.gateway().reload(config, scope).await;
        let mcp_state = Arc::clone(self.mcp().state());
        mcp_state.reconfigure();
        Self::new(AppParts {
            mcp: McpServer::new(gateway, mcp_state),
            http: config.http.clone(),
            console: config.console.clone(),
            access: access.unwrap_or_else(|| self.access().clone()),
            servers: self.parts.servers.clone(),
        })
    }

    /// Releases this [`App`] after `successor` has replaced it, and retires the gateway of this
    /// `App` with [`Gateway::retire`].
    pub fn retire(self, successor: &Self) -> impl Future<Output = ()> + Send + use<> {
        let gateway = self.gateway().clone();
        drop(self);
        gateway.retire(successor)
    }

    /// Returns the gateway, which has the tools, upstream servers, models and limits.
    #[must_use]
    pub fn gateway(&self) -> &Gateway {
        self.parts.mcp.gateway()
    }

    /// Returns the limits of the HTTP server.
    #[must_use]
    pub fn http(&self) -> &HttpSection {
        &self.parts.http
    }

    /// Returns the settings of the console.
    #[must_use]
    pub fn console(&self) -> &ConsoleSection {
        &self.parts.console
    }

    /// Returns the access rules.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.parts.access
    }

    /// Returns the MCP servers that are added and changed at run time; `None` without a store.
    pub(crate) fn servers(&self) -> Option<&Arc<Servers>> {
        self.parts.servers.as_ref()
    }

    /// Returns Pillion's own MCP server.
    #[must_use]
    pub fn mcp(&self) -> &McpServer {
        &self.parts.mcp
    }
}

impl Deref for App {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        self.gateway()
    }
}
