//! Authentication and authorization of clients, by the rules of the Unix socket and by the tokens
//! of the TCP listener.

mod admission;
mod allowed_tools;
mod browser_sessions;
mod gate;
mod grant;
mod rules;
mod stored_tokens;
mod token_list;
mod token_validity;

use std::sync::Arc;

pub use admission::{Admission, ConnectionPermits};
pub use allowed_tools::{AllowedTools, BadToolPattern};
pub use browser_sessions::{
    BrowserSession, BrowserSessions, SIGN_IN_CODE_TTL, SessionLifetime, SessionOwner,
    SessionSummary,
};
pub use gate::{AccessGate, AccessRejection};
pub use grant::{AccessGrant, GrantHolder, MAX_USER_BYTES, OtherUser, Scope, Users};
pub use rules::{Peer, PeerRules, RuleError};
pub use stored_tokens::{NewToken, StoredTokens};
pub use token_list::{CheckFuture, TokenCheck, TokenCheckError, TokenList, TokenListError};
pub use token_validity::{Heartbeat, TokenValidity};

use pillion_core::store::AccessTokenStore;

use pillion_config::{Config, ConfigFile};

/// The access rules of the configuration, with user and group names resolved and tokens read. By
/// default, every process that can open the Unix socket may do everything, and all requests over
/// TCP are rejected.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Which processes may connect to the Unix socket.
    pub peers: PeerRules,
    /// The checks of requests over TCP. If `None`, all requests over TCP are rejected.
    pub gate: Option<Arc<AccessGate>>,
}

/// Why the access rules of the configuration cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A user or group in the socket rules does not exist or cannot be looked up.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The tokens of the TCP listener cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenListError),
}

impl Access {
    /// Reads the file with the tokens of the TCP listener. Returns `None` if `config` has no TCP
    /// listener or names no token file.
    ///
    /// # Errors
    /// [`AccessError::Tokens`]: the file of tokens cannot be read.
    pub fn read_tokens(config: &Config) -> Result<Option<ConfigFile>, AccessError> {
        match config.tcp.listen {
            Some(_) => Ok(TokenList::read_file(&config.tcp)?),
            None => Ok(None),
        }
    }

    /// Resolves the users, groups and tokens of `config`. `tokens_file` is the file that
    /// [`read_tokens`](Self::read_tokens) has read; `variable` reads the environment. With
    /// `tcp.tokens_store`, the tokens of `store` are accepted as well.
    ///
    /// # Errors
    /// [`AccessError`]: a user or a group does not exist, or the tokens of the TCP listener are
    /// missing or invalid.
    pub fn resolve(
        config: &Config,
        tokens_file: Option<&ConfigFile>,
        variable: impl Fn(&str) -> Option<String>,
        store: Option<&Arc<dyn AccessTokenStore>>,
    ) -> Result<Self, AccessError> {
        let peers = PeerRules::resolve(&config.socket)?;
        let Some(listen) = config.tcp.listen else {
            return Ok(Self { peers, gate: None });
        };
        let tokens = TokenList::parse(&config.tcp, tokens_file, variable)?;
        let token_check: Arc<dyn TokenCheck> = match store {
            Some(store) if config.tcp.tokens_store => {
                Arc::new(StoredTokens::new(tokens, Arc::clone(store)))
            }
            _ => Arc::new(tokens),
        };
        let gate = Some(Arc::new(AccessGate::new(&config.tcp, listen, token_check)));
        Ok(Self { peers, gate })
    }
}
