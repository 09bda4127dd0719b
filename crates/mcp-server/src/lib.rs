//! Pillion's own MCP server: the sidecar's tools, and the tools, resources, prompts and completions
//! of the upstream MCP servers.
//!
//! One endpoint serves two kinds of protocol revisions: revisions up to 2025-11-25, with a
//! handshake and sessions, and the stateless revision 2026-07-28, whose requests carry all
//! metadata. A request passes through these modules: `http` or `stdio` reads the request and
//! determines the revision; `dispatch` selects the handler; `tools` and `catalog` handle the
//! request; `request_task` collects the messages that the handler sends over its link to the
//! client, and the result. Results of upstream servers are forwarded byte for byte, with only those
//! additions that the client's revision requires.

pub mod bridge;
mod catalog;
mod dispatch;
pub mod http;
mod lines;
mod list_changes;
mod list_kind;
mod local;
mod outbox;
mod pack_changes;
mod request_task;
mod resource_not_found;
mod results;
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
use list_changes::ListChanges;
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

    /// Returns the server's state that outlives single requests.
    #[must_use]
    pub fn state(&self) -> &Arc<McpServerState> {
        &self.state
    }
}

/// The state of the MCP server between requests.
#[derive(Debug)]
pub struct McpServerState {
    sessions: Sessions,
    suspended_requests: SuspendedRequests,
    /// The resource subscriptions of each principal.
    subscriptions: Arc<PrincipalAccounts>,
    catalog: Catalog,
    list_changes: ListChanges,
    /// Set to `true` at shutdown, to end streams that would otherwise never end.
    stop_sender: watch::Sender<bool>,
}

impl Default for McpServerState {
    fn default() -> Self {
        Self {
            sessions: Sessions::default(),
            suspended_requests: SuspendedRequests::default(),
            subscriptions: Arc::new(subscriptions::create_accounts()),
            catalog: Catalog::default(),
            list_changes: ListChanges::default(),
            stop_sender: watch::Sender::new(false),
        }
    }
}

impl McpServerState {
    /// Applies a new configuration, after which the lists of the upstream servers are requested
    /// again.
    pub fn reconfigure(&self) {
        self.catalog.mark_outdated();
    }

    /// Applies a gateway whose upstream servers or packs have changed.
    pub fn apply_gateway(&self, gateway: &Gateway) {
        self.list_changes.replace_servers(gateway);
        self.offer_packs(gateway.packs());
    }

    /// Sets the packs that are offered.
    pub fn offer_packs(&self, packs: &Packs) {
        self.list_changes.offer_packs(packs);
    }

    /// Ends all open streams and sessions.
    pub fn stop(&self) {
        self.stop_sender.send_replace(true);
        self.sessions.end_all();
    }

    /// Returns a future that resolves when the server shuts down.
    fn wait_until_stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop_receiver = self.stop_sender.subscribe();
        async move { drop(stop_receiver.wait_for(|is_stopping| *is_stopping).await) }
    }
}

impl ToolListener for McpServerState {
    /// Notifies the clients that listen for list changes that the list of tools has changed.
    fn tools_changed(&self) {
        self.list_changes.notify_tools_changed();
    }
}

/// Returns `visibility`, restricted to what the model `model` may see if the client names a model.
fn restrict_to_model(
    gateway: &Gateway,
    visibility: Visibility,
    model: Option<&str>,
) -> Result<Visibility, RpcError> {
    let Some(model_id) = model else {
        return Ok(visibility);
    };
    let named_model = gateway
        .models()
        .get(model_id)
        .ok_or_else(|| message::unknown_item_error("model", model_id))?;
    Ok(visibility.for_model(Arc::clone(&named_model.config)))
}

/// The sender of a request to an [`McpServer`]: the user for whom calls are made, and the visible
/// parts of the sidecar. Determined for each HTTP request, not for each session, so that a session
/// grants no rights of another caller.
#[derive(Debug, Clone)]
pub struct Caller {
    mcp: McpServer,
    /// The context in which the tool calls of this caller run.
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
        let offered_tools = gateway.upstreams().tools_for_clients().clone();
        let offered_visibility = visibility.restrict_to_offered(offered_tools);
        let visibility = restrict_to_model(gateway, offered_visibility, model)?;
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
        Owner {
            principal: self.context.principal.clone(),
            user: self.context.user.clone(),
            is_user_verified: self.context.is_user_verified,
        }
    }
}

/// The owner of state that outlives a request, such as a session. Only a caller with an equal owner
/// can use the state. The user's name alone does not identify the owner, because any caller may
/// claim a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Owner {
    /// The authenticated principal; `None` if clients need no token.
    principal: Option<String>,
    user: Option<String>,
    /// Whether the caller may act for the user.
    is_user_verified: bool,
}

impl Owner {
    /// Returns the key under which quotas are counted: the principal, and the user if verified. An
    /// unverified user has no separate quota.
    fn quota_key(&self) -> (Option<String>, Option<String>) {
        let verified_user = self.user.clone().filter(|_| self.is_user_verified);
        (self.principal.clone(), verified_user)
    }
}

/// Returns the server capabilities. These capabilities are the same for every client and do not
/// depend on what the upstream servers offer, because the upstream servers may not have listed
/// their tools yet.
fn create_capabilities() -> Map<String, Value> {
    let capabilities = [
        ("tools", json!({"listChanged": true})),
        ("resources", json!({"subscribe": true, "listChanged": true})),
        ("prompts", json!({"listChanged": true})),
        ("completions", json!({})),
        ("logging", json!({})),
    ];
    Map::from_iter(capabilities.map(|(name, value)| (name.to_owned(), value)))
}

/// Returns the sidecar's `Implementation`.
fn create_server_info() -> Value {
    json!({"name": "pillion", "version": env!("CARGO_PKG_VERSION")})
}
