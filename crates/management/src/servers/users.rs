//! Lists, sets and removes the credentials of individual users.

use pillion_core::store::{PinOwner, Timestamp};
use pillion_wire::UserCredentialEntry;
use serde_json::{Map, Value};

use super::logins::AuthorizationState;
use super::{Result, Server, ServerError, Servers};
use pillion_gateway::access::{AccessGrant, MAX_USER_BYTES, OtherUser};
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::credentials::{Account, UserCredential, format_identity, url_origin};
use pillion_gateway::timestamp::format_timestamp;

/// Maximum number of users on a page of the list of credentials.
const PAGE_SIZE: usize = 50;

/// A user's credential for a server, and its state.
#[derive(Debug, Clone)]
pub struct UserCredentialState {
    /// The credential, without secrets.
    pub entry: UserCredentialEntry,
    /// Whether the credential was set for another address of the server, and is therefore not used.
    pub is_for_other_address: bool,
    /// The state of the user's OAuth tokens, if the credential is an authorization.
    pub authorization: Option<AuthorizationState>,
}

/// A page of the list of users with a credential for a server.
#[derive(Debug, Clone)]
pub struct UserCredentialPage {
    /// The credentials, ordered by the user's name.
    pub users: Vec<UserCredentialState>,
    /// The last user of this page, if there is another page.
    pub next: Option<String>,
}

/// Checks that the caller may manage the credentials of `user`: a token for a single user manages
/// only those of this user.
pub(super) fn check_user(grant: &AccessGrant, user: &str) -> Result<()> {
    // The names `.` and `..` are rejected, because a URL path would resolve them as relative
    // segments.
    let is_path_segment = user == "." || user == "..";
    if user.is_empty() || user.len() > MAX_USER_BYTES || is_path_segment {
        let message = "must have between 1 and 256 bytes, and must not be '.' or '..'";
        return Err(ServerError::invalid("user", message));
    }
    if grant.may_act_for(user) {
        Ok(())
    } else {
        Err(OtherUser.into())
    }
}

impl Servers {
    /// Sets a user's credential for the server with this ID or name, and replaces the previous one.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::NotOfUsers`] if the
    /// server does not use credentials of users; [`ServerError::Invalid`] if the user or the
    /// credential is invalid; [`ServerError::OtherUser`] if the caller may not manage the user's
    /// credentials; [`ServerError::Credential`] if the credential cannot be stored.
    pub async fn set_credential(
        &self,
        grant: &AccessGrant,
        key: &str,
        user: &str,
        mut keys: Map<String, Value>,
    ) -> Result<UserCredentialEntry> {
        // The lock prevents the server from being removed while the credential is set.
        let _file_config = self.file_config.lock().await;
        let server = self.find(key)?;
        check_user(grant, user)?;
        let address = server.credential_address()?;
        let authentication = keys.remove("authentication").unwrap_or(Value::Null);
        if let Some(unknown_member) = keys.keys().next() {
            return Err(ServerError::invalid(
                truncate_input(unknown_member),
                "unknown field",
            ));
        }
        let credential = UserCredential::new(address, authentication)?;
        let credentials = &self.user_credentials;
        credentials.put(&server.id(), user, &credential).await?;
        self.forget_user(&server, user);
        tracing::info!(
            server.label = server.name(),
            user,
            "A user's credential was stored"
        );
        Ok(build_entry(user.to_owned(), &credential))
    }

    /// Returns the users with a credential for the server with this ID or name whose credentials
    /// the caller may manage.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::Credential`] if the
    /// credentials cannot be read.
    pub async fn credentials(
        &self,
        grant: &AccessGrant,
        key: &str,
    ) -> Result<Vec<UserCredentialEntry>> {
        let server = self.find(key)?;
        let credentials = self.managed_credentials(grant, &server).await?;
        let to_entry = |(user, credential)| build_entry(user, &credential);
        Ok(credentials.into_iter().map(to_entry).collect())
    }

    /// Returns the users of [`credentials`](Self::credentials) whose names come after `after`, with
    /// the state of each credential.
    ///
    /// # Errors
    /// The same errors as [`credentials`](Self::credentials).
    pub async fn credential_page(
        &self,
        grant: &AccessGrant,
        key: &str,
        after: Option<&str>,
    ) -> Result<UserCredentialPage> {
        let server = self.find(key)?;
        let address = server.credential_address().ok();
        let account = server.account().filter(Account::needs_consent);
        let mut credentials = self.managed_credentials(grant, &server).await?;
        credentials.retain(|(user, _)| after.is_none_or(|after| user.as_str() > after));
        let has_more = credentials.len() > PAGE_SIZE;
        credentials.truncate(PAGE_SIZE);
        let mut users = Vec::with_capacity(credentials.len());
        for (user, credential) in credentials {
            let is_oauth = credential.kind() == "oauth";
            let authorization = match account.as_ref().filter(|_| is_oauth) {
                Some(account) => {
                    let identity = format_identity(&server.id(), &user);
                    Some(self.load_state(identity, account).await?)
                }
                None => is_oauth.then_some(AuthorizationState::Missing),
            };
            let is_other_address = |address: &String| !credential.is_for_origin(address);
            users.push(UserCredentialState {
                is_for_other_address: address.as_ref().is_some_and(is_other_address),
                entry: build_entry(user, &credential),
                authorization,
            });
        }
        let last_user = users.last().map(|last| last.entry.user.clone());
        Ok(UserCredentialPage {
            users,
            next: last_user.filter(|_| has_more),
        })
    }

    /// Returns the credentials for a server that the caller may manage, sorted by user.
    async fn managed_credentials(
        &self,
        grant: &AccessGrant,
        server: &Server,
    ) -> Result<Vec<(String, UserCredential)>> {
        let mut credentials = self.user_credentials.list(&server.id()).await?;
        credentials.retain(|(user, _)| grant.may_act_for(user));
        Ok(credentials)
    }

    /// Removes a user's credential for the server with this ID or name.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::OtherUser`] if the
    /// caller may not manage the user's credentials; [`ServerError::Credential`] if the credential
    /// cannot be removed.
    pub async fn remove_credential(
        &self,
        grant: &AccessGrant,
        key: &str,
        user: &str,
    ) -> Result<()> {
        let _file_config = self.file_config.lock().await;
        let server = self.find(key)?;
        if !grant.may_act_for(user) {
            return Err(OtherUser.into());
        }
        self.user_credentials.remove(&server.id(), user).await?;
        // Also removes the pins of tools that the server listed for this user alone.
        let owner = PinOwner {
            server: server.name(),
            user: Some(user),
        };
        if let Err(error) = self.store.remove_pins(owner).await {
            tracing::warn!(
                server.label = server.name(), %error,
                "Cannot remove the tool pins of a user"
            );
        }
        self.forget_user(&server, user);
        tracing::info!(
            server.label = server.name(),
            user,
            "A user's credential was removed"
        );
        Ok(())
    }

    /// Closes the user's session with the server after its running calls.
    pub(super) fn forget_user(&self, server: &Server, user: &str) {
        if let Some(gateway) = self.gateway() {
            gateway.upstreams().forget_user(server.name(), user);
        }
    }
}

impl Server {
    /// Returns the address of the server, to which the credentials of its users are bound.
    pub(super) fn credential_address(&self) -> Result<String> {
        let not_of_users_error = || ServerError::NotOfUsers {
            name: self.name().to_owned(),
        };
        let (policy, address) = match self {
            Self::FromFile(section) => {
                let address = section.server.url().map(url_origin);
                (section.settings.credential, address)
            }
            Self::FromStore(catalog_server, _) => {
                let definition = catalog_server.definition.as_ref();
                let policy = definition.map(|definition| definition.settings.credential);
                let address = definition.map(|definition| definition.credential_destination());
                (policy.unwrap_or_default(), address)
            }
        };
        let user_address = address.filter(|_| policy.uses_user_credentials());
        user_address.ok_or_else(not_of_users_error)
    }
}

fn build_entry(user: String, credential: &UserCredential) -> UserCredentialEntry {
    UserCredentialEntry {
        user,
        authentication: credential.kind().to_owned(),
        set_at: format_timestamp(Timestamp::from_millis(credential.set_at)),
    }
}
