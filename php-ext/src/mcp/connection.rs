use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pillion_core::mcp::{Callbacks, McpClient, ServerConfig};

use super::credentials::{PhpPrompt, TokenSlot};
use super::desk::Desk;
use super::errand::Asked;

/// What an object can answer when the server asks: the server is told when the connection is
/// made, so that objects with other callbacks have another connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// `onSampling()`
    pub sampling: bool,
    /// `onElicitation()`
    pub elicitation: bool,
    /// `onNotification()`: the server is listened to also between calls.
    pub notifications: bool,
    /// `onAuthorization()`
    pub authorization: bool,
    /// There is a token store that keeps an authorization until it is given.
    pub deferral: bool,
    /// The URIs and names of `setRoots()`.
    pub roots: Vec<(String, String)>,
}

impl Offers {
    /// Adds what is offered to the key of a connection.
    pub fn extend_key(&self, key: &mut String) {
        if *self != Self::default() {
            key.push_str(&format!("{self:?}"));
        }
    }
}

/// A connection to an MCP server, shared by the objects whose configuration is the same.
pub struct Connection {
    client: McpClient,
    desk: Arc<Desk>,
    prompt: Option<Arc<PhpPrompt>>,
    tokens: Option<Arc<TokenSlot>>,
    /// How many of the sessions have been told of.
    announced: AtomicU64,
}

impl Connection {
    /// Does no I/O. `tokens` are those that OAuth begins with.
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

    /// The engine's client.
    pub fn client(&self) -> &McpClient {
        &self.client
    }

    /// Who waits for the server.
    pub fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Who asks for authorizations, where OAuth may need one.
    pub fn prompt(&self) -> Option<&Arc<PhpPrompt>> {
        self.prompt.as_ref()
    }

    /// The tokens of OAuth.
    pub fn tokens(&self) -> Option<&Arc<TokenSlot>> {
        self.tokens.as_ref()
    }

    /// Whether the session of this number has not been told of yet; it counts as told.
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
