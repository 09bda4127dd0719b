//! The upstream MCP servers: those of the configuration file, and those of the store, which are
//! added, changed and removed at run time.
//!
//! `Servers` combines both and applies every change at once to the running `Application`, as
//! after a reload of the configuration file, without interrupting calls.

mod catalog;
mod definition;
mod error;
mod input;
mod server;
mod trial;
mod users;
mod view;
mod watching;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use parking_lot::RwLock;
use pillion_core::store::{ServerRecord, Store};
use pillion_mcp_client::TokenKey;
use pillion_store::MasterKey;
use pillion_wire::{ServerEntry, ServerTrial};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

pub use catalog::{Catalog, CatalogServer, How, Who, file_accounts};
pub use error::ServerError;
pub(crate) use input::ServerInput;
use pillion_config::{Config, McpServerSection};
use pillion_gateway::Gateway;
use pillion_gateway::access::Access;
use pillion_gateway::credentials::{
    Account, CredentialError, UserCredentials, file_id, next_key_file, open_vault,
};
pub(crate) use server::Server;
use watching::{note_connections, sweep_users};

/// The running application, to which changes of the servers are applied.
#[async_trait]
pub(crate) trait Application: Send + Sync {
    /// Returns the gateway with the current servers.
    fn gateway(&self) -> Gateway;

    /// Replaces the servers by those of `config`; with `access`, applies the whole configuration.
    async fn apply(&self, config: &Config, access: Option<Access>);
}

/// All servers, and the operations that change them.
pub(crate) struct Servers {
    store: Arc<dyn Store>,
    application: OnceLock<Weak<dyn Application>>,
    /// The current configuration file, without the servers of the store. Locked during a change.
    base: Mutex<Config>,
    /// The users' credentials and the vault, which is replaced when its key changes.
    user_credentials: UserCredentials,
    all: RwLock<Arc<Vec<Server>>>,
    /// Number of requested reconnects by server name.
    reconnects: parking_lot::Mutex<HashMap<String, u64>>,
}

impl Servers {
    /// Reads the servers of the store, and checks the vault's key.
    ///
    /// # Errors
    /// [`ServerError::Credential`] if the key cannot be read or is not the store's key;
    /// [`ServerError::Store`].
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        config: &Config,
    ) -> Result<Arc<Self>, ServerError> {
        let vault = open_vault(&store, config).await?;
        if vault.is_none() && !store.secrets().await?.is_empty() {
            tracing::warn!(
                "The store has encrypted credentials, but no key is configured: set vault.key_file \
                 or vault.key_env"
            );
        }
        let servers = Self {
            store,
            application: OnceLock::new(),
            base: Mutex::new(config.clone()),
            user_credentials: UserCredentials::default(),
            all: RwLock::default(),
            reconnects: parking_lot::Mutex::default(),
        };
        servers.user_credentials.set_vault(vault);
        servers.store.servers().await?;
        Ok(Arc::new(servers))
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Applies later changes to `application`, and starts to record connections and to close
    /// outdated user connections.
    pub(crate) fn attach(self: &Arc<Self>, application: Weak<dyn Application>) {
        let Some(running) = application.upgrade() else {
            return;
        };
        if self.application.set(Weak::clone(&application)).is_ok() {
            let connections = running.gateway().process().connections.clone();
            tokio::spawn(note_connections(Arc::downgrade(self), connections));
            tokio::spawn(sweep_users(application));
        }
    }

    /// Returns the credentials of single users.
    pub(crate) fn user_credentials(&self) -> &UserCredentials {
        &self.user_credentials
    }

    /// Returns the gateway with the current servers, while the application runs.
    pub(crate) fn gateway(&self) -> Option<Gateway> {
        Some(self.application()?.gateway())
    }

    fn application(&self) -> Option<Arc<dyn Application>> {
        self.application.get()?.upgrade()
    }

    /// Returns the configuration with the servers of the store added.
    pub(crate) async fn merged(&self, config: &Config) -> Config {
        let mut config = config.clone();
        let catalog = self.catalog(&config, Who::Caller);
        for section in &mut config.mcp_servers {
            catalog.attach_token_store(&mut section.server);
        }
        let stored = match catalog.all().await {
            Ok(stored) => stored.into_iter().map(Arc::new).collect(),
            Err(error) => {
                tracing::error!(
                    %error,
                    "Cannot read the MCP servers of the store; keeping those already loaded"
                );
                self.stored()
            }
        };
        let sections = config.mcp_servers.iter().cloned().map(Box::new);
        let mut all: Vec<_> = sections.map(Server::OfFile).collect();
        for server in stored {
            let name = &server.record.name;
            let is_taken = config.mcp_servers.iter().any(|it| it.label() == name);
            let problem = if is_taken {
                Some("the configuration file has a server with this name".to_owned())
            } else {
                server.section.as_ref().err().map(ToString::to_string)
            };
            config.mcp_servers.extend(match &server.section {
                _ if is_taken => None,
                Ok(section) if server.record.enabled => Some(section.clone()),
                // The server keeps the names of its tools.
                _ => server.disabled_section(),
            });
            if let Some(problem) = &problem {
                tracing::warn!(
                    server.label = name,
                    problem,
                    "Skipped an MCP server of the store"
                );
            }
            all.push(Server::OfStore(server, problem));
        }
        self.close_other_token_stores(&all).await;
        *self.all.write() = Arc::new(all);
        let reconnects = self.reconnects.lock();
        for section in &mut config.mcp_servers {
            if let Some(count) = reconnects.get(section.label()) {
                section.mix_into_digest(*count);
            }
        }
        config
    }

    /// Closes the token stores of servers that were removed or have another account.
    async fn close_other_token_stores(&self, all: &[Server]) {
        let accounts = all.iter().filter_map(Server::account);
        let keys: Vec<_> = accounts.map(|account| account.key).collect();
        let ids: Vec<_> = all.iter().map(Server::id).collect();
        let credentials = &self.user_credentials;
        let is_unused = |_: &str, key: &TokenKey| !keys.contains(key);
        credentials.close_tokens_of_servers(is_unused).await;
        let is_gone = |id: &str| !ids.iter().any(|it| it == id);
        credentials.close_tokens_of_users(is_gone).await;
    }

    /// Returns the servers of the store.
    fn stored(&self) -> Vec<Arc<CatalogServer>> {
        let stored = |server: &Server| match server {
            Server::OfStore(stored, _) => Some(Arc::clone(stored)),
            Server::OfFile(_) => None,
        };
        self.all.read().iter().filter_map(stored).collect()
    }

    /// Applies a new configuration.
    ///
    /// # Errors
    /// As for [`open`](Self::open); then nothing has changed.
    pub(crate) async fn reconfigure(
        &self,
        config: &Config,
        access: Access,
    ) -> Result<(), ServerError> {
        let mut base = self.base.lock().await;
        let vault = open_vault(&self.store, config).await?;
        self.user_credentials.set_vault(vault);
        let before = std::mem::replace(&mut *base, config.clone());
        let catalog = self.catalog(&base, Who::Operator);
        for section in &before.mcp_servers {
            let mut new_sections = base.mcp_servers.iter();
            let new_section = new_sections.find(|it| it.label() == section.label());
            if let (Some(new), Some(account)) = (new_section, Account::from_server(&section.server))
            {
                let must_replace = !account.is_consented() && !new.has_same_content(section);
                let new_account = Account::from_server(&new.server).filter(|_| !must_replace);
                let id = file_id(section.label());
                catalog.replace_account(&id, &account, new_account).await;
            }
        }
        self.apply_config(&base, Some(access)).await;
        Ok(())
    }

    /// Reads the store, the users' credentials and the vault's key again.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub(crate) async fn refresh(&self) -> Result<(), ServerError> {
        let base = self.base.lock().await;
        let vault = open_vault(&self.store, &base).await?;
        self.user_credentials.set_vault(vault);
        self.apply_config(&base, None).await;
        if let Some(gateway) = self.gateway() {
            gateway.upstreams().sweep_users().await;
        }
        Ok(())
    }

    /// Reconnects to the server with this id or name. The current session, with all state of the
    /// client such as an authorization, ends when its running calls have finished.
    ///
    /// # Errors
    /// [`ServerError::NotFound`].
    pub(crate) async fn reconnect(&self, key: &str) -> Result<(), ServerError> {
        let base = self.base.lock().await;
        let name = self.find(key)?.name().to_owned();
        // The server's OAuth tokens may have been replaced or removed.
        let of_it = |server: &str, _: &TokenKey| server == name;
        self.user_credentials.close_tokens_of_servers(of_it).await;
        *self.reconnects.lock().entry(name).or_default() += 1;
        self.apply_config(&base, None).await;
        Ok(())
    }

    /// Adds a server with the members `keys` of a request. Returns the new server's id.
    pub(crate) async fn add(&self, keys: Map<String, Value>) -> Result<String, ServerError> {
        let base = self.base.lock().await;
        self.check_file(&base, &keys)?;
        let record = self.catalog(&base, Who::Caller).add(keys).await?;
        self.apply_config(&base, None).await;
        tracing::info!(server.label = record.name, "An MCP server was added");
        Ok(record.id)
    }

    /// Changes the server with this id or name. Returns the server's id.
    pub(crate) async fn change(
        &self,
        key: &str,
        keys: Map<String, Value>,
        how: How,
    ) -> Result<String, ServerError> {
        let base = self.base.lock().await;
        let record = self.record(&base, key).await?;
        self.check_file(&base, &keys)?;
        let catalog = self.catalog(&base, Who::Caller);
        let record = catalog.change(&record, keys, how).await?;
        self.apply_config(&base, None).await;
        tracing::info!(server.label = record.name, "An MCP server was changed");
        Ok(record.id)
    }

    /// Removes the server with this id or name. Returns the server's id.
    pub(crate) async fn remove(&self, key: &str) -> Result<String, ServerError> {
        let base = self.base.lock().await;
        let record = self.record(&base, key).await?;
        self.catalog(&base, Who::Caller).remove(&record).await?;
        self.apply_config(&base, None).await;
        tracing::info!(server.label = record.name, "An MCP server was removed");
        Ok(record.id)
    }

    /// Tests a server without storing it.
    pub(crate) async fn try_unsaved(
        &self,
        keys: Map<String, Value>,
    ) -> Result<ServerTrial, ServerError> {
        let base = self.base.lock().await;
        let server = self.catalog(&base, Who::Caller).unsaved(keys)?;
        drop(base);
        Ok(trial::try_out(server).await)
    }

    /// Tests the server with this id or name. A program is started only if a call would start it.
    pub(crate) async fn test_known(&self, key: &str) -> Result<ServerTrial, ServerError> {
        let server = match self.find(key)? {
            Server::OfFile(section)
                if section.settings.enabled || section.server.url().is_some() =>
            {
                section.server
            }
            Server::OfFile(_) => return Err(ServerError::Program),
            Server::OfStore(stored, problem) => {
                let runs = stored.record.enabled && problem.is_none();
                let is_program = stored.definition.as_ref().is_none_or(|it| it.is_program());
                if is_program && !runs {
                    return Err(ServerError::Program);
                }
                let base = self.base.lock().await;
                let catalog = self.catalog(&base, Who::Caller);
                catalog.load(stored.record.clone()).await.section?.server
            }
        };
        Ok(trial::try_out(server).await)
    }

    /// Re-encrypts all credentials with the key in the `.new` file beside the vault's key file.
    /// Returns the number of credentials.
    ///
    /// # Errors
    /// [`ServerError::NoKeyFile`], [`ServerError::NextKey`], [`ServerError::Credential`].
    pub(crate) async fn rotate(&self) -> Result<usize, ServerError> {
        let base = self.base.lock().await;
        let file = base.vault.key_file.as_ref().ok_or(ServerError::NoKeyFile)?;
        let next = MasterKey::from_file(next_key_file(file)).map_err(ServerError::NextKey)?;
        let vault = self
            .user_credentials
            .vault()
            .ok_or(CredentialError::NoKey)?;
        let rotated = vault.rotate(next).await?;
        tracing::info!(
            secrets = rotated,
            "Encrypted the stored secrets with a new key"
        );
        Ok(rotated)
    }

    fn catalog(&self, base: &Config, who: Who) -> Catalog {
        Catalog {
            store: Arc::clone(&self.store),
            credentials: self.user_credentials.clone(),
            egress: base.servers.egress.clone(),
            who,
            file_accounts: file_accounts(base),
        }
    }

    /// Returns the record of the store for the server with this id or name.
    async fn record(&self, base: &Config, key: &str) -> Result<ServerRecord, ServerError> {
        if let Some(record) = self.store.server(key).await? {
            return Ok(record);
        }
        let of_file = |it: &&McpServerSection| it.label() == key || file_id(it.label()) == key;
        if let Some(section) = base.mcp_servers.iter().find(of_file) {
            let name = section.label().to_owned();
            return Err(ServerError::DefinedInFile { name });
        }
        let named = self.store.server_named(key).await?;
        named.ok_or(ServerError::NotFound)
    }

    /// Rejects a name that a server of the configuration file has.
    fn check_file(&self, base: &Config, keys: &Map<String, Value>) -> Result<(), ServerError> {
        let name = keys.get("name").and_then(Value::as_str);
        match base.mcp_servers.iter().find(|it| Some(it.label()) == name) {
            Some(section) => Err(ServerError::NameTaken {
                name: section.label().to_owned(),
            }),
            None => Ok(()),
        }
    }

    async fn apply_config(&self, base: &Config, access: Option<Access>) {
        let config = Box::pin(self.merged(base)).await;
        if let Some(application) = self.application() {
            application.apply(&config, access).await;
        }
    }

    /// Returns the server with this id or name.
    pub(crate) fn find(&self, key: &str) -> Result<Server, ServerError> {
        let all = self.all.read();
        let by_id = all.iter().find(|server| server.id() == key);
        let by_name = || all.iter().find(|server| server.name() == key);
        let found = by_id.or_else(by_name).ok_or(ServerError::NotFound)?;
        Ok(found.clone())
    }

    /// Returns the id and the name of each server.
    pub(crate) fn names(&self) -> Vec<(String, String)> {
        let names = |server: &Server| (server.id(), server.name().to_owned());
        self.all.read().iter().map(names).collect()
    }

    /// Returns the server with this id or name in the format of the REST API, like
    /// [`entries`](Self::entries).
    pub(crate) fn entry(&self, key: &str, gateway: &Gateway) -> Result<ServerEntry, ServerError> {
        let mut entries = view::entries(&[self.find(key)?], gateway);
        entries.pop().ok_or(ServerError::NotFound)
    }

    /// Returns the servers in the format of the REST API, with their state in `gateway`.
    pub(crate) fn entries(&self, gateway: &Gateway) -> Vec<ServerEntry> {
        let all = Arc::clone(&self.all.read());
        view::entries(&all, gateway)
    }
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").finish_non_exhaustive()
    }
}
