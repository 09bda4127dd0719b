//! The credentials that single users have for MCP servers (L1), in the vault.

use std::sync::Arc;

use parking_lot::RwLock;
use pillion_core::mcp::Authentication;
use pillion_core::store::{SecretKind, SecretPlace, Store, StoreError, Timestamp};
use pillion_store::{Vault, VaultTokenStore};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::ServerError;
use super::definition::Credentials;

/// Where the credentials are. Cheap to clone; clones see another key at once.
#[derive(Clone, Default)]
pub(crate) struct UserCredentials {
    vault: Arc<RwLock<Option<Arc<Vault>>>>,
}

/// What one user has for one server. Not `Debug`, so that nothing shows it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct UserCredential {
    /// Another one each time that one is given: connections that were made with the one before
    /// are told by it.
    pub(crate) version: String,
    /// The scheme, host and port that it was given for, and goes to nobody else than.
    pub(crate) place: String,
    /// When it was given, in milliseconds since 1970.
    pub(crate) set_at: i64,
    authentication: Map<String, Value>,
}

impl UserCredential {
    /// One that is given now; `authentication` is what F1 says of a server.
    ///
    /// # Errors
    /// [`ServerError::Invalid`] where it is none.
    pub(crate) fn new(place: String, authentication: Value) -> Result<Self, ServerError> {
        let key = "authentication";
        let Value::Object(authentication) = authentication else {
            return Err(ServerError::invalid(key, "expected an object"));
        };
        let credential = Self {
            version: Uuid::new_v4().to_string(),
            place,
            set_at: Timestamp::now().as_millis(),
            authentication,
        };
        match credential.authentication()? {
            Authentication::None => Err(ServerError::invalid(key, "it is none")),
            Authentication::OAuth(_) => Err(ServerError::invalid(
                key,
                "an authorization is obtained by `pillion auth login SERVER --user NAME`",
            )),
            _ => Ok(credential),
        }
    }

    /// What says that OAuth has obtained tokens for the user.
    pub(crate) fn authorized(place: String) -> Self {
        Self {
            version: Uuid::new_v4().to_string(),
            place,
            set_at: Timestamp::now().as_millis(),
            authentication: Map::from_iter([("type".to_owned(), json!("oauth"))]),
        }
    }

    /// The kind, as the API names it.
    pub(crate) fn kind(&self) -> &str {
        let kind = self.authentication.get("type").and_then(Value::as_str);
        kind.unwrap_or("none")
    }

    pub(crate) fn is_oauth(&self) -> bool {
        self.kind() == "oauth"
    }

    pub(crate) fn authentication(&self) -> Result<Authentication, ServerError> {
        let authentication = Value::Object(self.authentication.clone());
        let key = "authentication".to_owned();
        Credentials(Map::from_iter([(key, authentication)])).authentication()
    }
}

impl UserCredentials {
    /// From now on they are in this vault.
    pub(crate) fn move_to(&self, vault: Option<Arc<Vault>>) {
        *self.vault.write() = vault;
    }

    pub(crate) fn vault(&self) -> Option<Arc<Vault>> {
        self.vault.read().clone()
    }

    /// What the user has for the server of that id. Without a vault that is nothing.
    pub(crate) async fn get(
        &self,
        server: &str,
        user: &str,
    ) -> Result<Option<UserCredential>, ServerError> {
        let Some(vault) = self.vault() else {
            return Ok(None);
        };
        let id = id_of(server, user);
        let found = vault.get(SecretKind::UserCredential, &id).await?;
        found.map(|secret| read(&secret)).transpose()
    }

    /// Puts a credential in the place of the one before.
    pub(crate) async fn put(
        &self,
        server: &str,
        user: &str,
        credential: &UserCredential,
    ) -> Result<(), ServerError> {
        let vault = self.vault().ok_or(ServerError::NoKey)?;
        let text = serde_json::to_string(credential).map_err(|_| ServerError::Unreadable)?;
        let id = id_of(server, user);
        let secret = SecretString::from(text);
        vault.put(SecretKind::UserCredential, &id, &secret).await?;
        Ok(())
    }

    /// Removes what the user has for the server, tokens of OAuth included.
    ///
    /// # Errors
    /// [`ServerError::NoUserCredential`] where there is nothing.
    pub(crate) async fn remove(&self, server: &str, user: &str) -> Result<(), ServerError> {
        let vault = self.vault().ok_or(ServerError::NoKey)?;
        let id = id_of(server, user);
        if vault.get(SecretKind::UserCredential, &id).await?.is_none() {
            return Err(ServerError::NoUserCredential);
        }
        vault.remove(SecretKind::UserCredential, &id).await?;
        let tokens = VaultTokenStore::new(vault, identity_of(server, user));
        Ok(tokens.forget(None).await?)
    }

    /// The users who have something for the server, by name, and what.
    pub(crate) async fn list(
        &self,
        server: &str,
    ) -> Result<Vec<(String, UserCredential)>, ServerError> {
        let Some(vault) = self.vault() else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for id in vault.ids(SecretKind::UserCredential).await? {
            if let Some([of, user]) = parts_of(&id)
                && of == server
                && let Some(credential) = self.get(server, &user).await?
            {
                all.push((user, credential));
            }
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(all)
    }
}

/// Removes what all users have for a server, which is gone or elsewhere now.
pub(crate) async fn forget_server(store: &dyn Store, server: &str) -> Result<(), StoreError> {
    for (place, _) in store.secrets().await? {
        if is_of(&place, server) {
            store.remove_secret(&place).await?;
        }
    }
    Ok(())
}

fn is_of(place: &SecretPlace, server: &str) -> bool {
    let identity = match place.kind {
        SecretKind::UserCredential => Some(place.id.clone()),
        SecretKind::OAuthTokens => {
            let parts: Option<[String; 3]> = serde_json::from_str(&place.id).ok();
            parts.map(|[identity, ..]| identity)
        }
        _ => None,
    };
    let parts = identity.as_deref().and_then(parts_of);
    parts.is_some_and(|[of, _]| of == server)
}

/// Whose the tokens of OAuth are.
pub(crate) fn identity_of(server: &str, user: &str) -> String {
    id_of(server, user)
}

fn id_of(server: &str, user: &str) -> String {
    json!([server, user]).to_string()
}

fn parts_of(id: &str) -> Option<[String; 2]> {
    serde_json::from_str(id).ok()
}

fn read(secret: &SecretString) -> Result<UserCredential, ServerError> {
    // The parser's error could show a piece of it.
    serde_json::from_str(secret.expose_secret()).map_err(|_| ServerError::Unreadable)
}

impl std::fmt::Debug for UserCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserCredentials").finish_non_exhaustive()
    }
}
