//! What OAuth obtains for MCP servers: whose it is, and who may still add to it.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pillion_core::mcp::{Authentication, OAuthConfig, OAuthGrant, ServerConfig, TokenKey};
use pillion_store::{Vault, VaultTokenStore};

/// What a server's tokens are good for. With another account they are of no use, or somebody
/// else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) key: TokenKey,
    issuer: Option<String>,
    grant: OAuthGrant,
}

impl Account {
    /// That of a server which has one.
    pub(crate) fn of(server: &ServerConfig) -> Option<Self> {
        let oauth = oauth_of(server)?;
        Some(Self {
            key: TokenKey::new(server.url()?, oauth),
            issuer: oauth.issuer.clone(),
            grant: oauth.grant,
        })
    }

    /// Whether a person has consented to it. Other tokens are had again without asking anybody.
    pub(crate) fn is_consented(&self) -> bool {
        self.grant == OAuthGrant::AuthorizationCode
    }
}

fn oauth_of(server: &ServerConfig) -> Option<&OAuthConfig> {
    match &server.authentication {
        Authentication::OAuth(oauth) => Some(oauth),
        _ => None,
    }
}

/// Whose client has a store.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// As [`VaultTokenStore`] has it.
    pub(super) identity: String,
    /// Of the user's credential; empty where nobody's is used.
    pub(super) version: String,
    /// The name of the server.
    pub(super) server: String,
    pub(super) key: TokenKey,
}

/// The token stores that clients of this process have. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct TokenStores(Arc<Mutex<Vec<Issued>>>);

struct Issued {
    place: Place,
    store: Weak<VaultTokenStore>,
}

impl TokenStores {
    /// A store for a client.
    pub(super) fn issue(&self, vault: Arc<Vault>, place: Place) -> Arc<VaultTokenStore> {
        let store = Arc::new(VaultTokenStore::new(vault, place.identity.clone()));
        let mut issued = self.0.lock();
        issued.retain(|issued| issued.store.strong_count() > 0);
        let weak = Arc::downgrade(&store);
        issued.push(Issued { place, store: weak });
        store
    }

    /// Closes those of which that is meant. What is in the vault stays as it is.
    pub(super) async fn close(&self, is_meant: impl Fn(&Place) -> bool) {
        for store in self.meant(is_meant) {
            store.close().await;
        }
    }

    /// As [`close`](Self::close), without waiting for what is being saved.
    pub(super) fn refuse(&self, is_meant: impl Fn(&Place) -> bool) {
        for store in self.meant(is_meant) {
            store.refuse();
        }
    }

    fn meant(&self, is_meant: impl Fn(&Place) -> bool) -> Vec<Arc<VaultTokenStore>> {
        let issued = self.0.lock();
        let meant = issued.iter().filter(|issued| is_meant(&issued.place));
        meant.filter_map(|issued| issued.store.upgrade()).collect()
    }
}
