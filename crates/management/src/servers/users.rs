//! Sets and removes the credentials of individual users.

use pillion_core::store::{PinOwner, Timestamp};
use pillion_wire::UserCredentialEntry;
use serde_json::{Map, Value};

use super::{Result, Server, ServerError, Servers};
use pillion_gateway::access::MAX_USER_BYTES;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::credentials::{UserCredential, url_origin};
use pillion_gateway::timestamp::format_timestamp;

impl Servers {
    /// Sets a user's credential for the server with this ID or name, and replaces the previous one.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::NotOfUsers`] if the
    /// server does not use credentials of users; [`ServerError::Invalid`] if the user or the
    /// credential is invalid; [`ServerError::Credential`] if the credential cannot be stored.
    pub async fn set_credential(
        &self,
        key: &str,
        user: &str,
        mut keys: Map<String, Value>,
    ) -> Result<UserCredentialEntry> {
        // The lock prevents the server from being removed while the credential is set.
        let _file_config = self.file_config.lock().await;
        let server = self.find(key)?;
        // The names `.` and `..` are rejected, because a URL path would resolve them as relative
        // segments.
        let is_path_segment = user == "." || user == "..";
        if user.is_empty() || user.len() > MAX_USER_BYTES || is_path_segment {
            let message = "must have between 1 and 256 bytes, and must not be '.' or '..'";
            return Err(ServerError::invalid("user", message));
        }
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

    /// Returns the users with a credential for the server with this ID or name.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::Credential`] if the
    /// credentials cannot be read.
    pub async fn credentials(&self, key: &str) -> Result<Vec<UserCredentialEntry>> {
        let server = self.find(key)?;
        let credentials = self.user_credentials.list(&server.id()).await?;
        let to_entry = |(user, credential)| build_entry(user, &credential);
        Ok(credentials.into_iter().map(to_entry).collect())
    }

    /// Removes a user's credential for the server with this ID or name.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::Credential`] if the
    /// credential cannot be removed.
    pub async fn remove_credential(&self, key: &str, user: &str) -> Result<()> {
        let _file_config = self.file_config.lock().await;
        let server = self.find(key)?;
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
    fn forget_user(&self, server: &Server, user: &str) {
        if let Some(gateway) = self.gateway() {
            gateway.upstreams().forget_user(server.name(), user);
        }
    }
}

impl Server {
    /// Returns the address of the server, to which the credentials of its users are bound.
    fn credential_address(&self) -> Result<String> {
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
