use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use url::Url;

use super::OAuthConfig;

/// What a [`TokenStore`] gives back.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TokenStoreError>> + Send + 'a>>;

/// Keeps the credentials that were obtained, from one process to the next.
///
/// A store belongs to one identity: two users never share one. Entries are secrets; what
/// is written to a disk is to be encrypted. [`OAuthCredentials`] can be written as JSON.
pub trait TokenStore: Send + Sync {
    /// The entry, if there is one.
    ///
    /// # Errors
    /// [`TokenStoreError`] when the store cannot be read; having no entry is no error.
    fn load<'a>(&'a self, key: &'a TokenKey) -> StoreFuture<'a, Option<OAuthCredentials>>;

    /// Puts the entry in the place of the one before.
    ///
    /// # Errors
    /// [`TokenStoreError`].
    fn save<'a>(&'a self, key: &'a TokenKey, credentials: OAuthCredentials) -> StoreFuture<'a, ()>;

    /// Removes the entry; having none is no error.
    ///
    /// # Errors
    /// [`TokenStoreError`].
    fn clear<'a>(&'a self, key: &'a TokenKey) -> StoreFuture<'a, ()>;
}

/// What an entry is stored under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenKey {
    /// The MCP server's URL, without query and fragment.
    pub server: String,
    /// The configured client id or client metadata URL; empty for a client that registers
    /// itself.
    pub client: String,
}

impl TokenKey {
    /// What the credentials of a client of this server are stored under.
    #[must_use]
    pub fn new(server: &Url, oauth: &OAuthConfig) -> Self {
        let client = oauth.client_id.as_ref();
        let client = client.or(oauth.client_metadata_url.as_ref());
        Self {
            server: Self::server_of(server),
            client: client.cloned().unwrap_or_default(),
        }
    }
}

impl TokenKey {
    /// What [`server`](Self::server) is for the server at this URL.
    #[must_use]
    pub fn server_of(url: &Url) -> String {
        let mut server = url.clone();
        server.set_query(None);
        server.set_fragment(None);
        server.into()
    }
}

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[error("the token store failed: {source}")]
pub struct TokenStoreError {
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl TokenStoreError {
    /// From the store's own error, whose text must hold no secret.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
        }
    }
}

/// What a client has at one MCP server. Its JSON holds every secret in clear.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OAuthCredentials {
    /// Where this client is registered, by issuer: no authorization server ever sees what
    /// another has given (client registration, authorization server binding).
    #[serde(default)]
    pub registrations: BTreeMap<String, ClientRegistration>,
    /// The tokens, once there are any.
    #[serde(default)]
    pub tokens: Option<OAuthTokens>,
}

/// What an authorization server knows this client by.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientRegistration {
    /// The client's id.
    pub client_id: String,
    /// Its secret, if it was given one.
    #[serde(default, serialize_with = "exposed_option")]
    pub client_secret: Option<SecretString>,
    /// The address that was registered; another needs another registration.
    pub redirect_uri: String,
}

/// Tokens, and what they are good for.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OAuthTokens {
    /// The authorization server that gave them.
    pub issuer: String,
    /// The access token.
    #[serde(serialize_with = "exposed")]
    pub access_token: SecretString,
    /// What gets the next one without asking anybody.
    #[serde(default, serialize_with = "exposed_option")]
    pub refresh_token: Option<SecretString>,
    /// When the access token ends, in seconds since 1970; none when the server did not say.
    #[serde(default)]
    pub expires_at: Option<u64>,
    /// The scopes that were asked for.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The key that the tokens are bound to (RFC 9449): PKCS#8 in base64.
    #[serde(default, serialize_with = "exposed_option")]
    pub dpop_key: Option<SecretString>,
}

impl fmt::Debug for OAuthTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthTokens")
            .field("issuer", &self.issuer)
            .field("expires_at", &self.expires_at)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

pub(super) fn exposed<S: Serializer>(
    secret: &SecretString,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

#[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
pub(super) fn exposed_option<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => serializer.serialize_some(secret.expose_secret()),
        None => serializer.serialize_none(),
    }
}

/// Keeps credentials as long as it lives: what a client uses unless it is given another.
#[derive(Debug, Default)]
pub struct InMemoryTokenStore {
    entries: Mutex<HashMap<TokenKey, OAuthCredentials>>,
}

impl TokenStore for InMemoryTokenStore {
    fn load<'a>(&'a self, key: &'a TokenKey) -> StoreFuture<'a, Option<OAuthCredentials>> {
        Box::pin(async move { Ok(self.entries.lock().get(key).cloned()) })
    }

    fn save<'a>(&'a self, key: &'a TokenKey, credentials: OAuthCredentials) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.entries.lock().insert(key.clone(), credentials);
            Ok(())
        })
    }

    fn clear<'a>(&'a self, key: &'a TokenKey) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.entries.lock().remove(key);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> OAuthCredentials {
        serde_json::from_value(serde_json::json!({
            "registrations": {"https://as.example": {
                "client_id": "c", "client_secret": "hush-secret", "redirect_uri": "http://x/"}},
            "tokens": {"issuer": "https://as.example", "access_token": "hush-access",
                "refresh_token": "hush-refresh", "scopes": ["a"]},
        }))
        .unwrap()
    }

    #[test]
    fn l1_debug_shows_no_secret_and_json_keeps_them() {
        let credentials = credentials();
        assert!(!format!("{credentials:?}").contains("hush"));
        let json = serde_json::to_string(&credentials).unwrap();
        let again: OAuthCredentials = serde_json::from_str(&json).unwrap();
        let tokens = again.tokens.unwrap();
        assert_eq!(tokens.access_token.expose_secret(), "hush-access");
        assert_eq!(
            tokens.refresh_token.unwrap().expose_secret(),
            "hush-refresh"
        );
        assert!(json.contains("hush-secret"));
    }

    #[tokio::test]
    async fn the_store_in_memory_keeps_entries_apart() {
        let store = InMemoryTokenStore::default();
        let key = |client: &str| TokenKey {
            server: "https://x.example/mcp".to_owned(),
            client: client.to_owned(),
        };
        store.save(&key("a"), credentials()).await.unwrap();
        assert!(store.load(&key("b")).await.unwrap().is_none());
        assert!(store.load(&key("a")).await.unwrap().is_some());
        store.clear(&key("a")).await.unwrap();
        assert!(store.load(&key("a")).await.unwrap().is_none());
    }
}
