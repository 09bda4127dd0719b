//! Everything that the sidecar has as one MCP server: its own tools and those of the MCP
//! servers below it, and their resources, prompts and completions.
//!
//! Two eras are spoken at one endpoint: revisions up to 2025-11-25, with a handshake and
//! sessions, and 2026-07-28, where every request says all there is to know. A request goes
//! through these files: `http` or `stdio` takes it from the wire and decides on the era;
//! `dispatch` finds who answers it; `tools` and `catalog` do; `running` has what it says
//! meanwhile, by its [`link`](crate::calling_client::link) to the client, and in the end gives.
//! Results of servers below pass byte for byte, with nothing but what the client's revision asks
//! for added.

mod catalog;
mod dispatch;
mod held;
pub(crate) mod http;
mod listening;
mod local;
mod results;
mod running;
mod sessions;
mod source;
mod stateful;
mod stateless;
pub(crate) mod stdio;
mod subscriptions;
mod template;
mod tools;

use std::sync::Arc;

use pillion_core::mcp::RpcError;
use pillion_core::pack::Packs;
use pillion_core::tool::CallContext;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::app::App;
use crate::calling_client::message;
use crate::events::ToolListener;
use crate::visibility::Visibility;
use catalog::Catalog;
use held::Held;
use listening::Listening;
use sessions::Sessions;

/// What the MCP server keeps between requests.
#[derive(Debug)]
pub(crate) struct McpServer {
    sessions: Sessions,
    held: Held,
    catalog: Catalog,
    listening: Listening,
    /// Set when the sidecar stops: streams that would never end do then.
    stopping: watch::Sender<bool>,
}

impl Default for McpServer {
    fn default() -> Self {
        Self {
            sessions: Sessions::default(),
            held: Held::default(),
            catalog: Catalog::default(),
            listening: Listening::default(),
            stopping: watch::Sender::new(false),
        }
    }
}

impl McpServer {
    /// Another configuration is in force: what the servers below had is asked for again.
    pub(crate) fn reconfigure(&self) {
        self.catalog.forget();
    }

    /// Another state with other servers, and perhaps other packs, is in force.
    pub(crate) fn servers_changed(&self, app: &App) {
        self.listening.servers_changed(app);
        self.offer_packs(app.packs());
    }

    /// These packs are offered from now on.
    pub(crate) fn offer_packs(&self, packs: &Packs) {
        self.listening.offer_packs(packs);
    }

    /// Ends what would go on for ever.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
        self.sessions.end_all();
    }

    /// Resolves when the sidecar stops.
    fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopping = self.stopping.subscribe();
        async move { drop(stopping.wait_for(|stopping| *stopping).await) }
    }
}

impl ToolListener for McpServer {
    /// Tells the clients that listen.
    fn tools_changed(&self) {
        self.listening.tools_changed();
    }
}

/// What a client may see that names a model (or none).
fn narrowed(
    app: &App,
    visibility: Visibility,
    model: Option<&str>,
) -> Result<Visibility, RpcError> {
    let Some(id) = model else {
        return Ok(visibility);
    };
    let model = app.models().get(id);
    let model = model.ok_or_else(|| message::unknown("model", id))?;
    Ok(visibility.for_model(Arc::clone(&model.config)))
}

/// Who sends requests: on whose behalf, and what of the sidecar they may see. It is of the
/// HTTP request, not of the session: a session gives nobody another's rights.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    pub(crate) context: CallContext,
    visibility: Visibility,
}

impl Caller {
    pub(crate) fn new(
        app: &App,
        context: CallContext,
        visibility: Visibility,
        model: Option<&str>,
    ) -> Result<Self, RpcError> {
        let offered = app.upstreams().tools_for_clients().clone();
        let visibility = narrowed(app, visibility.offered_to_clients(offered), model)?;
        let context = CallContext {
            caller: Some("mcp".to_owned()),
            ..context
        };
        Ok(Self {
            context,
            visibility,
        })
    }

    fn owner(&self) -> Owner {
        let CallContext {
            principal,
            user,
            is_user_vouched,
            ..
        } = &self.context;
        Owner {
            principal: principal.clone(),
            user: user.clone(),
            is_user_vouched: *is_user_vouched,
        }
    }
}

/// Whose something is that outlives a request, such as a session: nobody else may go on with it.
/// The name of a user alone is not enough, since anybody may claim it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Owner {
    /// Who was let in.
    principal: Option<String>,
    user: Option<String>,
    /// Whether what is the user's own may be used.
    is_user_vouched: bool,
}

impl Owner {
    /// Returns the key for quotas: principal and verified user. A claimed user has no quota.
    fn counted(&self) -> (Option<String>, Option<String>) {
        let verified = self.user.clone().filter(|_| self.is_user_vouched);
        (self.principal.clone(), verified)
    }
}

/// What every client is told that there is. It does not depend on the servers below, which
/// nobody has asked yet.
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

/// Who we are (`Implementation`).
fn server_info() -> Value {
    json!({"name": "pillion", "version": env!("CARGO_PKG_VERSION")})
}
