//! What must outlive the sidecar: its store, and what has to be done for it at the start and
//! meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::executor::Journal;
use pillion_core::store::{
    ApprovalStore, CallLog, IdempotencyStore, ProcessLife, Retention, Store, StoreError, Timestamp,
};
use pillion_store::{SqlStore, StoreLocation, StoreOptions};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::config::Config;
use crate::idempotency::KeyLedger;
use crate::results::{ResultDirectory, Results};
use crate::servers::Servers;

/// How often calls that are too old, or too many, are looked for.
const CLEAN_UP_EVERY: Duration = Duration::from_secs(600);

/// How long approvals are kept that do not count any more.
const KEPT_APPROVALS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The store of a running sidecar. Cheap to clone.
#[derive(Clone)]
pub struct State {
    store: Arc<SqlStore>,
    process: ProcessLife,
    keys: Arc<KeyLedger>,
    results: Option<ResultDirectory>,
    clean_up: Arc<AbortOnDropHandle<()>>,
    servers: Option<Arc<Servers>>,
}

impl State {
    /// Opens the store that the configuration names, and marks the calls that an earlier life
    /// of the sidecar on this socket left unfinished as interrupted: but for those of
    /// `predecessors`, which still end them.
    ///
    /// # Errors
    /// When the store cannot be opened: `unavailable`, `corrupt`.
    pub async fn open(
        config: &Config,
        socket: &Path,
        predecessors: &[String],
    ) -> Result<Self, StoreError> {
        let options = store_options(config)?;
        make_directory(&options)?;
        let store = Arc::new(SqlStore::open(&options).await?);
        let process = ProcessLife {
            owner: owner(socket),
            life: Uuid::now_v7().to_string(),
        };
        let mut living = predecessors.to_vec();
        living.push(process.life.clone());
        let interrupted = store
            .interrupt_calls(&process.owner, &living, Timestamp::now())
            .await?;
        if interrupted > 0 {
            tracing::warn!(
                calls = interrupted,
                "Calls were interrupted by an earlier end"
            );
        }
        let results = ResultDirectory::of(config);
        let clean_up = tokio::spawn(clean_up(
            Arc::clone(&store),
            config.call_log.retention(),
            results
                .as_ref()
                .map(|results| results.under(&config.results)),
        ));
        let known = Arc::<SqlStore>::clone(&store);
        let keys = KeyLedger::new(known, process.clone(), predecessors.to_vec());
        Ok(Self {
            keys: Arc::new(keys),
            results,
            store,
            process,
            clean_up: Arc::new(AbortOnDropHandle::new(clean_up)),
            servers: None,
        })
    }

    /// With the MCP servers that may be added and changed.
    #[must_use]
    pub(crate) fn with_servers(mut self, servers: Arc<Servers>) -> Self {
        self.servers = Some(servers);
        self
    }

    pub(crate) fn servers(&self) -> Option<&Arc<Servers>> {
        self.servers.as_ref()
    }

    /// This life of the sidecar, as the call log knows it.
    #[must_use]
    pub fn life(&self) -> &str {
        &self.process.life
    }

    /// The process that runs calls here.
    pub(crate) fn process(&self) -> &ProcessLife {
        &self.process
    }

    /// The keys of requests that name themselves.
    pub(crate) fn keys(&self) -> &Arc<KeyLedger> {
        &self.keys
    }

    /// The results that are too large to be handed over at once.
    pub(crate) fn results(&self, config: &Config) -> Option<Results> {
        let directory = self.results.as_ref()?;
        Some(directory.under(&config.results))
    }

    /// All that is kept.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::<SqlStore>::clone(&self.store)
    }

    /// A journal of calls that this process runs.
    #[must_use]
    pub fn journal(&self, config: &Config) -> Journal {
        let log: Arc<dyn CallLog> = Arc::<SqlStore>::clone(&self.store);
        Journal::new(log, self.process.clone(), config.call_log.redact.clone())
    }

    /// Writes what is waiting and closes the store.
    pub async fn close(self) {
        self.clean_up.abort();
        self.store.close().await;
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

/// Where the store is.
pub(crate) fn store_options(config: &Config) -> Result<StoreOptions, StoreError> {
    config.store.options().ok_or_else(|| {
        StoreError::unavailable("This user has no directory for a store: set store.location")
    })
}

/// A sidecar is known by its host and its socket.
fn owner(socket: &Path) -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
    format!("{}:{}", host.to_string_lossy(), socket.display())
}

/// Makes the directory of a store that is a file.
pub(crate) fn make_directory(options: &StoreOptions) -> Result<(), StoreError> {
    let StoreLocation::File(path) = &options.location else {
        return Ok(());
    };
    let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    // The process's mask leaves it to its user alone.
    std::fs::create_dir_all(directory).map_err(|error| {
        let message = format!("Cannot make {}: {error}", directory.display());
        StoreError::unavailable(message).with_source(error)
    })
}

async fn clean_up(store: Arc<SqlStore>, retention: Retention, results: Option<Results>) {
    loop {
        if let Some(results) = &results {
            results.clean_up().await;
        }
        match store.prune_calls(&retention, Timestamp::now()).await {
            Ok(pruned) if pruned.calls > 0 => {
                tracing::info!(
                    calls = pruned.calls,
                    "Removed calls that were too old or too many"
                );
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "Cannot remove old calls"),
        }
        if let Err(error) = store.remove_expired_keys(Timestamp::now()).await {
            tracing::warn!(%error, "Cannot remove old idempotency keys");
        }
        let long_ago = Timestamp::now().minus(KEPT_APPROVALS);
        if let Err(error) = store.remove_expired_approvals(long_ago).await {
            tracing::warn!(%error, "Cannot remove old approvals");
        }
        tokio::time::sleep(CLEAN_UP_EVERY).await;
    }
}
