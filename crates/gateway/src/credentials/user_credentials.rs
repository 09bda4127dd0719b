//! The credentials of individual users for MCP servers, stored in the vault.

use std::sync::Arc;

use parking_lot::RwLock;
use pillion_core::store::{SecretId, SecretKind, Store, StoreError, Timestamp};
use pillion_mcp_client::{Authentication, ServerConfig, TokenKey};
use pillion_store::{Vault, VaultTokenStore};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::CredentialError;
use super::server_credentials::Credentials;
use super::tokens::{Account, TokenOwner, TokenStores};
use super::url_origin;

/// The vault with the users' credentials. Cheap to clone; a new vault applies to all clones at
/// once.
#[derive(Clone, Default)]
pub struct UserCredentials {
    vault: Arc<RwLock<Option<Arc<Vault>>>>,
    tokens: TokenStores,
}

/// The credential of one user for one server. Does not implement `Debug`, so that it is never
/// logged.
#[derive(Clone, Serialize, Deserialize)]
pub struct UserCredential {
    /// Identifies one version of the user's credential: whenever a credential is set, it gets a new
    /// unique value. A connection with a different value uses an earlier credential.
    pub(crate) version: String,
    /// The scheme, host and port for which the credential was set. The credential is sent only to
    /// this origin.
    #[serde(rename = "place")]
    pub(crate) origin: String,
    /// The time at which the credential was set, in milliseconds since 1970.
    pub set_at: i64,
    authentication: Map<String, Value>,
}

impl UserCredential {
    /// Creates a credential that is set at the current time; `authentication` has the format of a
    /// server's `authentication`.
    ///
    /// # Errors
    /// [`CredentialError::Invalid`] if `authentication` is invalid, `none` or `oauth`.
    pub fn new(origin: String, authentication: Value) -> Result<Self, CredentialError> {
        let key = "authentication";
        let Value::Object(authentication) = authentication else {
            return Err(CredentialError::invalid(key, "expected an object"));
        };
        let credential = Self {
            version: Uuid::new_v4().to_string(),
            origin,
            set_at: Timestamp::now().as_millis(),
            authentication,
        };
        let problem = match credential.authentication()? {
            Authentication::None => "the type none is not allowed for the credential of a user",
            Authentication::OAuth(_) => {
                "the type oauth is not allowed for the credential of a user: authorize with \
                 `pillion auth login SERVER --user NAME`"
            }
            _ => return Ok(credential),
        };
        Err(CredentialError::invalid(key, problem))
    }

    /// Creates the credential of a user for whom OAuth has obtained tokens.
    pub fn for_oauth(origin: String) -> Self {
        Self {
            version: Uuid::new_v4().to_string(),
            origin,
            set_at: Timestamp::now().as_millis(),
            authentication: Map::from_iter([("type".to_owned(), json!("oauth"))]),
        }
    }

    /// Returns the name of the authentication type in the REST API.
    pub fn kind(&self) -> &str {
        let kind = self.authentication.get("type").and_then(Value::as_str);
        kind.unwrap_or("none")
    }

    /// Returns whether the credential was set for this origin, the only origin to which the
    /// credential is sent.
    pub fn is_for_origin(&self, origin: &str) -> bool {
        self.origin == origin
    }

    pub(crate) fn is_oauth(&self) -> bool {
        self.kind() == "oauth"
    }

    pub(crate) fn authentication(&self) -> Result<Authentication, CredentialError> {
        let authentication = Value::Object(self.authentication.clone());
        let key = "authentication".to_owned();
        Credentials(Map::from_iter([(key, authentication)])).authentication()
    }
}

impl UserCredentials {
    /// Sets the vault for all clones.
    pub fn set_vault(&self, vault: Option<Arc<Vault>>) {
        *self.vault.write() = vault;
    }

    /// Returns the vault, if a key is configured.
    pub fn vault(&self) -> Option<Arc<Vault>> {
        self.vault.read().clone()
    }

    /// Returns the store for the OAuth tokens that all users of the server share; `None` without a
    /// vault, or if the server does not use OAuth.
    pub fn tokens_of_server(&self, server: &ServerConfig) -> Option<Arc<VaultTokenStore>> {
        self.token_store(server, String::new(), "")
    }

    /// Returns the store for OAuth tokens of a user of the server `id`, with this version of the
    /// credential. Token stores for other versions of the credential save no more tokens.
    pub(crate) fn tokens_of_user(
        &self,
        server: &ServerConfig,
        id: &str,
        user: &str,
        version: &str,
    ) -> Option<Arc<VaultTokenStore>> {
        self.close_other_tokens(id, user, Some(version));
        self.token_store(server, format_identity(id, user), version)
    }

    /// Prevents token stores for this user of the server `id` from saving tokens, except token
    /// stores for the credential version `current_version`.
    pub(crate) fn close_other_tokens(&self, id: &str, user: &str, current_version: Option<&str>) {
        let identity = format_identity(id, user);
        let is_current = |owner: &TokenOwner| Some(owner.version.as_str()) == current_version;
        self.tokens
            .close_without_waiting(|owner| owner.identity == identity && !is_current(owner));
    }

    fn token_store(
        &self,
        server: &ServerConfig,
        identity: String,
        version: &str,
    ) -> Option<Arc<VaultTokenStore>> {
        let owner = TokenOwner {
            identity,
            version: version.to_owned(),
            server: server.label.clone(),
            key: Account::from_server(server)?.key,
        };
        Some(self.tokens.issue(self.vault()?, owner))
    }

    /// Closes the servers' shared token stores for which `is_match` returns `true`, given the
    /// server's label and the key. The token stores of users are unaffected.
    pub async fn close_tokens_of_servers(&self, is_match: impl Fn(&str, &TokenKey) -> bool) {
        let is_server_owned =
            |owner: &TokenOwner| owner.identity.is_empty() && is_match(&owner.server, &owner.key);
        self.tokens.close(is_server_owned).await;
    }

    /// Closes the servers' shared token stores for `key`, and removes the tokens under `key` from
    /// the vault.
    pub async fn forget_tokens_of_server(&self, key: &TokenKey) -> Result<(), CredentialError> {
        self.close_tokens_of_servers(|_, other| other == key).await;
        let vault = self.vault().ok_or(CredentialError::NoKey)?;
        Ok(VaultTokenStore::new(vault, "").forget(Some(key)).await?)
    }

    /// Closes the token stores of users for whose server ID `is_match` returns `true`.
    pub async fn close_tokens_of_users(&self, is_match: impl Fn(&str) -> bool) {
        let is_user_owned =
            |owner: &TokenOwner| parse_id(&owner.identity).is_some_and(|[id, _]| is_match(&id));
        self.tokens.close(is_user_owned).await;
    }

    /// Closes the token stores of one user of the server `server`, and waits for tokens that are
    /// being saved. The tokens stay in the vault.
    pub async fn close_tokens_of_user(&self, server: &str, user: &str) {
        let identity = format_identity(server, user);
        self.tokens.close(|owner| owner.identity == identity).await;
    }

    /// Returns the user's credential for the server `server`; `None` if the user has none, or
    /// without a vault.
    pub(crate) async fn get(
        &self,
        server: &str,
        user: &str,
    ) -> Result<Option<UserCredential>, CredentialError> {
        let Some(vault) = self.vault() else {
            return Ok(None);
        };
        let id = format_identity(server, user);
        let secret = vault.get(SecretKind::UserCredential, &id).await?;
        secret.map(|secret| parse_credential(&secret)).transpose()
    }

    /// Returns the configuration of the server `id` with the credential of `user`; `None` if the
    /// user has no credential for the server's current address.
    ///
    /// # Errors
    /// The credential cannot be read, or cannot be used for the server.
    pub async fn config_of_user(
        &self,
        id: &str,
        server: &ServerConfig,
        user: &str,
    ) -> Result<Option<ServerConfig>, CredentialError> {
        let origin = server.url().map(url_origin);
        let stored_credential = self.get(id, user).await?;
        let credential =
            stored_credential.filter(|credential| origin.as_ref() == Some(&credential.origin));
        credential
            .map(|credential| self.config_with_credential(id, server, user, &credential))
            .transpose()
    }

    /// Returns the configuration of the server `id` with this credential of `user`.
    ///
    /// # Errors
    /// The credential cannot be used for the server.
    pub(crate) fn config_with_credential(
        &self,
        id: &str,
        server: &ServerConfig,
        user: &str,
        credential: &UserCredential,
    ) -> Result<ServerConfig, CredentialError> {
        let mut server = server.clone();
        if credential.is_oauth() {
            let tokens = self.tokens_of_user(&server, id, user, &credential.version);
            server.authorization.token_store = Some(tokens.ok_or(CredentialError::Unreadable)?);
        } else {
            server.authentication = credential.authentication()?;
        }
        server.validate().map_err(|_| CredentialError::Unreadable)?;
        Ok(server)
    }

    /// Stores a credential in place of the previous one. Also removes the OAuth tokens of the
    /// previous credential, unless the new credential uses OAuth.
    pub async fn put(
        &self,
        server: &str,
        user: &str,
        credential: &UserCredential,
    ) -> Result<(), CredentialError> {
        let vault = self.vault().ok_or(CredentialError::NoKey)?;
        let text = serde_json::to_string(credential).map_err(|_| CredentialError::Unreadable)?;
        let id = format_identity(server, user);
        let secret = SecretString::from(text);
        vault.put(SecretKind::UserCredential, &id, &secret).await?;
        if !credential.is_oauth() {
            self.forget_tokens(vault, id).await?;
        }
        Ok(())
    }

    /// Removes the user's credential for the server, including OAuth tokens.
    ///
    /// # Errors
    /// [`CredentialError::NoUserCredential`]: the user has no credential for the server.
    pub async fn remove(&self, server: &str, user: &str) -> Result<(), CredentialError> {
        let vault = self.vault().ok_or(CredentialError::NoKey)?;
        let id = format_identity(server, user);
        if vault.get(SecretKind::UserCredential, &id).await?.is_none() {
            return Err(CredentialError::NoUserCredential);
        }
        vault.remove(SecretKind::UserCredential, &id).await?;
        self.forget_tokens(vault, id).await
    }

    /// Removes all OAuth authorizations of users for the server `server`.
    pub async fn remove_authorizations(&self, server: &str) -> Result<(), CredentialError> {
        for (user, credential) in self.list(server).await? {
            if credential.is_oauth() {
                self.remove(server, &user).await?;
            }
        }
        Ok(())
    }

    /// Removes a user's tokens. The token stores are closed first, so that no client saves the
    /// tokens again.
    async fn forget_tokens(&self, vault: Arc<Vault>, id: String) -> Result<(), CredentialError> {
        self.tokens.close(|owner| owner.identity == id).await;
        Ok(VaultTokenStore::new(vault, id).forget(None).await?)
    }

    /// Returns the users with a credential for the server, sorted by name.
    pub async fn list(
        &self,
        server: &str,
    ) -> Result<Vec<(String, UserCredential)>, CredentialError> {
        let Some(vault) = self.vault() else {
            return Ok(Vec::new());
        };
        let mut credentials = Vec::new();
        for id in vault.ids(SecretKind::UserCredential).await? {
            if let Some([owner_server, user]) = parse_id(&id)
                && owner_server == server
                && let Some(credential) = self.get(server, &user).await?
            {
                credentials.push((user, credential));
            }
        }
        credentials.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(credentials)
    }
}

/// Removes the credentials of all users for a server that was removed or moved to another address.
pub async fn forget_server(store: &dyn Store, server: &str) -> Result<(), StoreError> {
    for (secret_id, _) in store.secrets().await? {
        if belongs_to(&secret_id, server) {
            store.remove_secret(&secret_id).await?;
        }
    }
    Ok(())
}

fn belongs_to(secret_id: &SecretId, server: &str) -> bool {
    let identity = match secret_id.kind {
        SecretKind::UserCredential => Some(secret_id.id.clone()),
        SecretKind::OAuthTokens => {
            let parts: Option<[String; 3]> = serde_json::from_str(&secret_id.id).ok();
            parts.map(|[identity, ..]| identity)
        }
        _ => None,
    };
    let parts = identity.as_deref().and_then(parse_id);
    parts.is_some_and(|[owner_server, _]| owner_server == server)
}

/// Returns the ID of a user's credential in the vault, which is also the owner of the user's OAuth
/// tokens in the format of [`VaultTokenStore`].
pub fn format_identity(server: &str, user: &str) -> String {
    json!([server, user]).to_string()
}

fn parse_id(id: &str) -> Option<[String; 2]> {
    serde_json::from_str(id).ok()
}

fn parse_credential(secret: &SecretString) -> Result<UserCredential, CredentialError> {
    // The error of `serde_json` is dropped, because it could contain a part of the credential.
    serde_json::from_str(secret.expose_secret()).map_err(|_| CredentialError::Unreadable)
}

impl std::fmt::Debug for UserCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserCredentials").finish_non_exhaustive()
    }
}
