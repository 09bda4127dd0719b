use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pillion_mcp_client::{Callbacks, McpClient, ServerConfig};

use super::php_prompt::{DeferredAuthorization, PhpPrompt};
use super::router::MessageRouter;
use super::server_job::ServerRequestKind;
use super::token_slot::TokenSlot;

/// The capabilities of a client object: the kinds of server requests that the object can handle.
/// Objects with different callbacks use different connections, because the capabilities are sent to
/// the server when the connection opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Whether `onSampling()` has set a callback.
    pub has_sampling: bool,
    /// Whether `onElicitation()` has set a callback.
    pub has_elicitation: bool,
    /// Whether `onNotification()` has set a callback. With a callback, the connection receives
    /// messages from the server between calls as well.
    pub has_notifications: bool,
    /// Whether `onAuthorization()` has set a callback.
    pub has_authorization: bool,
    /// Whether a token store keeps a pending authorization until the user has granted it.
    pub can_defer_authorization: bool,
    /// The URIs and names of the roots from `setRoots()`.
    pub roots: Vec<(String, String)>,
}

impl ClientCapabilities {
    /// Appends the capabilities to `key`, the key of a connection.
    pub fn append_to_key(&self, key: &mut String) {
        if *self != Self::default() {
            key.push_str(&format!("{self:?}"));
        }
    }
}

/// A connection to an MCP server, which objects with the same configuration share.
pub struct McpConnection {
    client: McpClient,
    router: Arc<MessageRouter>,
    prompt: Option<Arc<PhpPrompt>>,
    tokens: Option<Arc<TokenSlot>>,
    /// The highest session number that was reported to PHP, plus one; zero before the first report.
    reported_sessions: AtomicU64,
}

impl McpConnection {
    /// Creates the connection without I/O. `tokens` are the initial OAuth tokens.
    pub fn new(
        mut config: ServerConfig,
        capabilities: &ClientCapabilities,
        tokens: Option<Arc<TokenSlot>>,
    ) -> Self {
        let router = Arc::new(MessageRouter::default());
        if let Some(tokens) = &tokens {
            tokens.attach(&router);
            config.authorization.token_store = Some(Arc::<TokenSlot>::clone(tokens));
        }
        let has_prompt = tokens.is_some()
            && (capabilities.has_authorization || capabilities.can_defer_authorization);
        let prompt = has_prompt.then(|| {
            let prompt = Arc::new(PhpPrompt::new(&router, capabilities.has_authorization));
            config.authorization.prompt = Some(Arc::<PhpPrompt>::clone(&prompt));
            prompt
        });
        Self {
            client: McpClient::with_callbacks(config, build_callbacks(&router, capabilities)),
            router,
            prompt,
            tokens,
            reported_sessions: AtomicU64::new(0),
        }
    }

    /// Returns the MCP client of the connection.
    pub fn client(&self) -> &McpClient {
        &self.client
    }

    /// Returns the router, which lists the PHP threads that wait for the server.
    pub fn router(&self) -> &Arc<MessageRouter> {
        &self.router
    }

    /// Removes and returns the deferred authorization, if there is one.
    pub fn take_deferred_authorization(&self) -> Option<DeferredAuthorization> {
        self.prompt.as_ref()?.take_deferred_authorization()
    }

    /// Returns the OAuth tokens of the connection, if OAuth is configured.
    pub fn tokens(&self) -> Option<&Arc<TokenSlot>> {
        self.tokens.as_ref()
    }

    /// Marks the session with this number as reported to PHP. Returns true if the session had not
    /// been reported before.
    pub fn mark_session_reported(&self, number: u64) -> bool {
        self.reported_sessions
            .fetch_max(number + 1, Ordering::AcqRel)
            <= number
    }
}

fn build_callbacks(router: &Arc<MessageRouter>, capabilities: &ClientCapabilities) -> Callbacks {
    let forward = |kind: ServerRequestKind| {
        let router = Arc::clone(router);
        move |params| router.forward_request(kind, params)
    };
    let mut callbacks = Callbacks::new();
    if capabilities.has_sampling {
        callbacks = callbacks.on_sampling(forward(ServerRequestKind::Sampling));
    }
    if capabilities.has_elicitation {
        callbacks = callbacks.on_elicitation(forward(ServerRequestKind::Elicitation));
    }
    if !capabilities.roots.is_empty() {
        callbacks = callbacks.roots(capabilities.roots.iter().cloned());
    }
    let listener = Arc::clone(router);
    if capabilities.has_notifications {
        callbacks.on_notification(move |notification| listener.handle_notification(notification))
    } else {
        callbacks.on_notification_without_listening(move |notification| {
            listener.handle_notification(notification);
        })
    }
}
