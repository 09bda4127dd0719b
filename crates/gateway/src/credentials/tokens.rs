//! The token stores of MCP clients, with the server, user and credential they belong to.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pillion_mcp_client::{Authentication, OAuthConfig, OAuthGrant, ServerConfig, TokenKey};
use pillion_store::{Vault, VaultTokenStore};

/// The account that OAuth tokens of a server belong to. Tokens of another account are invalid or
/// belong to another user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The key of the account in the token store.
    pub key: TokenKey,
    issuer: Option<String>,
    grant: OAuthGrant,
}

impl Account {
    /// Returns the account of a server that uses OAuth.
    pub fn from_server(server: &ServerConfig) -> Option<Self> {
        let oauth = oauth_config(server)?;
        Some(Self {
            key: TokenKey::new(server.url()?, oauth),
            issuer: oauth.issuer.clone(),
            grant: oauth.grant,
        })
    }

    /// Returns whether a user has consented to the authorization. Other tokens can be obtained
    /// again without interaction.
    pub fn is_consented(&self) -> bool {
        self.grant == OAuthGrant::AuthorizationCode
    }
}

fn oauth_config(server: &ServerConfig) -> Option<&OAuthConfig> {
    match &server.authentication {
        Authentication::OAuth(oauth) => Some(oauth),
        _ => None,
    }
}

/// The owner of the tokens in a token store.
#[derive(Debug, Clone)]
pub(super) struct TokenOwner {
    /// The identity in the format of [`VaultTokenStore`].
    pub(super) identity: String,
    /// The version of the user's credential; empty for the server's own tokens.
    pub(super) version: String,
    /// The label of the server.
    pub(super) server: String,
    pub(super) key: TokenKey,
}

/// The token stores that were issued to clients of this process. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct TokenStores(Arc<Mutex<Vec<IssuedTokenStore>>>);

struct IssuedTokenStore {
    owner: TokenOwner,
    store: Weak<VaultTokenStore>,
}

impl TokenStores {
    /// Returns a token store for a client.
    pub(super) fn issue(&self, vault: Arc<Vault>, owner: TokenOwner) -> Arc<VaultTokenStore> {
        let store = Arc::new(VaultTokenStore::new(vault, owner.identity.clone()));
        let mut issued = self.0.lock();
        issued.retain(|issued| issued.store.strong_count() > 0);
        let weak = Arc::downgrade(&store);
        issued.push(IssuedTokenStore { owner, store: weak });
        store
    }

    /// Closes the matching token stores. Tokens in the vault are kept.
    pub(super) async fn close(&self, is_match: impl Fn(&TokenOwner) -> bool) {
        for store in self.find_stores(is_match) {
            store.close().await;
        }
    }

    /// Like [`close`](Self::close), without waiting for tokens that are being saved.
    pub(super) fn close_matching(&self, is_match: impl Fn(&TokenOwner) -> bool) {
        for store in self.find_stores(is_match) {
            store.mark_closed();
        }
    }

    fn find_stores(&self, is_match: impl Fn(&TokenOwner) -> bool) -> Vec<Arc<VaultTokenStore>> {
        let issued = self.0.lock();
        let matching = issued.iter().filter(|issued| is_match(&issued.owner));
        matching
            .filter_map(|issued| issued.store.upgrade())
            .collect()
    }
}
