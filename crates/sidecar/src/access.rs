//! Who may do what: the rules of the Unix socket, and the gate of TCP with its tokens.

mod admission;
mod allowed_tools;
mod gate;
mod grant;
mod peer;
mod rules;
mod standing;
mod stored_tokens;
mod token;
mod token_list;

use std::sync::Arc;

pub(crate) use admission::Admission;
pub use allowed_tools::{AllowedTools, BadToolPattern};
pub use gate::{Gate, Refusal};
pub use grant::{Grant, Holder, Scope, Users};
pub use peer::Peer;
pub use rules::{PeerRules, RuleError};
pub(crate) use standing::Standing;
pub(crate) use stored_tokens::{NewToken, StoredTokens};
pub use token::{CheckFuture, TokenCheck, TokenCheckError};
pub use token_list::{TokenList, TokenListError};

use pillion_core::store::AccessTokenStore;

use crate::config::{Config, TcpSection};

/// What the configuration says of those who connect, with the names of users and groups looked
/// up and the tokens read. By default whoever can open the Unix socket may do everything,
/// and nobody may do anything over TCP.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Who may speak to us on the Unix socket.
    pub peers: PeerRules,
    /// What a request over TCP has to bring along; without a gate all of them are refused.
    pub gate: Option<Arc<Gate>>,
}

/// Why the configuration's rules cannot be put to use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A rule of the socket names nobody.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The tokens of TCP cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenListError),
}

impl Access {
    /// Looks up and reads what `config` names; `variable` is the environment. With
    /// `tcp.tokens_store` the tokens of `store` count as well.
    ///
    /// # Errors
    /// [`AccessError`]: a user or a group does not exist, or there are no tokens to check.
    pub fn resolve(
        config: &Config,
        variable: impl Fn(&str) -> Option<String>,
        store: Option<&Arc<dyn AccessTokenStore>>,
    ) -> Result<Self, AccessError> {
        let peers = PeerRules::resolve(&config.socket)?;
        let gate = match &config.tcp {
            TcpSection {
                listen: Some(listen),
                ..
            } => {
                let tokens = TokenList::read(&config.tcp, variable)?;
                Some((*listen, tokens))
            }
            _ => None,
        };
        let gate = gate.map(|(listen, tokens)| match store {
            Some(store) if config.tcp.tokens_store => {
                let tokens = StoredTokens::new(tokens, Arc::clone(store));
                Arc::new(Gate::new(&config.tcp, listen, Arc::new(tokens)))
            }
            _ => Arc::new(Gate::new(&config.tcp, listen, Arc::new(tokens))),
        });
        Ok(Self { peers, gate })
    }
}
