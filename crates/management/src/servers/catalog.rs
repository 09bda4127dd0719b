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

use super::definition::{
    Definition, StoredServer, has_program_members, merge, take_enabled, take_name,
};
use super::{Result, ServerError};
use pillion_config::{Config, McpServerSection, ServerSettings};
use pillion_gateway::credentials::{
    Account, CredentialError, CredentialMetadata, Credentials, UserCredentials, forget_server,
    server_id_from_label, take_secrets,
};

/// The author of a change to the stored servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeAuthor {
    /// A client of the REST API.
    Caller,
    /// An operator with direct access to the store.
    Operator,
}

/// The mode of an update, which replaces a server or patches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateMode {
    /// Missing members get the defaults of a new server.
    Replace,
    /// Missing members stay unchanged (RFC 7396).
    Patch,
}

/// The servers of a store.
#[derive(Clone)]
pub struct Catalog {
    /// The store that contains the stored servers.
    pub store: Arc<dyn Store>,
    /// The credentials of users for the servers.
    pub credentials: UserCredentials,
    /// The egress policy for the servers.
    pub egress: EgressPolicy,
    /// The author of the changes to the stored servers.
    pub author: ChangeAuthor,
    /// The programs that callers may start: `registry.allowed_commands` of the configuration.
    pub allowed_commands: Vec<String>,
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
    pub section: Result<McpServerSection>,
}

/// A checked change of a server, before it is stored.
struct PreparedChange {
    previous: StoredServer,
    name: String,
    enabled: bool,
    definition: Definition,
    /// The changed credentials; `None` if the change does not affect them.
    new_credentials: Option<Credentials>,
    /// Whether the server's address changes, to which credentials are bound.
    has_moved: bool,
}

impl CatalogServer {
    /// Returns the server as a disabled server, which cannot be used but keeps the names of its
    /// tools; `None` if the server's definition cannot be read.
    pub fn disabled_section(&self) -> Option<McpServerSection> {
        let definition = self.definition.as_ref()?;
        let name = &self.record.name;
        let config_result = definition.to_server_config(name, &Credentials::default());
        let server = config_result.ok()?;
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
    pub async fn servers(&self) -> Result<Vec<CatalogServer>> {
        let mut servers = Vec::new();
        for record in self.store.servers().await? {
            servers.push(self.load(record).await);
        }
        Ok(servers)
    }

    /// Reads a server from its record.
    pub async fn load(&self, record: ServerRecord) -> CatalogServer {
        let stored_server = StoredServer::parse(&record.configuration).ok();
        let section = self.parse_section(&record).await;
        let metadata = stored_server
            .as_ref()
            .and_then(|server| server.credentials.as_ref());
        CatalogServer {
            authentication: metadata
                .map_or("none", |metadata| &metadata.authentication)
                .to_owned(),
            headers: metadata.map_or_else(Vec::new, |metadata| metadata.headers.clone()),
            definition: stored_server.map(|stored_server| stored_server.definition),
            record,
            section,
        }
    }

    async fn parse_section(&self, record: &ServerRecord) -> Result<McpServerSection> {
        let stored_server = StoredServer::parse(&record.configuration)?;
        let credentials = self.read_credentials(&stored_server).await?;
        let server = self.build_config(&record.name, &stored_server.definition, &credentials)?;
        // The text, which identifies the settings, does not contain the credentials. It contains
        // their ID, which changes with the credentials.
        let text = format!(
            "{}\n{}\n{:?}\n{}",
            record.id, record.name, self.egress, record.configuration
        );
        let mut section = McpServerSection::new(stored_server.definition.settings, server, &text);
        section.id = Some(record.id.clone());
        Ok(section)
    }

    /// Parses a server from a request that tests it. The server is not stored.
    pub fn parse_unsaved(&self, mut keys: Map<String, Value>) -> Result<ServerConfig> {
        self.check_author(&keys)?;
        let name = take_name(&mut keys)?.unwrap_or_else(|| "test".to_owned());
        take_enabled(&mut keys)?;
        let credentials = Credentials(take_secrets(&mut keys)).simplify();
        let definition = Definition::try_from(keys)?;
        self.build_config(&name, &definition, &credentials)
    }

    /// Adds a server to the store.
    pub async fn add(&self, mut keys: Map<String, Value>) -> Result<ServerRecord> {
        self.check_author(&keys)?;
        let name = take_name(&mut keys)?.ok_or_else(missing_name_error)?;
        let enabled = take_enabled(&mut keys)?.unwrap_or(true);
        let credentials = Credentials(take_secrets(&mut keys)).simplify();
        let definition = Definition::try_from(keys)?;
        self.build_config(&name, &definition, &credentials)?;
        if self.store.find_server_by_name(&name).await?.is_some() {
            return Err(ServerError::NameTaken { name });
        }
        let credential_metadata = self.store_credentials(&credentials).await?;
        let now = Timestamp::now();
        let record = ServerRecord {
            id: Uuid::new_v4().to_string(),
            name,
            configuration: to_json(&StoredServer {
                definition,
                credentials: credential_metadata,
            })?,
            enabled,
            last_connected_at: None,
            created_at: now,
            updated_at: now,
        };
        let insert_outcome = self.store.insert_server(&record).await;
        if insert_outcome.is_err() {
            self.forget(&record).await;
        }
        insert_outcome.map_err(|error| name_error(error, &record.name))?;
        Ok(record)
    }

    /// Checks a change of a server of the store.
    async fn prepare_change(
        &self,
        record: &ServerRecord,
        mut keys: Map<String, Value>,
        mode: UpdateMode,
    ) -> Result<PreparedChange> {
        let previous = StoredServer::parse(&record.configuration)?;
        self.check_author(&keys)?;
        if self.author == ChangeAuthor::Caller && previous.definition.is_program() {
            let is_only_key = mode == UpdateMode::Patch && keys.len() == 1;
            let may_change = match keys.get("enabled") {
                Some(Value::Bool(true)) => is_only_key && self.may_start(&previous.definition),
                Some(Value::Bool(false)) => is_only_key,
                _ => false,
            };
            if !may_change {
                return Err(ServerError::Program);
            }
        }
        let new_name = take_name(&mut keys)?;
        let new_enabled = take_enabled(&mut keys)?;
        let secrets = take_secrets(&mut keys);
        let mut members = Map::new();
        let (name, enabled) = match mode {
            UpdateMode::Replace => (
                new_name.ok_or_else(missing_name_error)?,
                new_enabled.unwrap_or(true),
            ),
            UpdateMode::Patch => {
                members.clone_from(&previous.definition.members);
                let name = new_name.unwrap_or_else(|| record.name.clone());
                (name, new_enabled.unwrap_or(record.enabled))
            }
        };
        merge(&mut members, keys);
        let definition = Definition::try_from(members)?;
        let has_moved =
            previous.definition.credential_destination() != definition.credential_destination();
        let change = self.change_credentials(&previous, has_moved, secrets, mode);
        let new_credentials = change.await?;
        Ok(PreparedChange {
            previous,
            name,
            enabled,
            definition,
            new_credentials,
            has_moved,
        })
    }

    /// Returns the configuration that a server of the store would have after a change. Nothing is
    /// stored.
    pub async fn preview_change(
        &self,
        record: &ServerRecord,
        keys: Map<String, Value>,
        mode: UpdateMode,
    ) -> Result<ServerConfig> {
        let change = Box::pin(self.prepare_change(record, keys, mode)).await?;
        if change.definition.is_program() {
            return Err(ServerError::Program);
        }
        let credentials = match change.new_credentials {
            Some(new_credentials) => new_credentials,
            None => self.read_credentials(&change.previous).await?,
        };
        self.build_config(&change.name, &change.definition, &credentials)
    }

    /// Changes a server of the store.
    pub async fn change(
        &self,
        record: &ServerRecord,
        keys: Map<String, Value>,
        mode: UpdateMode,
    ) -> Result<ServerRecord> {
        let account = self.find_account(record).await;
        let PreparedChange {
            previous,
            name,
            enabled,
            definition,
            new_credentials,
            has_moved,
        } = Box::pin(self.prepare_change(record, keys, mode)).await?;
        let has_new_credentials = new_credentials.is_some();
        let no_credentials = Credentials::default();
        let checked_credentials = new_credentials.as_ref().unwrap_or(&no_credentials);
        self.build_config(&name, &definition, checked_credentials)?;
        let credentials = match &new_credentials {
            Some(new_credentials) => self.store_credentials(new_credentials).await?,
            None => previous.credentials,
        };
        let changed_record = ServerRecord {
            name,
            enabled,
            configuration: to_json(&StoredServer {
                definition,
                credentials,
            })?,
            updated_at: Timestamp::now(),
            ..record.clone()
        };
        let record_owner = self.find_record_owner(&record.name);
        let update = self.store.update_server(&changed_record, record_owner);
        let update_outcome = update.await;
        if has_new_credentials {
            // Removes the credentials that an update leaves unused: the old ones if the update
            // succeeded, otherwise the new ones.
            let unused = if update_outcome.is_ok() {
                record
            } else {
                &changed_record
            };
            self.forget(unused).await;
        }
        update_outcome.map_err(|error| name_error(error, &changed_record.name))?;
        if let Some(account) = account {
            let must_replace = has_new_credentials && !account.needs_consent();
            let found_account = self.find_account(&changed_record).await;
            let retained_account = found_account.filter(|_| !must_replace);
            self.replace_account(&changed_record.id, &account, retained_account)
                .await;
        }
        if has_moved {
            self.forget_users(record).await;
        }
        Ok(changed_record)
    }

    /// Returns whether callers may make the sidecar start the program of a server.
    pub(super) fn may_start(&self, definition: &Definition) -> bool {
        let program = definition.program();
        program.is_some_and(|program| self.allowed_commands.iter().any(|name| name == program))
    }

    /// Returns the owner of the calls and pins recorded under this server name: a server of the
    /// configuration file that has this name, or else the server of the store.
    fn find_record_owner(&self, name: &str) -> RecordOwner {
        let mut file_accounts = self.file_accounts.iter();
        if file_accounts.any(|(file_name, _)| file_name == name) {
            RecordOwner::UnstoredServer
        } else {
            RecordOwner::StoredServer
        }
    }

    /// Removes a server with its credentials, recorded calls and pins.
    pub async fn remove(&self, record: &ServerRecord) -> Result<()> {
        let record_owner = self.find_record_owner(&record.name);
        let account = self.find_account(record).await;
        self.store.remove_server(&record.id, record_owner).await?;
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
        previous: &StoredServer,
        has_moved: bool,
        secrets: Map<String, Value>,
        mode: UpdateMode,
    ) -> Result<Option<Credentials>> {
        if mode == UpdateMode::Replace {
            return Ok(Some(Credentials(secrets).simplify()));
        }
        if let (true, Some(metadata)) = (has_moved, &previous.credentials) {
            // A new address requires new credentials, because sending the stored credentials to it
            // could disclose them to the client that changes the address.
            for (key, is_stored) in [
                ("authentication", metadata.authentication != "none"),
                ("headers", !metadata.headers.is_empty()),
            ] {
                if is_stored && !secrets.contains_key(key) {
                    return Err(ServerError::MovedAway { key });
                }
            }
            return Ok(Some(Credentials(secrets).simplify()));
        }
        if secrets.is_empty() {
            return Ok(None);
        }
        let mut credentials = self.read_credentials(previous).await?;
        merge(&mut credentials.0, secrets);
        Ok(Some(credentials.simplify()))
    }

    async fn read_credentials(&self, stored_server: &StoredServer) -> Result<Credentials> {
        let Some(metadata) = &stored_server.credentials else {
            return Ok(Credentials::default());
        };
        let vault = self.credentials.vault().ok_or(CredentialError::NoKey)?;
        let stored_secret = vault.get(SecretKind::Credential, &metadata.id).await?;
        let secret = stored_secret.ok_or(ServerError::Unreadable)?;
        Ok(Credentials::parse(secret.expose_secret())?)
    }

    /// Stores credentials in the vault, and returns their public information.
    async fn store_credentials(
        &self,
        credentials: &Credentials,
    ) -> Result<Option<CredentialMetadata>> {
        if credentials.is_empty() {
            return Ok(None);
        }
        let vault = self.credentials.vault().ok_or(CredentialError::NoKey)?;
        let metadata = credentials.to_metadata(Uuid::new_v4().to_string());
        let secret = credentials.to_secret();
        vault
            .put(SecretKind::Credential, &metadata.id, &secret)
            .await?;
        Ok(Some(metadata))
    }

    /// Removes the credentials of a record. If the removal fails, the credentials remain encrypted
    /// and unused.
    async fn forget(&self, record: &ServerRecord) {
        let stored_server = StoredServer::parse(&record.configuration).ok();
        let Some(metadata) = stored_server.and_then(|stored_server| stored_server.credentials)
        else {
            return;
        };
        let secret_id = SecretId {
            kind: SecretKind::Credential,
            id: metadata.id,
        };
        if let Err(error) = self.store.remove_secret(&secret_id).await {
            tracing::warn!(%error, "Cannot remove unused credentials from the vault");
        }
    }

    /// Removes the credentials of all users for a server. If the removal fails, the credentials are
    /// still never sent to another address.
    async fn forget_users(&self, record: &ServerRecord) {
        let is_server = |server: &str| server == record.id;
        self.credentials.close_tokens_of_users(is_server).await;
        if let Err(error) = forget_server(&*self.store, &record.id).await {
            tracing::warn!(
                %error,
                "Cannot remove the credentials of users for an MCP server from the vault"
            );
        }
    }

    /// Removes the OAuth tokens of a server whose account has changed: the authorizations of users,
    /// and the shared tokens unless another server has the same account. If the removal fails, the
    /// tokens remain encrypted.
    pub(super) async fn replace_account(
        &self,
        id: &str,
        previous: &Account,
        new_account: Option<Account>,
    ) {
        if new_account.as_ref() == Some(previous) {
            return;
        }
        let forget_future = async {
            let credentials = &self.credentials;
            if !self.is_shared_account(id, previous).await? {
                credentials.forget_tokens_of_server(&previous.key).await?;
            }
            Ok::<_, ServerError>(credentials.remove_authorizations(id).await?)
        };
        if let Err(error) = forget_future.await {
            tracing::warn!(%error, "Cannot remove unused OAuth tokens from the vault");
        }
    }

    /// Returns whether another server uses the tokens of this account. Servers with the same
    /// address and OAuth client share tokens.
    async fn is_shared_account(&self, id: &str, account: &Account) -> Result<bool> {
        let has_same_key = |other: &Account| other.key == account.key;
        let file_accounts = self.file_accounts.iter();
        let mut other_accounts = file_accounts.filter(|(name, _)| server_id_from_label(name) != id);
        if other_accounts.any(|(_, other)| other.as_ref().is_some_and(has_same_key)) {
            return Ok(true);
        }
        for record in self.store.servers().await? {
            let other = self.find_account(&record).await;
            if record.id != id && other.as_ref().is_some_and(has_same_key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the OAuth account of a server, if any.
    async fn find_account(&self, record: &ServerRecord) -> Option<Account> {
        Account::from_server(&self.parse_section(record).await.ok()?.server)
    }

    /// Gives the server a store for its OAuth tokens in the vault, if there is a vault.
    pub(super) fn attach_token_store(&self, server: &mut ServerConfig) {
        if let Some(tokens) = self.credentials.tokens_of_server(server) {
            server.authorization.token_store = Some(tokens);
        }
    }

    /// Returns the server's configuration for the MCP client, after validation.
    fn build_config(
        &self,
        name: &str,
        definition: &Definition,
        credentials: &Credentials,
    ) -> Result<ServerConfig> {
        let mut server = definition.to_server_config(name, credentials)?;
        server.egress = self.egress.clone();
        server.validate()?;
        self.attach_token_store(&mut server);
        Ok(server)
    }

    fn check_author(&self, keys: &Map<String, Value>) -> Result<()> {
        if self.author == ChangeAuthor::Operator {
            return Ok(());
        }
        if has_program_members(keys) {
            return Err(ServerError::Program);
        }
        let key = "assertion_file";
        let authentication = keys.get("authentication");
        match authentication.and_then(|authentication| authentication.get(key)) {
            Some(_) => Err(ServerError::LocalFile { key }),
            None => Ok(()),
        }
    }
}

/// Returns the names of the servers in the configuration file, with their OAuth accounts.
pub fn file_accounts(config: &Config) -> Vec<(String, Option<Account>)> {
    let name_and_account = |section: &McpServerSection| {
        let account = Account::from_server(&section.server);
        (section.label().to_owned(), account)
    };
    config.mcp_servers.iter().map(name_and_account).collect()
}

fn missing_name_error() -> ServerError {
    ServerError::invalid("name", "is required")
}

fn to_json(stored_server: &StoredServer) -> Result<String> {
    serde_json::to_string(stored_server).map_err(|_| ServerError::Unreadable)
}

fn name_error(error: StoreError, name: &str) -> ServerError {
    if error.is_conflict() {
        let name = name.to_owned();
        ServerError::NameTaken { name }
    } else {
        error.into()
    }
}
