//! Direct access to the store, whether or not the sidecar is running.
//!
//! Only the sidecar's user and root can open the store, so no further authentication is needed.

mod error;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::geteuid;
use pillion_client::Client;
use pillion_config::Config;
use pillion_core::store::Store;
use pillion_gateway::credentials::{UserCredentials, open_vault};
use pillion_gateway::state::store_id;
use pillion_management::servers::{Catalog, ChangeAuthor, ServerError, file_accounts};
use pillion_store::{SqlStore, StoreLocation, StoreOptions};
use pillion_wire::route;
use tokio::runtime::Runtime;

use crate::error::CliError;
use crate::process::restrict_new_files;
use crate::sidecar::read_socket_variable;
pub(super) use error::OperatorError;

/// Timeout for the request that asks a sidecar for its store ID.
const STORE_ID_TIMEOUT: Duration = Duration::from_secs(5);

/// The opened store of a configuration.
pub(super) struct OperatorStore {
    runtime: Runtime,
    store: Arc<SqlStore>,
    pub(super) config: Config,
}

impl OperatorStore {
    /// Opens the store that the configuration names.
    pub(super) fn open(config_file: Option<&Path>) -> Result<Self, CliError> {
        Self::open_checked(config_file, |_| None)
    }

    /// Opens the store like [`open`](Self::open). If the sidecar at the socket uses another store,
    /// fails without changing anything.
    pub(super) fn open_for_socket(
        config_file: Option<&Path>,
        socket: &Path,
    ) -> Result<Self, CliError> {
        Self::open_checked(config_file, |_| Some(socket.to_owned()))
    }

    /// Opens the store like [`open_for_socket`](Self::open_for_socket), with the socket from the
    /// environment, the configuration, or the default. If the given configuration file names no
    /// socket, the check is skipped, because the file may belong to any sidecar.
    pub(super) fn open_for_any_sidecar(config_file: Option<&Path>) -> Result<Self, CliError> {
        Self::open_checked(config_file, |config| {
            read_socket_variable()
                .or_else(|| config.socket.path.clone())
                .or_else(|| {
                    config_file
                        .is_none()
                        .then(pillion_client::default_socket_path)
                })
        })
    }

    fn open_checked(
        config_file: Option<&Path>,
        find_socket: impl FnOnce(&Config) -> Option<PathBuf>,
    ) -> Result<Self, CliError> {
        restrict_new_files();
        let config = Config::load(config_file, std::env::vars_os())?;
        let options = config.store.options().ok_or(OperatorError::NoStore)?;
        match &options.location {
            StoreLocation::Memory => return Err(OperatorError::MemoryStore.into()),
            StoreLocation::File(path) => check_owner(path)?,
            _ => {}
        }
        // The request to the sidecar is sent before the runtime is created, because the client
        // blocks the thread.
        let sidecar = find_socket(&config).and_then(RunningSidecar::detect);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(OperatorError::Runtime)?;
        if let Some(RunningSidecar { socket, store_id }) = sidecar
            && !runtime.block_on(may_have_id(&options, &store_id))
        {
            return Err(OperatorError::OtherStore { socket }.into());
        }
        let open_outcome = runtime.block_on(SqlStore::open(&options));
        let store = open_outcome.map_err(OperatorError::Store)?;
        Ok(Self {
            runtime,
            store: Arc::new(store),
            config,
        })
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::<SqlStore>::clone(&self.store)
    }

    /// Returns the catalog of the store's servers, with the permissions of an operator.
    pub(super) fn open_catalog(&self) -> Result<Catalog, CliError> {
        let store = self.store();
        let credentials = UserCredentials::default();
        credentials.set_vault(self.run(open_vault(&store, &self.config))?);
        Ok(Catalog {
            store,
            credentials,
            egress: self.config.servers.egress.clone(),
            author: ChangeAuthor::Operator,
            allowed_commands: self.config.registry.allowed_commands.clone(),
            file_accounts: file_accounts(&self.config),
        })
    }

    /// Fails if a server of the configuration file has this name.
    pub(super) fn check_name(&self, name: &str) -> Result<(), CliError> {
        let servers = &self.config.mcp_servers;
        if servers.iter().any(|server| server.label() == name) {
            let name = name.to_owned();
            return Err(ServerError::NameTaken { name }.into());
        }
        Ok(())
    }

    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

impl Drop for OperatorStore {
    fn drop(&mut self) {
        self.runtime.block_on(self.store.close());
    }
}

struct RunningSidecar {
    socket: PathBuf,
    store_id: String,
}

impl RunningSidecar {
    /// Returns the sidecar at the socket, if it responds with its store ID.
    fn detect(socket: PathBuf) -> Option<Self> {
        let client = Client::builder(&socket).timeout(STORE_ID_TIMEOUT).build();
        let store_id = client.fetch(route::STATUS).ok()?.store_id?;
        Some(Self { socket, store_id })
    }
}

/// Returns whether the store may have the ID `id`. A store that does not exist, has no ID or has
/// another ID cannot have this ID; a store that cannot be read may have it.
async fn may_have_id(options: &StoreOptions, id: &str) -> bool {
    let store = match SqlStore::open_existing(options).await {
        Ok(store) => store,
        Err(error) => return !error.is_not_found(),
    };
    let stored_id = store_id::read(&store).await;
    store.close().await;
    stored_id.map_or(true, |stored_id| stored_id.as_deref() == Some(id))
}

/// Fails if another user owns the store's file, because the sidecar could not access files that the
/// current user creates.
pub(super) fn check_owner(path: &Path) -> Result<(), OperatorError> {
    let checked_path = match path.parent() {
        _ if path.exists() => path,
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let metadata = std::fs::metadata(checked_path).map_err(|source| OperatorError::Directory {
        path: checked_path.to_owned(),
        source,
    })?;
    let owner = metadata.uid();
    if owner != geteuid().as_raw() {
        let path = checked_path.to_owned();
        return Err(OperatorError::OtherOwner { path, owner });
    }
    Ok(())
}
