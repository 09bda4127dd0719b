mod error;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::pin::Pin;

use parking_lot::Mutex;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;

use super::OAuthConfig;
use super::client::OAuthClient;
use super::secret_json::{serialize_exposed, serialize_exposed_option};
pub use error::TokenStoreError;

/// The result of a [`TokenStore`] operation.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TokenStoreError>> + Send + 'a>>;

/// Stores OAuth credentials across processes.
///
/// A store belongs to one identity: users must never share one. Entries are secrets; encrypt what
/// is written to disk. [`OAuthCredentials`] can be serialized as JSON.
pub trait TokenStore: Send + Sync {
    /// Returns the entry of a client, if there is one.
    ///
    /// # Errors
    /// [`TokenStoreError`] if the store cannot be read. A missing entry is not an error.
    fn load<'a>(&'a self, key: &'a TokenKey) -> StoreFuture<'a, Option<OAuthCredentials>>;

    /// Stores the entry of a client, replacing an existing one.
    ///
    /// # Errors
    /// [`TokenStoreError`] if the store cannot be written.
    fn save<'a>(&'a self, key: &'a TokenKey, credentials: OAuthCredentials) -> StoreFuture<'a, ()>;

    /// Removes the entry of a client. Succeeds if there is no such entry.
    ///
    /// # Errors
    /// [`TokenStoreError`] if the store cannot be written.
    fn clear<'a>(&'a self, key: &'a TokenKey) -> StoreFuture<'a, ()>;
}

/// The key of a token store's entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenKey {
    /// The URL of the MCP server, without query and fragment.
    pub server: String,
    /// The configured client ID or client metadata URL; empty for a client that registers itself.
    pub client: String,
}

impl TokenKey {
    /// Returns the key under which the credentials of a client of this server are stored.
    #[must_use]
    pub fn new(server: &Url, oauth: &OAuthConfig) -> Self {
        let client_id = oauth.client_id.as_ref();
        let client = client_id.or(oauth.client_metadata_url.as_ref());
        Self {
            server: Self::server_for_url(server),
            client: client.cloned().unwrap_or_default(),
        }
    }

    /// Returns the identifier ([`server`](Self::server)) under which a store keeps the credentials
    /// for the server at this URL: the URL without query and fragment.
    #[must_use]
    pub fn server_for_url(url: &Url) -> String {
        let mut server = url.clone();
        server.set_query(None);
        server.set_fragment(None);
        server.into()
    }
}

/// A client's registrations and tokens for one MCP server. The JSON of this value contains all
/// secrets in plain text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OAuthCredentials {
    /// Registrations of the client, by issuer: credentials of one authorization server are never
    /// sent to another (MCP client registration, authorization server binding).
    #[serde(default)]
    pub registrations: BTreeMap<String, ClientRegistration>,
    /// The client's tokens, if it has any.
    pub tokens: Option<OAuthTokens>,
}

/// The registration of a client at an authorization server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientRegistration {
    /// The client ID that the authorization server assigned.
    pub client_id: String,
    /// The client secret, if the authorization server issued one.
    #[serde(default, serialize_with = "serialize_exposed_option")]
    pub client_secret: Option<SecretString>,
    /// The registered redirect URI. Another redirect URI requires another registration.
    pub redirect_uri: String,
}

impl ClientRegistration {
    pub(super) fn client(&self) -> OAuthClient {
        OAuthClient::with_secret(self.client_id.clone(), self.client_secret.clone())
    }
}

/// The tokens of a client, and their properties.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OAuthTokens {
    /// The issuer that issued the tokens.
    pub issuer: String,
    /// The resource for which the tokens were issued (RFC 8707).
    pub resource: Option<String>,
    /// The access token (RFC 6749 section 1.4), which authorizes requests to the MCP server.
    #[serde(serialize_with = "serialize_exposed")]
    pub access_token: SecretString,
    /// The refresh token (RFC 6749 section 1.5), which obtains another access token.
    #[serde(default, serialize_with = "serialize_exposed_option")]
    pub refresh_token: Option<SecretString>,
    /// When the access token expires, in seconds since the Unix epoch; `None` if unknown.
    pub expires_at: Option<u64>,
    /// The scopes that the client requested.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The key to which the tokens are bound (RFC 9449): PKCS#8 in Base64.
    #[serde(default, serialize_with = "serialize_exposed_option")]
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

/// Stores credentials in memory. The default store of a client.
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
    use secrecy::ExposeSecret;

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
    fn l1_debug_shows_no_secret_and_json_contains_them() {
        let credentials = credentials();
        assert!(!format!("{credentials:?}").contains("hush"));
        let json = serde_json::to_string(&credentials).unwrap();
        let again: OAuthCredentials = serde_json::from_str(&json).unwrap();
        let tokens = again.tokens.unwrap();
        assert_eq!(tokens.access_token.expose_secret(), "hush-access");
        let refresh_token = tokens.refresh_token.unwrap();
        assert_eq!(refresh_token.expose_secret(), "hush-refresh");
        assert!(json.contains("hush-secret"));
    }

    #[tokio::test]
    async fn the_memory_store_separates_entries() {
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
