//! The token stores of MCP clients, each with the server, user and credential that the tokens
//! belong to.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pillion_mcp_client::{Authentication, OAuthConfig, OAuthGrant, ServerConfig, TokenKey};
use pillion_store::{Vault, VaultTokenStore};

/// The OAuth account whose tokens a client uses for a server. Tokens of any other account are
/// invalid for the client or belong to another user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The key of the account in the token store.
    pub key: TokenKey,
    issuer: Option<String>,
    grant: OAuthGrant,
}

impl Account {
    /// Returns the account of a server; `None` if the server does not use OAuth.
    pub fn from_server(server: &ServerConfig) -> Option<Self> {
        let oauth = oauth_config(server)?;
        Some(Self {
            key: TokenKey::new(server.url()?, oauth),
            issuer: oauth.issuer.clone(),
            grant: oauth.grant,
        })
    }

    /// Returns whether the tokens need the consent of a user. Tokens that need no consent can be
    /// obtained again without interaction.
    pub fn needs_consent(&self) -> bool {
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
    /// The version of the user's credential; empty for tokens that all users of the server share.
    pub(super) version: String,
    /// The label of the server.
    pub(super) server: String,
    pub(super) key: TokenKey,
}

/// The token stores that were issued to clients of this process. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct TokenStores(Arc<Mutex<Vec<IssuedTokenStore>>>);

type IssuedTokenStore = (TokenOwner, Weak<VaultTokenStore>);

impl TokenStores {
    /// Returns a token store for a client.
    pub(super) fn issue(&self, vault: Arc<Vault>, owner: TokenOwner) -> Arc<VaultTokenStore> {
        let store = Arc::new(VaultTokenStore::new(vault, owner.identity.clone()));
        let mut issued_stores = self.0.lock();
        issued_stores.retain(|(_, store)| store.strong_count() > 0);
        issued_stores.push((owner, Arc::downgrade(&store)));
        store
    }

    /// Closes the token stores for whose owner `is_match` returns `true`. The tokens stay in the
    /// vault.
    pub(super) async fn close(&self, is_match: impl Fn(&TokenOwner) -> bool) {
        for store in self.find_stores(is_match) {
            store.close().await;
        }
    }

    /// Closes token stores like [`close`](Self::close), without waiting for tokens that are being
    /// saved.
    pub(super) fn close_without_waiting(&self, is_match: impl Fn(&TokenOwner) -> bool) {
        for store in self.find_stores(is_match) {
            store.mark_closed();
        }
    }

    fn find_stores(&self, is_match: impl Fn(&TokenOwner) -> bool) -> Vec<Arc<VaultTokenStore>> {
        let issued_stores = self.0.lock();
        issued_stores
            .iter()
            .filter(|(owner, _)| is_match(owner))
            .filter_map(|(_, store)| store.upgrade())
            .collect()
    }
}
