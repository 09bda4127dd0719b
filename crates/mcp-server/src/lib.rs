//! Pillion's own MCP server: the sidecar's tools, and the tools, resources, prompts and completions
//! of the upstream MCP servers.
//!
//! One endpoint serves two kinds of protocol revisions: revisions up to 2025-11-25, with a
//! handshake and sessions, and the stateless revision 2026-07-28, whose requests carry all
//! metadata. A request passes through these modules: `http` or `stdio` reads the request and
//! determines the revision; `dispatch` selects the handler; `tools` and `catalog` handle the
//! request; `running` collects the messages that the handler sends over its
//! link to the client, and the result. Results of upstream servers
//! are forwarded byte for byte, with only those additions that the client's revision requires.

pub mod bridge;
mod catalog;
mod dispatch;
pub mod http;
mod lines;
mod list_kind;
mod listening;
mod local;
mod outbox;
mod pack_changes;
mod resource_not_found;
mod results;
mod running;
mod sessions;
mod source;
mod stateful;
mod stateless;
pub mod stdio;
mod subscriptions;
mod suspended;
mod template;
mod tools;

use std::sync::Arc;

use pillion_core::pack::Packs;
use pillion_core::tool::CallContext;
use pillion_gateway::Gateway;
use pillion_mcp_client::RpcError;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use catalog::Catalog;
use listening::Listening;
use pillion_gateway::accounts::PrincipalAccounts;
use pillion_gateway::calling_client::message;
use pillion_gateway::events::ToolListener;
use pillion_gateway::visibility::Visibility;
use sessions::Sessions;
use suspended::SuspendedRequests;

/// Pillion's MCP server over a [`Gateway`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct McpServer {
    gateway: Gateway,
    state: Arc<McpServerState>,
}

impl McpServer {
    /// Creates the server of `gateway`. `state` outlives the gateway.
    #[must_use]
    pub fn new(gateway: Gateway, state: Arc<McpServerState>) -> Self {
        Self { gateway, state }
    }

    /// Returns the gateway whose tools and servers this server offers.
    #[must_use]
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Returns the state that outlives a request.
    #[must_use]
    pub fn state(&self) -> &Arc<McpServerState> {
        &self.state
    }
}

/// The state of the MCP server between requests.
#[derive(Debug)]
pub struct McpServerState {
    sessions: Sessions,
    suspended: SuspendedRequests,
    /// The resource subscriptions of each principal.
    subscriptions: Arc<PrincipalAccounts>,
    catalog: Catalog,
    listening: Listening,
    /// Set to `true` at shutdown, to end streams that would otherwise never end.
    stopping: watch::Sender<bool>,
}

impl Default for McpServerState {
    fn default() -> Self {
        Self {
            sessions: Sessions::default(),
            suspended: SuspendedRequests::default(),
            subscriptions: Arc::new(subscriptions::accounts()),
            catalog: Catalog::default(),
            listening: Listening::default(),
            stopping: watch::Sender::new(false),
        }
    }
}

impl McpServerState {
    /// Applies a new configuration: the lists of the upstream servers are requested again.
    pub fn reconfigure(&self) {
        self.catalog.forget();
    }

    /// Applies a gateway whose upstream servers or packs have changed.
    pub fn servers_changed(&self, gateway: &Gateway) {
        self.listening.servers_changed(gateway);
        self.offer_packs(gateway.packs());
    }

    /// Sets the packs that are offered.
    pub fn offer_packs(&self, packs: &Packs) {
        self.listening.offer_packs(packs);
    }

    /// Ends all open streams and sessions.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
        self.sessions.end_all();
    }

    /// Returns a future that resolves when the server shuts down.
    fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopping = self.stopping.subscribe();
        async move { drop(stopping.wait_for(|stopping| *stopping).await) }
    }
}

impl ToolListener for McpServerState {
    /// Notifies the clients that listen for changes.
    fn tools_changed(&self) {
        self.listening.tools_changed();
    }
}

/// Returns `visibility`, restricted to what the model `model` may see if the client names a model.
fn narrowed(
    gateway: &Gateway,
    visibility: Visibility,
    model: Option<&str>,
) -> Result<Visibility, RpcError> {
    let Some(id) = model else {
        return Ok(visibility);
    };
    let model = gateway
        .models()
        .get(id)
        .ok_or_else(|| message::unknown("model", id))?;
    Ok(visibility.for_model(Arc::clone(&model.config)))
}

/// The sender of a request to an [`McpServer`]: the user for whom calls are made, and the visible
/// parts of the sidecar. Determined for each HTTP request, not for each session, so that a session
/// grants no rights of another caller.
#[derive(Debug, Clone)]
pub struct Caller {
    mcp: McpServer,
    /// The context of the calls.
    pub context: CallContext,
    visibility: Visibility,
}

impl Caller {
    /// Creates the caller of a request to `mcp`, restricted to what `model` may see.
    ///
    /// # Errors
    /// `model` does not exist.
    pub fn new(
        mcp: McpServer,
        context: CallContext,
        visibility: Visibility,
        model: Option<&str>,
    ) -> Result<Self, RpcError> {
        let gateway = &mcp.gateway;
        let offered = gateway.upstreams().tools_for_clients().clone();
        let visibility = narrowed(gateway, visibility.restrict_to_offered(offered), model)?;
        let context = CallContext {
            caller: Some("mcp".to_owned()),
            ..context
        };
        Ok(Self {
            mcp,
            context,
            visibility,
        })
    }

    fn owner(&self) -> Owner {
        let CallContext {
            principal,
            user,
            is_user_verified,
            ..
        } = &self.context;
        Owner {
            principal: principal.clone(),
            user: user.clone(),
            is_user_verified: *is_user_verified,
        }
    }
}

/// The owner of state that outlives a request, such as a session. Callers with another owner cannot
/// use that state. The user's name alone is insufficient, because any caller may claim a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Owner {
    /// The authenticated principal; `None` if clients need no token.
    principal: Option<String>,
    user: Option<String>,
    /// Whether the caller may act for the user.
    is_user_verified: bool,
}

impl Owner {
    /// Returns the key for quotas: principal and verified user. A claimed user has no quota.
    fn counted(&self) -> (Option<String>, Option<String>) {
        let verified = self.user.clone().filter(|_| self.is_user_verified);
        (self.principal.clone(), verified)
    }
}

/// Returns the server capabilities, which are equal for every client, because the upstream servers'
/// tools may not be listed yet.
fn capabilities() -> Map<String, Value> {
    let capabilities = [
        ("tools", json!({"listChanged": true})),
        ("resources", json!({"subscribe": true, "listChanged": true})),
        ("prompts", json!({"listChanged": true})),
        ("completions", json!({})),
        ("logging", json!({})),
    ];
    capabilities
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Returns the sidecar's `Implementation`.
fn server_info() -> Value {
    json!({"name": "pillion", "version": env!("CARGO_PKG_VERSION")})
}
