use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pillion_mcp_client::{Callbacks, McpClient, ServerConfig};

use super::credentials::{PhpPrompt, TokenSlot};
use super::desk::Desk;
use super::errand::Asked;

/// The capabilities of an object: what it can answer when the server sends a request. The server
/// learns them when the connection opens, so objects with different callbacks use different
/// connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// `onSampling()`
    pub sampling: bool,
    /// `onElicitation()`
    pub elicitation: bool,
    /// `onNotification()`. The connection also listens to the server between calls.
    pub notifications: bool,
    /// `onAuthorization()`
    pub authorization: bool,
    /// Whether a token store keeps a pending authorization until the user has granted it.
    pub deferral: bool,
    /// The URIs and names from `setRoots()`.
    pub roots: Vec<(String, String)>,
}

impl Offers {
    /// Appends the capabilities to the key of a connection.
    pub fn extend_key(&self, key: &mut String) {
        if *self != Self::default() {
            key.push_str(&format!("{self:?}"));
        }
    }
}

/// A connection to an MCP server. Objects with the same configuration share it.
pub struct Connection {
    client: McpClient,
    desk: Arc<Desk>,
    prompt: Option<Arc<PhpPrompt>>,
    tokens: Option<Arc<TokenSlot>>,
    /// The number of sessions that have been reported to PHP.
    announced: AtomicU64,
}

impl Connection {
    /// Creates the connection without I/O. `tokens` are the initial OAuth tokens.
    pub fn new(mut config: ServerConfig, offers: &Offers, tokens: Option<Arc<TokenSlot>>) -> Self {
        let desk = Arc::new(Desk::default());
        if let Some(tokens) = &tokens {
            tokens.attach(&desk);
            config.authorization.token_store = Some(Arc::<TokenSlot>::clone(tokens));
        }
        let has_prompt = tokens.is_some() && (offers.authorization || offers.deferral);
        let prompt = has_prompt.then(|| {
            let prompt = Arc::new(PhpPrompt::new(&desk, offers.authorization));
            config.authorization.prompt = Some(Arc::<PhpPrompt>::clone(&prompt));
            prompt
        });
        Self {
            client: McpClient::with_callbacks(config, callbacks(&desk, offers)),
            desk,
            prompt,
            tokens,
            announced: AtomicU64::new(0),
        }
    }

    /// Returns the engine's client.
    pub fn client(&self) -> &McpClient {
        &self.client
    }

    /// Returns the desk, which lists the PHP threads that wait for the server.
    pub fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Returns the prompt for authorizations, if OAuth may need one.
    pub fn prompt(&self) -> Option<&Arc<PhpPrompt>> {
        self.prompt.as_ref()
    }

    /// Returns the OAuth tokens.
    pub fn tokens(&self) -> Option<&Arc<TokenSlot>> {
        self.tokens.as_ref()
    }

    /// Returns whether the session with this number has not been reported yet, and marks it as
    /// reported.
    pub fn is_new(&self, number: u64) -> bool {
        self.announced.fetch_max(number + 1, Ordering::AcqRel) <= number
    }
}

fn callbacks(desk: &Arc<Desk>, offers: &Offers) -> Callbacks {
    let ask = |asked: Asked| {
        let desk = Arc::clone(desk);
        move |params| desk.ask(asked, params)
    };
    let mut callbacks = Callbacks::new();
    if offers.sampling {
        callbacks = callbacks.on_sampling(ask(Asked::Sampling));
    }
    if offers.elicitation {
        callbacks = callbacks.on_elicitation(ask(Asked::Elicitation));
    }
    if !offers.roots.is_empty() {
        callbacks = callbacks.roots(offers.roots.iter().cloned());
    }
    let listener = Arc::clone(desk);
    if offers.notifications {
        callbacks.on_notification(move |notice| listener.hear(notice))
    } else {
        callbacks.on_notification_in_passing(move |notice| listener.hear(notice))
    }
}
