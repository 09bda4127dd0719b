//! The state of a running sidecar, apart from its sockets.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use pillion_core::registry::ToolRegistry;

use pillion_config::{Config, ConfigWarning, ConsoleSection, EffectiveConfig, HttpSection};
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

/// The addresses at which clients reach the sidecar.
#[derive(Debug, Clone)]
pub struct Endpoints {
    /// The absolute path of the Unix socket.
    pub socket: PathBuf,
    /// The address of the TCP listener, if there is one.
    pub listen: Option<SocketAddr>,
}

impl Endpoints {
    fn new(config: &Config) -> Self {
        let configured_path = config.socket.path.clone();
        let path = configured_path.unwrap_or_else(pillion_client::default_socket_path);
        Self {
            // A relative path is relative to the directory in which the sidecar was started.
            socket: std::path::absolute(&path).unwrap_or(path),
            listen: config.tcp.listen,
        }
    }
}

#[derive(Debug)]
struct AppParts {
    mcp: McpServer,
    http: HttpSection,
    console: ConsoleSection,
    access: Access,
    servers: Option<Arc<Servers>>,
    endpoints: Endpoints,
    accepts_stored_tokens: bool,
    effective_config: Arc<EffectiveConfig>,
    warnings: Arc<[ConfigWarning]>,
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
            endpoints: Endpoints::new(config),
            accepts_stored_tokens: config.tcp.tokens_store,
            effective_config: Arc::clone(&config.effective),
            warnings: find_warnings(config),
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
            // A change of the addresses takes effect only after a restart.
            endpoints: self.endpoints().clone(),
            accepts_stored_tokens: config.tcp.tokens_store,
            effective_config: Arc::clone(&config.effective),
            warnings: find_warnings(config),
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

    /// Returns the addresses at which clients reach the sidecar.
    #[must_use]
    pub fn endpoints(&self) -> &Endpoints {
        &self.parts.endpoints
    }

    /// Returns the settings of the configuration, to show them.
    #[must_use]
    pub fn effective_config(&self) -> &Arc<EffectiveConfig> {
        &self.parts.effective_config
    }

    /// Returns the warnings about the configuration that `pillion check` prints.
    #[must_use]
    pub fn warnings(&self) -> &Arc<[ConfigWarning]> {
        &self.parts.warnings
    }

    /// Returns whether the TCP listener accepts the access tokens of the store.
    #[must_use]
    pub fn accepts_stored_tokens(&self) -> bool {
        self.parts.accepts_stored_tokens
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

fn find_warnings(config: &Config) -> Arc<[ConfigWarning]> {
    config.warnings(|name| std::env::var(name).ok()).into()
}

impl Deref for App {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        self.gateway()
    }
}
