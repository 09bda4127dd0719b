//! The upstream MCP servers of the configuration file, and the upstream MCP servers of the store,
//! which clients can add, change and remove at run time.
//!
//! `Servers` combines the servers of the file and of the store. Every change takes effect at once,
//! as after a reload of the configuration file, without interrupting calls.

mod background_tasks;
mod catalog;
mod definition;
mod doctor;
mod error;
mod input;
mod logins;
mod server;
mod trial;
mod users;
mod view;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use parking_lot::RwLock;
use pillion_core::store::{ServerRecord, Store};
use pillion_mcp_client::TokenKey;
use pillion_store::MasterKey;
use pillion_wire::{ServerEntry, ServerTrial};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, Semaphore};

use crate::registry::{InstallError, InstallMethod, Registry, RegistryEntry};
use background_tasks::{record_connections, sweep_users};
pub use catalog::{Catalog, CatalogServer, ChangeAuthor, UpdateMode, file_accounts};
pub use doctor::{Diagnosis, DiagnosisStep, StepKind, StepOutcome};
use error::Result;
pub use error::ServerError;
pub use input::ServerInput;
pub use logins::{AuthorizationState, FinishedLogin, LOGIN_TTL, NewLogin, StartedLogin};
use pillion_config::{Config, McpServerSection};
use pillion_gateway::access::Access;
use pillion_gateway::credentials::{
    Account, CredentialError, UserCredentials, next_key_file, open_vault, server_id_from_label,
};
use pillion_gateway::{Gateway, upstream};
pub use server::Server;
pub use users::{UserCredentialPage, UserCredentialState};
pub use view::EditableServer;

/// The holder of the running configuration, which applies changes of the servers.
#[async_trait]
pub trait RunningApp: Send + Sync {
    /// Returns the gateway with the current servers.
    fn gateway(&self) -> Gateway;

    /// Replaces the servers with the servers in `config`. If `access` is given, also applies these
    /// access rules and all other settings of `config`.
    async fn apply(&self, config: &Config, access: Option<Access>);
}

/// The request that installs a server of the registry.
#[derive(Clone)]
pub struct InstallRequest {
    /// The server, as the registry describes it.
    pub entry: RegistryEntry,
    /// The remote or the package.
    pub method: InstallMethod,
    /// The digest of the plan that the user has seen.
    pub digest: String,
    /// The name of the new server.
    pub name: String,
    /// The values of the plan's fields, in order.
    pub values: Vec<String>,
}

/// All servers, and the operations that change them.
pub struct Servers {
    store: Arc<dyn Store>,
    application: OnceLock<Weak<dyn RunningApp>>,
    /// The current configuration file, without the servers of the store. Locked during a change.
    file_config: Mutex<Config>,
    /// The users' credentials and the vault. The vault is replaced when the vault's key changes.
    user_credentials: UserCredentials,
    servers: RwLock<Arc<Vec<Server>>>,
    /// The registry from which servers are installed. Replaced when the configuration changes.
    registry: RwLock<Arc<Registry>>,
    /// Number of requested reconnects by server name. A new number makes a reload treat the server
    /// as changed, so that the server gets a new connection.
    reconnects: parking_lot::Mutex<HashMap<String, u64>>,
    /// The logins at authorization servers that browsers have not completed.
    logins: logins::PendingLogins,
    /// The permits of running diagnoses.
    diagnosis_permits: Semaphore,
}

impl Servers {
    /// Reads the servers of the store, and checks the vault's key.
    ///
    /// # Errors
    /// [`ServerError::Credential`] if the key cannot be read or is not the store's key;
    /// [`ServerError::Store`] if the store cannot be read.
    pub async fn open(store: Arc<dyn Store>, config: &Config) -> Result<Arc<Self>> {
        let vault = open_vault(&store, config).await?;
        if vault.is_none() && !store.secrets().await?.is_empty() {
            tracing::warn!(
                "The store has encrypted credentials, but no key is configured: set vault.key_file \
                 or vault.key_env"
            );
        }
        let registry = Arc::new(Registry::new(config, Arc::clone(&store)));
        let servers = Self {
            store,
            registry: RwLock::new(registry),
            application: OnceLock::new(),
            file_config: Mutex::new(config.clone()),
            user_credentials: UserCredentials::default(),
            servers: RwLock::default(),
            reconnects: parking_lot::Mutex::default(),
            logins: logins::PendingLogins::default(),
            diagnosis_permits: Semaphore::new(doctor::MAX_DIAGNOSES),
        };
        servers.user_credentials.set_vault(vault);
        servers.store.servers().await?;
        Ok(Arc::new(servers))
    }

    /// Returns the store.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Returns the registry from which servers are installed.
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read())
    }

    /// Applies later changes of the servers to `application`. Also starts the background tasks that
    /// record connections and close outdated user connections.
    pub fn attach(self: &Arc<Self>, application: Weak<dyn RunningApp>) {
        let Some(running_application) = application.upgrade() else {
            return;
        };
        if self.application.set(Weak::clone(&application)).is_ok() {
            let connections = running_application.gateway().process().connections.clone();
            tokio::spawn(record_connections(Arc::downgrade(self), connections));
            tokio::spawn(sweep_users(application));
        }
    }

    /// Returns the credentials of individual users.
    pub fn user_credentials(&self) -> &UserCredentials {
        &self.user_credentials
    }

    /// Returns the gateway with the current servers; `None` before [`attach`](Self::attach), or if
    /// the sidecar is stopping.
    pub fn gateway(&self) -> Option<Gateway> {
        Some(self.application()?.gateway())
    }

    fn application(&self) -> Option<Arc<dyn RunningApp>> {
        self.application.get()?.upgrade()
    }

    /// Reads the servers of the store, and makes them and the servers of `config` the current
    /// servers. Returns `config` with the servers of the store added.
    pub async fn merge_stored_servers(&self, config: &Config) -> Config {
        let mut config = config.clone();
        let catalog = self.catalog(&config, ChangeAuthor::Caller);
        for section in &mut config.mcp_servers {
            catalog.attach_token_store(&mut section.server);
        }
        let stored_servers = match catalog.servers().await {
            Ok(servers) => servers.into_iter().map(Arc::new).collect(),
            Err(error) => {
                tracing::error!(
                    %error,
                    "Cannot read the MCP servers of the store; keeping those already loaded"
                );
                self.stored_servers()
            }
        };
        let sections = config.mcp_servers.iter().cloned().map(Box::new);
        let mut servers: Vec<_> = sections.map(Server::FromFile).collect();
        for server in stored_servers {
            let name = &server.record.name;
            let mut sections = config.mcp_servers.iter();
            let is_taken = sections.any(|section| section.label() == name);
            let problem = if is_taken {
                Some("the configuration file has a server with this name".to_owned())
            } else {
                server.section.as_ref().err().map(ToString::to_string)
            };
            config.mcp_servers.extend(match &server.section {
                _ if is_taken => None,
                Ok(section) if server.record.enabled => Some(section.clone()),
                // A server that cannot be used stays in the configuration as a disabled server, so
                // that it keeps the names of its tools.
                _ => server.disabled_section(),
            });
            if let Some(problem) = &problem {
                tracing::warn!(
                    server.label = name,
                    problem,
                    "Skipped an MCP server of the store"
                );
            }
            servers.push(Server::FromStore(server, problem));
        }
        self.close_unused_token_stores(&servers).await;
        *self.servers.write() = Arc::new(servers);
        let reconnects = self.reconnects.lock();
        for section in &mut config.mcp_servers {
            if let Some(count) = reconnects.get(section.label()) {
                section.mix_into_digest(*count);
            }
        }
        config
    }

    /// Closes the token stores of servers that were removed or whose OAuth account has changed.
    async fn close_unused_token_stores(&self, servers: &[Server]) {
        let accounts = servers.iter().filter_map(Server::account);
        let keys: Vec<_> = accounts.map(|account| account.key).collect();
        let ids: Vec<_> = servers.iter().map(Server::id).collect();
        let credentials = &self.user_credentials;
        let is_unused = |_: &str, key: &TokenKey| !keys.contains(key);
        credentials.close_tokens_of_servers(is_unused).await;
        let is_gone = |id: &str| !ids.iter().any(|existing_id| existing_id == id);
        credentials.close_tokens_of_users(is_gone).await;
    }

    /// Returns the servers of the store.
    fn stored_servers(&self) -> Vec<Arc<CatalogServer>> {
        let stored_server = |server: &Server| match server {
            Server::FromStore(server, _) => Some(Arc::clone(server)),
            Server::FromFile(_) => None,
        };
        self.servers
            .read()
            .iter()
            .filter_map(stored_server)
            .collect()
    }

    /// Applies a new configuration file.
    ///
    /// # Errors
    /// The same errors as [`open`](Self::open); after an error, nothing has changed.
    pub async fn reconfigure(&self, config: &Config, access: Access) -> Result<()> {
        let mut file_config = self.file_config.lock().await;
        let vault = open_vault(&self.store, config).await?;
        self.user_credentials.set_vault(vault);
        let previous_config = std::mem::replace(&mut *file_config, config.clone());
        *self.registry.write() = Arc::new(Registry::new(config, self.store()));
        let catalog = self.catalog(&file_config, ChangeAuthor::Operator);
        for section in &previous_config.mcp_servers {
            let mut new_sections = file_config.mcp_servers.iter();
            let matching_section = new_sections.find(|other| other.label() == section.label());
            let current_account = Account::from_server(&section.server);
            if let (Some(new_section), Some(account)) = (matching_section, current_account) {
                let must_replace =
                    !account.needs_consent() && !new_section.has_same_content(section);
                let new_account =
                    Account::from_server(&new_section.server).filter(|_| !must_replace);
                let id = server_id_from_label(section.label());
                catalog.replace_account(&id, &account, new_account).await;
            }
        }
        self.apply_config(&file_config, Some(access)).await;
        Ok(())
    }

    /// Reads the store, the users' credentials and the vault's key again.
    ///
    /// # Errors
    /// The same errors as [`open`](Self::open).
    pub async fn refresh(&self) -> Result<()> {
        let file_config = self.file_config.lock().await;
        let vault = open_vault(&self.store, &file_config).await?;
        self.user_credentials.set_vault(vault);
        self.apply_config(&file_config, None).await;
        if let Some(gateway) = self.gateway() {
            gateway.upstreams().close_unneeded_connections().await;
        }
        Ok(())
    }

    /// Reconnects to the server with this ID or name. The current session ends when its running
    /// calls have finished; the state of its MCP client, such as an authorization, is then dropped.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server.
    pub async fn reconnect(&self, key: &str) -> Result<()> {
        let file_config = self.file_config.lock().await;
        let name = self.find(key)?.name().to_owned();
        // The token stores are closed, because the server's OAuth tokens may have been replaced or
        // removed.
        let belongs_to_server = |server: &str, _: &TokenKey| server == name;
        let credentials = &self.user_credentials;
        credentials.close_tokens_of_servers(belongs_to_server).await;
        *self.reconnects.lock().entry(name).or_default() += 1;
        self.apply_config(&file_config, None).await;
        Ok(())
    }

    /// Returns the server of `gateway` with this ID or name.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::NotInUse`] if the server
    /// is disabled or cannot be used.
    pub fn find_in_use(&self, key: &str, gateway: &Gateway) -> Result<Arc<upstream::Server>> {
        let entry = self.entry(key, gateway)?;
        let server = gateway.upstreams().server(&entry.name);
        server.ok_or_else(|| ServerError::NotInUse {
            name: entry.name,
            reason: entry
                .error
                .filter(|_| entry.enabled)
                .unwrap_or_else(|| "the server is disabled".to_owned()),
        })
    }

    /// Enables or disables the server with this ID or name. Returns the server's ID.
    pub async fn set_enabled(&self, key: &str, is_enabled: bool) -> Result<String> {
        let keys = Map::from_iter([("enabled".to_owned(), Value::Bool(is_enabled))]);
        self.change(key, keys, UpdateMode::Patch).await
    }

    /// Adds the server that `keys`, the members of a request body, describe. Returns the new
    /// server's ID.
    pub async fn add(&self, keys: Map<String, Value>) -> Result<String> {
        let file_config = self.file_config.lock().await;
        self.check_name(&file_config, &keys)?;
        let catalog = self.catalog(&file_config, ChangeAuthor::Caller);
        let record = catalog.add(keys).await?;
        self.apply_config(&file_config, None).await;
        tracing::info!(server.label = record.name, "An MCP server was added");
        Ok(record.id)
    }

    /// Adds a server of the registry: disabled, and with pinned tools. Returns the new server's ID.
    ///
    /// A server that is a program is added only if the configuration allows the program, although
    /// callers cannot add other programs: the registry's entry does not choose the program.
    ///
    /// # Errors
    /// [`ServerError::Install`] if the server cannot be installed, or differs from the one that the
    /// user has seen; otherwise, the same errors as [`add`](Self::add).
    pub async fn install(&self, request: &InstallRequest) -> Result<String> {
        let file_config = self.file_config.lock().await;
        let registry = self.registry();
        let plan = registry.plan(&request.entry, request.method)?;
        if plan.digest() != request.digest {
            return Err(InstallError::Changed.into());
        }
        let policy = registry.url_policy();
        let keys = plan.server_members(&request.name, &request.values, policy)?;
        self.check_name(&file_config, &keys)?;
        let author = match plan.is_program() {
            true => ChangeAuthor::Operator,
            false => ChangeAuthor::Caller,
        };
        let record = self.catalog(&file_config, author).add(keys).await?;
        self.apply_config(&file_config, None).await;
        tracing::info!(
            server.label = record.name,
            registry.name = request.entry.server.name,
            registry.version = request.entry.server.version,
            "An MCP server of the registry was installed"
        );
        Ok(record.id)
    }

    /// Changes the server with this ID or name. Returns the server's ID.
    pub async fn change(
        &self,
        key: &str,
        keys: Map<String, Value>,
        mode: UpdateMode,
    ) -> Result<String> {
        let file_config = self.file_config.lock().await;
        let record = self.find_record(&file_config, key).await?;
        self.check_name(&file_config, &keys)?;
        let catalog = self.catalog(&file_config, ChangeAuthor::Caller);
        let changed_record = catalog.change(&record, keys, mode).await?;
        self.apply_config(&file_config, None).await;
        tracing::info!(
            server.label = changed_record.name,
            "The settings of an MCP server were changed"
        );
        Ok(changed_record.id)
    }

    /// Removes the server with this ID or name. Returns the server's ID.
    pub async fn remove(&self, key: &str) -> Result<String> {
        let file_config = self.file_config.lock().await;
        let record = self.find_record(&file_config, key).await?;
        let catalog = self.catalog(&file_config, ChangeAuthor::Caller);
        catalog.remove(&record).await?;
        self.apply_config(&file_config, None).await;
        tracing::info!(server.label = record.name, "An MCP server was removed");
        Ok(record.id)
    }

    /// Tests a server without storing it.
    pub async fn test_unsaved(&self, keys: Map<String, Value>) -> Result<ServerTrial> {
        let file_config = self.file_config.lock().await;
        let catalog = self.catalog(&file_config, ChangeAuthor::Caller);
        let server = catalog.parse_unsaved(keys)?;
        drop(file_config);
        Ok(trial::run_trial(server).await)
    }

    /// Tests the server with this ID or name with changed settings, which are not stored. The test
    /// uses the stored credentials that the change keeps.
    ///
    /// # Errors
    /// The same errors as [`change`](Self::change).
    pub async fn test_change(&self, key: &str, keys: Map<String, Value>) -> Result<ServerTrial> {
        let file_config = self.file_config.lock().await;
        let record = self.find_record(&file_config, key).await?;
        self.check_name(&file_config, &keys)?;
        let catalog = self.catalog(&file_config, ChangeAuthor::Caller);
        let preview = catalog.preview_change(&record, keys, UpdateMode::Patch);
        let server = Box::pin(preview).await?;
        drop(file_config);
        Ok(Box::pin(trial::run_trial(server)).await)
    }

    /// Tests the server with this ID or name. Starts the server's program only if a tool call would
    /// start it, too, or if the configuration allows callers to start the program.
    pub async fn test_existing(&self, key: &str) -> Result<ServerTrial> {
        let section = self.load_for_test(self.find(key)?).await?;
        Ok(trial::run_trial(section.server).await)
    }

    /// Returns the settings of a server for a test.
    ///
    /// # Errors
    /// [`ServerError::Program`] if a test must not start the server's program: no tool call would
    /// start the program, and the configuration does not allow callers to start it. Otherwise, the
    /// reason why the settings cannot be used.
    async fn load_for_test(&self, server: Server) -> Result<McpServerSection> {
        match server {
            Server::FromFile(section)
                if section.settings.enabled || section.server.url().is_some() =>
            {
                Ok(*section)
            }
            Server::FromFile(_) => Err(ServerError::Program),
            Server::FromStore(catalog_server, problem) => {
                let file_config = self.file_config.lock().await;
                let catalog = self.catalog(&file_config, ChangeAuthor::Caller);
                let is_in_use = catalog_server.record.enabled && problem.is_none();
                let definition = catalog_server.definition.as_ref();
                let may_start = definition.is_some_and(|definition| {
                    !definition.is_program() || catalog.may_start(definition)
                });
                if !may_start && !is_in_use {
                    return Err(ServerError::Program);
                }
                catalog.load(catalog_server.record.clone()).await.section
            }
        }
    }

    /// Re-encrypts all credentials with the key in the `.new` file beside the vault's key file.
    /// Returns the number of re-encrypted credentials.
    ///
    /// # Errors
    /// [`ServerError::NoKeyFile`] if the key is not in a file; [`ServerError::NextKey`] if the new
    /// key cannot be read; [`ServerError::Credential`] if a credential cannot be re-encrypted.
    pub async fn rotate_key(&self) -> Result<usize> {
        let file_config = self.file_config.lock().await;
        let file = file_config
            .vault
            .key_file
            .as_ref()
            .ok_or(ServerError::NoKeyFile)?;
        let next_key = MasterKey::from_file(next_key_file(file)).map_err(ServerError::NextKey)?;
        let vault = self
            .user_credentials
            .vault()
            .ok_or(CredentialError::NoKey)?;
        let secret_count = vault.rotate(next_key).await?;
        tracing::info!(
            secrets = secret_count,
            "Encrypted the stored secrets with a new key"
        );
        Ok(secret_count)
    }

    fn catalog(&self, file_config: &Config, author: ChangeAuthor) -> Catalog {
        Catalog {
            store: Arc::clone(&self.store),
            credentials: self.user_credentials.clone(),
            egress: file_config.servers.egress.clone(),
            author,
            allowed_commands: file_config.registry.allowed_commands.clone(),
            file_accounts: file_accounts(file_config),
        }
    }

    /// Returns the stored record of the server with this ID or name.
    async fn find_record(&self, file_config: &Config, key: &str) -> Result<ServerRecord> {
        if let Some(record) = self.store.find_server(key).await? {
            return Ok(record);
        }
        let has_key = |section: &&McpServerSection| {
            section.label() == key || server_id_from_label(section.label()) == key
        };
        if let Some(section) = file_config.mcp_servers.iter().find(has_key) {
            let name = section.label().to_owned();
            return Err(ServerError::DefinedInFile { name });
        }
        let named_record = self.store.find_server_by_name(key).await?;
        named_record.ok_or_else(|| ServerError::NotFound {
            key: key.to_owned(),
        })
    }

    /// Rejects a name that a server of the configuration file has.
    fn check_name(&self, file_config: &Config, keys: &Map<String, Value>) -> Result<()> {
        let name = keys.get("name").and_then(Value::as_str);
        let mut sections = file_config.mcp_servers.iter();
        match sections.find(|section| Some(section.label()) == name) {
            Some(section) => Err(ServerError::NameTaken {
                name: section.label().to_owned(),
            }),
            None => Ok(()),
        }
    }

    async fn apply_config(&self, file_config: &Config, access: Option<Access>) {
        let config = Box::pin(self.merge_stored_servers(file_config)).await;
        if let Some(application) = self.application() {
            application.apply(&config, access).await;
        }
    }

    /// Returns the server with this ID or name.
    pub fn find(&self, key: &str) -> Result<Server> {
        let servers = self.servers.read();
        let server_by_id = servers.iter().find(|server| server.id() == key);
        let server_by_name = || servers.iter().find(|server| server.name() == key);
        server_by_id
            .or_else(server_by_name)
            .cloned()
            .ok_or_else(|| ServerError::NotFound {
                key: key.to_owned(),
            })
    }

    /// Returns the ID and the name of each server.
    pub fn names(&self) -> Vec<(String, String)> {
        let id_and_name = |server: &Server| (server.id(), server.name().to_owned());
        self.servers.read().iter().map(id_and_name).collect()
    }

    /// Returns the server with this ID or name in the format of the REST API, like
    /// [`entries`](Self::entries).
    pub fn entry(&self, key: &str, gateway: &Gateway) -> Result<ServerEntry> {
        let mut entries = view::entries(&[self.find(key)?], gateway);
        entries.pop().ok_or_else(|| ServerError::NotFound {
            key: key.to_owned(),
        })
    }

    /// Returns the settings of the server with this ID or name, which clients can change.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::DefinedInFile`] or
    /// [`ServerError::Program`] if only the operator can change the server;
    /// [`ServerError::Unreadable`] if the stored settings cannot be read.
    pub fn editable(&self, key: &str, gateway: &Gateway) -> Result<EditableServer> {
        EditableServer::new(&self.find(key)?, self.entry(key, gateway)?)
    }

    /// Returns the servers in the format of the REST API, with their state in `gateway`.
    pub fn entries(&self, gateway: &Gateway) -> Vec<ServerEntry> {
        let servers = Arc::clone(&self.servers.read());
        view::entries(&servers, gateway)
    }
}

/// Runs a change of the servers to completion even if the client disconnects.
///
/// # Errors
/// The error of the change; [`ServerError::Panicked`] if the change panicked.
pub async fn run_to_completion<T: Send + 'static>(
    change: impl Future<Output = Result<T, ServerError>> + Send + 'static,
) -> Result<T, ServerError> {
    let outcome = tokio::spawn(change).await;
    outcome.unwrap_or(Err(ServerError::Panicked))
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").finish_non_exhaustive()
    }
}
