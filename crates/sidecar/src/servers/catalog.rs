//! Adds, changes and removes the servers of the store, with their credentials.

use std::sync::Arc;

use pillion_core::store::{
    RecordOwner, SecretId, SecretKind, ServerRecord, Store, StoreError, Timestamp,
};
use pillion_egress::EgressPolicy;
use pillion_mcp_client::ServerConfig;
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::ServerError;
use super::definition::{Definition, Stored, merge, names_program, take_enabled, take_name};
use pillion_config::{Config, McpServerSection, ServerSettings};
use pillion_gateway::credentials::{
    Account, CredentialError, CredentialNote, Credentials, UserCredentials, file_id, forget_server,
    take_secrets,
};

/// Who requests a change of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A client of the REST API.
    Caller,
    /// An operator with direct access to the store.
    Operator,
}

/// How a server is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Missing members get the defaults of a new server.
    Replace,
    /// Missing members stay unchanged (RFC 7396).
    Patch,
}

/// The servers of a store.
#[derive(Clone)]
pub struct Catalog {
    /// The store of the servers.
    pub store: Arc<dyn Store>,
    /// The credentials of users for the servers.
    pub credentials: UserCredentials,
    /// The egress policy for the servers.
    pub egress: EgressPolicy,
    /// Who requests the changes of the servers.
    pub who: Who,
    /// The names of the servers in the configuration file, with their OAuth accounts.
    pub file_accounts: Vec<(String, Option<Account>)>,
}

/// A server of the store. Some parts may be unreadable.
pub struct CatalogServer {
    pub(crate) record: ServerRecord,
    pub(crate) definition: Option<Definition>,
    pub(crate) authentication: String,
    pub(crate) headers: Vec<String>,
    /// The server's configuration, or why it cannot be used.
    pub section: Result<McpServerSection, ServerError>,
}

impl CatalogServer {
    /// Returns the server as a disabled server, which cannot be used but keeps the names of its
    /// tools; `None` if the server's definition cannot be read.
    pub(crate) fn disabled_section(&self) -> Option<McpServerSection> {
        let definition = self.definition.as_ref()?;
        let name = &self.record.name;
        let server = definition.server(name, &Credentials::default()).ok()?;
        let settings = ServerSettings {
            enabled: false,
            ..definition.settings.clone()
        };
        let text = &self.record.configuration;
        Some(McpServerSection::new(settings, server, text))
    }
}

impl Catalog {
    /// Returns all servers, sorted by name.
    pub(crate) async fn all(&self) -> Result<Vec<CatalogServer>, ServerError> {
        let mut all = Vec::new();
        for record in self.store.servers().await? {
            all.push(self.load(record).await);
        }
        Ok(all)
    }

    /// Reads a server from its record.
    pub async fn load(&self, record: ServerRecord) -> CatalogServer {
        let stored = Stored::parse(&record.configuration).ok();
        let section = self.section(&record).await;
        let note = stored.as_ref().and_then(|it| it.credentials.as_ref());
        CatalogServer {
            authentication: note.map_or("none", |note| &note.authentication).to_owned(),
            headers: note.map_or_else(Vec::new, |note| note.headers.clone()),
            definition: stored.map(|stored| stored.definition),
            record,
            section,
        }
    }

    async fn section(&self, record: &ServerRecord) -> Result<McpServerSection, ServerError> {
        let stored = Stored::parse(&record.configuration)?;
        let credentials = self.credentials_of(&stored).await?;
        let server = self.checked(&record.name, &stored.definition, &credentials)?;
        // A change of the credentials changes their id, so the credentials themselves are not
        // compared.
        let text = format!(
            "{}\n{}\n{:?}\n{}",
            record.id, record.name, self.egress, record.configuration
        );
        let mut section = McpServerSection::new(stored.definition.settings, server, &text);
        section.id = Some(record.id.clone());
        Ok(section)
    }

    /// Parses a server from a request that tests it. The server is not stored.
    pub(crate) fn unsaved(
        &self,
        mut keys: Map<String, Value>,
    ) -> Result<ServerConfig, ServerError> {
        self.check_who(&keys)?;
        let name = take_name(&mut keys)?.unwrap_or_else(|| "test".to_owned());
        take_enabled(&mut keys)?;
        let credentials = Credentials(take_secrets(&mut keys)).simplified();
        let definition = Definition::try_from(keys)?;
        self.checked(&name, &definition, &credentials)
    }

    /// Adds a server to the store.
    pub async fn add(&self, mut keys: Map<String, Value>) -> Result<ServerRecord, ServerError> {
        self.check_who(&keys)?;
        let name = take_name(&mut keys)?.ok_or_else(missing_name)?;
        let enabled = take_enabled(&mut keys)?.unwrap_or(true);
        let credentials = Credentials(take_secrets(&mut keys)).simplified();
        let definition = Definition::try_from(keys)?;
        self.checked(&name, &definition, &credentials)?;
        if self.store.server_named(&name).await?.is_some() {
            return Err(ServerError::NameTaken { name });
        }
        let credentials = self.store_credentials(&credentials).await?;
        let now = Timestamp::now();
        let record = ServerRecord {
            id: Uuid::new_v4().to_string(),
            name,
            configuration: json(&Stored {
                definition,
                credentials,
            })?,
            enabled,
            last_connected_at: None,
            created_at: now,
            updated_at: now,
        };
        let inserted = self.store.insert_server(&record).await;
        if inserted.is_err() {
            self.forget(&record).await;
        }
        inserted.map_err(|error| taken(error, &record.name))?;
        Ok(record)
    }

    /// Changes a server of the store.
    pub async fn change(
        &self,
        record: &ServerRecord,
        mut keys: Map<String, Value>,
        how: How,
    ) -> Result<ServerRecord, ServerError> {
        let before = Stored::parse(&record.configuration)?;
        let account = self.account_of(record).await;
        self.check_who(&keys)?;
        let disables = how == How::Patch
            && keys.len() == 1
            && keys.get("enabled") == Some(&Value::Bool(false));
        if self.who == Who::Caller && before.definition.is_program() && !disables {
            return Err(ServerError::Program);
        }
        let new_name = take_name(&mut keys)?;
        let new_enabled = take_enabled(&mut keys)?;
        let secrets = take_secrets(&mut keys);
        let mut members = Map::new();
        let (name, enabled) = match how {
            How::Replace => (
                new_name.ok_or_else(missing_name)?,
                new_enabled.unwrap_or(true),
            ),
            How::Patch => {
                members.clone_from(&before.definition.members);
                let name = new_name.unwrap_or_else(|| record.name.clone());
                (name, new_enabled.unwrap_or(record.enabled))
            }
        };
        merge(&mut members, keys);
        let definition = Definition::try_from(members)?;
        let has_moved =
            before.definition.credential_destination() != definition.credential_destination();
        let new_credentials = self
            .change_credentials(&before, has_moved, secrets, how)
            .await?;
        let is_changed = new_credentials.is_some();
        let unchanged = Credentials::default();
        let checked = new_credentials.as_ref().unwrap_or(&unchanged);
        self.checked(&name, &definition, checked)?;
        let credentials = match &new_credentials {
            Some(new_credentials) => self.store_credentials(new_credentials).await?,
            None => before.credentials,
        };
        let changed = ServerRecord {
            name,
            enabled,
            configuration: json(&Stored {
                definition,
                credentials,
            })?,
            updated_at: Timestamp::now(),
            ..record.clone()
        };
        let records = self.records_of(&record.name);
        let updated = self.store.update_server(&changed, records).await;
        if is_changed {
            // Removes the unused credentials: the old ones after a successful update, or else the
            // new ones.
            self.forget(if updated.is_ok() { record } else { &changed })
                .await;
        }
        updated.map_err(|error| taken(error, &changed.name))?;
        if let Some(account) = account {
            let must_replace = is_changed && !account.is_consented();
            let new_account = self.account_of(&changed).await;
            self.replace_account(&changed.id, &account, new_account.filter(|_| !must_replace))
                .await;
        }
        if has_moved {
            self.forget_users(record).await;
        }
        Ok(changed)
    }

    /// Returns the owner of the records under this name: the server of the store, or a server of
    /// the configuration file with the same name.
    fn records_of(&self, name: &str) -> RecordOwner {
        if self.file_accounts.iter().any(|(taken, _)| taken == name) {
            RecordOwner::Anothers
        } else {
            RecordOwner::Own
        }
    }

    /// Removes a server with its credentials, recorded calls and pins.
    pub(crate) async fn remove(&self, record: &ServerRecord) -> Result<(), ServerError> {
        let records = self.records_of(&record.name);
        let account = self.account_of(record).await;
        self.store.remove_server(&record.id, records).await?;
        self.forget(record).await;
        if let Some(account) = account {
            self.replace_account(&record.id, &account, None).await;
        }
        self.forget_users(record).await;
        Ok(())
    }

    /// Returns the changed credentials, or `None` if the change does not affect them.
    async fn change_credentials(
        &self,
        before: &Stored,
        has_moved: bool,
        secrets: Map<String, Value>,
        how: How,
    ) -> Result<Option<Credentials>, ServerError> {
        if how == How::Replace {
            return Ok(Some(Credentials(secrets).simplified()));
        }
        if let (true, Some(note)) = (has_moved, &before.credentials) {
            // Sending stored credentials to a new address could disclose them to the client that
            // changes the address.
            for (key, is_there) in [
                ("authentication", note.authentication != "none"),
                ("headers", !note.headers.is_empty()),
            ] {
                if is_there && !secrets.contains_key(key) {
                    return Err(ServerError::MovedAway { key });
                }
            }
            return Ok(Some(Credentials(secrets).simplified()));
        }
        if secrets.is_empty() {
            return Ok(None);
        }
        let mut credentials = self.credentials_of(before).await?;
        merge(&mut credentials.0, secrets);
        Ok(Some(credentials.simplified()))
    }

    async fn credentials_of(&self, stored: &Stored) -> Result<Credentials, ServerError> {
        let Some(note) = &stored.credentials else {
            return Ok(Credentials::default());
        };
        let vault = self.credentials.vault().ok_or(CredentialError::NoKey)?;
        let stored_secret = vault.get(SecretKind::Credential, &note.id).await?;
        let secret = stored_secret.ok_or(ServerError::Unreadable)?;
        Ok(Credentials::parse(secret.expose_secret())?)
    }

    /// Stores credentials in the vault, and returns their public information.
    async fn store_credentials(
        &self,
        credentials: &Credentials,
    ) -> Result<Option<CredentialNote>, ServerError> {
        if credentials.is_empty() {
            return Ok(None);
        }
        let vault = self.credentials.vault().ok_or(CredentialError::NoKey)?;
        let note = credentials.note(Uuid::new_v4().to_string());
        let secret = credentials.to_secret();
        vault.put(SecretKind::Credential, &note.id, &secret).await?;
        Ok(Some(note))
    }

    /// Removes the credentials of a record. If the removal fails, the credentials remain encrypted
    /// and unused.
    async fn forget(&self, record: &ServerRecord) {
        let stored = Stored::parse(&record.configuration).ok();
        let Some(note) = stored.and_then(|stored| stored.credentials) else {
            return;
        };
        let secret_id = SecretId {
            kind: SecretKind::Credential,
            id: note.id,
        };
        if let Err(error) = self.store.remove_secret(&secret_id).await {
            tracing::warn!(%error, "Cannot remove unused credentials from the vault");
        }
    }

    /// Removes the credentials of all users for a server. If the removal fails, the credentials are
    /// still never sent to another address.
    async fn forget_users(&self, record: &ServerRecord) {
        let of_it = |server: &str| server == record.id;
        self.credentials.close_tokens_of_users(of_it).await;
        if let Err(error) = forget_server(&*self.store, &record.id).await {
            tracing::warn!(
                %error,
                "Cannot remove the credentials of users for an MCP server from the vault"
            );
        }
    }

    /// Removes the OAuth tokens of a server whose account has changed: the server's own tokens,
    /// unless another server has the same account, and the authorizations of users. If the removal
    /// fails, the tokens remain encrypted.
    pub(super) async fn replace_account(&self, id: &str, before: &Account, new: Option<Account>) {
        if new.as_ref() == Some(before) {
            return;
        }
        let forgotten = async {
            if !self.is_shared_account(id, before).await? {
                self.credentials
                    .forget_tokens_of_server(&before.key)
                    .await?;
            }
            Ok::<_, ServerError>(self.credentials.remove_authorizations(id).await?)
        };
        if let Err(error) = forgotten.await {
            tracing::warn!(%error, "Cannot remove unused OAuth tokens from the vault");
        }
    }

    /// Returns whether another server uses the tokens of this account: servers with the same
    /// address and OAuth client share tokens.
    async fn is_shared_account(&self, id: &str, account: &Account) -> Result<bool, ServerError> {
        let file_accounts = self.file_accounts.iter();
        let mut others = file_accounts.filter(|(name, _)| file_id(name) != id);
        if others.any(|(_, other)| other.as_ref().is_some_and(|it| it.key == account.key)) {
            return Ok(true);
        }
        for record in self.store.servers().await? {
            let other = self.account_of(&record).await;
            if record.id != id && other.is_some_and(|it| it.key == account.key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the OAuth account of a server, if any.
    async fn account_of(&self, record: &ServerRecord) -> Option<Account> {
        Account::from_server(&self.section(record).await.ok()?.server)
    }

    /// Gives the server a store for its OAuth tokens in the vault, if there is a vault.
    pub(super) fn attach_token_store(&self, server: &mut ServerConfig) {
        if let Some(tokens) = self.credentials.tokens_of_server(server) {
            server.authorization.token_store = Some(tokens);
        }
    }

    /// Returns the server's configuration for the MCP client, after validation.
    fn checked(
        &self,
        name: &str,
        definition: &Definition,
        credentials: &Credentials,
    ) -> Result<ServerConfig, ServerError> {
        let mut server = definition.server(name, credentials)?;
        server.egress = self.egress.clone();
        server.validate()?;
        self.attach_token_store(&mut server);
        Ok(server)
    }

    fn check_who(&self, keys: &Map<String, Value>) -> Result<(), ServerError> {
        if self.who == Who::Operator {
            return Ok(());
        }
        if names_program(keys) {
            return Err(ServerError::Program);
        }
        let key = "assertion_file";
        match keys.get("authentication").and_then(|it| it.get(key)) {
            Some(_) => Err(ServerError::LocalFile { key }),
            None => Ok(()),
        }
    }
}

/// Returns the names of the servers in the configuration file, with their OAuth accounts.
pub fn file_accounts(config: &Config) -> Vec<(String, Option<Account>)> {
    let account = |section: &McpServerSection| {
        let account = Account::from_server(&section.server);
        (section.label().to_owned(), account)
    };
    config.mcp_servers.iter().map(account).collect()
}

fn missing_name() -> ServerError {
    ServerError::invalid("name", "is required")
}

fn json(stored: &Stored) -> Result<String, ServerError> {
    serde_json::to_string(stored).map_err(|_| ServerError::Unreadable)
}

fn taken(error: StoreError, name: &str) -> ServerError {
    if error.is_conflict() {
        let name = name.to_owned();
        ServerError::NameTaken { name }
    } else {
        error.into()
    }
}
