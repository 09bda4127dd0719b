//! What the operator does on the store itself, whether or not the sidecar runs.
//!
//! Whoever can open the store is the sidecar's user, or root in its place: nobody has to be
//! asked who they are, and no request can pretend.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;
use pillion_client::Client;
use pillion_core::store::{Store, StoreError};
use pillion_store::{SqlStore, StoreLocation, StoreOptions};
use tokio::runtime::Runtime;

use super::CliError;
use crate::config::Config;
use crate::credentials::{UserCredentials, open_vault};
use crate::servers::{Catalog, ServerError, Who, of_the_file};
use crate::state::store_id;

/// How long a sidecar may take to say which store it has.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the store cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub(super) enum OperatorError {
    #[error("{0}")]
    Runtime(#[source] io::Error),
    #[error("{0}")]
    Store(#[source] StoreError),
    #[error(
        "this user has no directory for a store: name the sidecar's configuration with --config"
    )]
    NoStore,
    #[error(
        "the store is in the sidecar's memory (store.location): it has to be in a file, or in Postgres"
    )]
    Memory,
    #[error("{} belongs to another user: run this as the sidecar's (number {owner})", path.display())]
    OfAnother { path: PathBuf, owner: u32 },
    #[error(
        "nothing was done: the sidecar that listens at {} has another store. Name its configuration \
         with --config, or another sidecar's socket with PILLION_SOCKET", socket.display()
    )]
    OtherStore { socket: PathBuf },
    #[error("{}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
}

/// The store of a configuration, opened by its operator.
pub(super) struct Operator {
    runtime: Runtime,
    store: Arc<SqlStore>,
    pub(super) config: Config,
}

impl Operator {
    /// Opens the store that the configuration names.
    pub(super) fn open(file: Option<&Path>) -> Result<Self, CliError> {
        Self::open_if(file, |_| None)
    }

    /// As [`open`](Self::open), unless a sidecar listens at the socket that has another store:
    /// nothing is made or changed then.
    pub(super) fn open_beside(file: Option<&Path>, socket: &Path) -> Result<Self, CliError> {
        Self::open_if(file, |_| Some(socket.to_owned()))
    }

    /// As [`open_beside`](Self::open_beside), with the sidecar's socket as the configuration, the
    /// environment or the defaults have it. A configuration that is named, but names no socket,
    /// may be that of any sidecar.
    pub(super) fn open_beside_any(file: Option<&Path>) -> Result<Self, CliError> {
        Self::open_if(file, |config| {
            let named = super::named_socket().or_else(|| config.socket.path.clone());
            named.or_else(|| file.is_none().then(pillion_client::default_socket_path))
        })
    }

    fn open_if(
        file: Option<&Path>,
        socket: impl FnOnce(&Config) -> Option<PathBuf>,
    ) -> Result<Self, CliError> {
        // Before there is any other thread: what is made is this user's alone.
        umask(Mode::from_bits_truncate(0o077));
        let config = Config::load(file, std::env::vars_os())?;
        let options = config.store.options().ok_or(OperatorError::NoStore)?;
        match &options.location {
            StoreLocation::Memory => return Err(OperatorError::Memory.into()),
            StoreLocation::File(path) => check_owner(path)?,
            _ => {}
        }
        // As long as there is no runtime: the client blocks.
        let sidecar = socket(&config).and_then(Sidecar::at);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(OperatorError::Runtime)?;
        if let Some(Sidecar { socket, store_id }) = sidecar
            && !runtime.block_on(is_same(&options, &store_id))
        {
            return Err(OperatorError::OtherStore { socket }.into());
        }
        let store = runtime.block_on(SqlStore::open(&options));
        let store = Arc::new(store.map_err(OperatorError::Store)?);
        Ok(Self {
            runtime,
            store,
            config,
        })
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::<SqlStore>::clone(&self.store)
    }

    /// The servers of the store, changed by their operator.
    pub(super) fn catalog(&self) -> Result<Catalog, CliError> {
        let store = self.store();
        let credentials = UserCredentials::default();
        credentials.move_to(self.run(open_vault(&store, &self.config))?);
        Ok(Catalog {
            store,
            credentials,
            egress: self.config.servers.egress.clone(),
            who: Who::Operator,
            of_the_file: of_the_file(&self.config),
        })
    }

    /// A name that the configuration file has is not the store's.
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

impl Drop for Operator {
    fn drop(&mut self) {
        self.runtime.block_on(self.store.close());
    }
}

/// A sidecar that runs.
struct Sidecar {
    socket: PathBuf,
    store_id: String,
}

impl Sidecar {
    /// The one that listens there, if one does and says which store it has.
    fn at(socket: PathBuf) -> Option<Self> {
        let client = Client::builder(&socket).timeout(PATIENCE).build();
        let store_id = client.status().ok()?.store_id?;
        Some(Self { socket, store_id })
    }
}

/// Whether the store has that id. One that cannot be read is not said to have another.
async fn is_same(options: &StoreOptions, id: &str) -> bool {
    let store = match SqlStore::open_existing(options).await {
        Ok(store) => store,
        Err(error) => return !error.is_not_found(),
    };
    let found = store_id::of(&store).await;
    store.close().await;
    found.map_or(true, |found| found.as_deref() == Some(id))
}

/// A file that another user makes, or files beside it, would be closed to the sidecar.
pub(super) fn check_owner(path: &Path) -> Result<(), OperatorError> {
    let directory = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let checked = if path.exists() {
        path.to_owned()
    } else {
        directory(path)
    };
    let found = std::fs::metadata(&checked).map_err(|source| OperatorError::Directory {
        path: checked.clone(),
        source,
    })?;
    if found.uid() != geteuid().as_raw() {
        return Err(OperatorError::OfAnother {
            path: checked,
            owner: found.uid(),
        });
    }
    Ok(())
}
