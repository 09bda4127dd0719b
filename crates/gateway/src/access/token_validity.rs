use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use super::{AccessGate, AccessGrant};

/// Checks whether the token of a request is still valid, for long streams. An extension of every
/// TCP request with a token.
#[derive(Clone, Default)]
pub struct TokenValidity(Option<Arc<Token>>);

struct Token {
    text: SecretString,
    grant: AccessGrant,
    current_gate: CurrentGate,
}

/// Returns the gate of the current configuration.
type CurrentGate = Box<dyn Fn() -> Option<Arc<AccessGate>> + Send + Sync>;

impl TokenValidity {
    /// Creates the check of a token that allows `grant`.
    pub(super) fn new(
        text: &str,
        grant: AccessGrant,
        current_gate: impl Fn() -> Option<Arc<AccessGate>> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(Token {
            text: text.into(),
            grant,
            current_gate: Box::new(current_gate),
        })))
    }

    /// Returns whether the token still allows what it allowed when the request began. If the check
    /// fails, the stream ends, and the client learns the reason with its next request.
    pub(crate) async fn holds(&self) -> bool {
        let Some(token) = &self.0 else {
            return true;
        };
        let Some(gate) = (token.current_gate)() else {
            return false;
        };
        let grant = gate.check(token.text.expose_secret()).await;
        let holds = grant.is_ok_and(|grant| grant.as_ref() == Some(&token.grant));
        if !holds {
            tracing::info!(
                client = token.grant.name,
                "Closing a stream: its access token was revoked, changed or has expired"
            );
        }
        holds
    }
}

impl fmt::Debug for TokenValidity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grant = self.0.as_ref().map(|token| &token.grant);
        f.debug_tuple("TokenValidity").field(&grant).finish()
    }
}
