//! What must outlive the sidecar: its store, and what has to be done for it at the start and
//! meanwhile.

mod file_watch;
pub(crate) mod store_id;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::executor::Journal;
use pillion_core::store::{
    ApprovalStore, CallLog, ChatStore, IdempotencyStore, KeptStepsStore, ProcessLife, Retention,
    Store, StoreError, Timestamp,
};
use pillion_store::{SqlStore, StoreLocation, StoreOptions};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::clock::ClockWatch;
use crate::config::Config;
use crate::idempotency::KeyLedger;
use crate::instance;
use crate::lives::{Life, Lives};
use crate::predecessors::Predecessors;
use crate::results::{ResultDirectory, Results};

/// How often calls that are too old, or too many, are looked for.
const CLEAN_UP_EVERY: Duration = Duration::from_secs(600);

/// A call whose approval was used longer ago runs by now, or never will.
const BETWEEN_APPROVAL_AND_RUN: Duration = Duration::from_secs(60);

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
    file_watch: Arc<AbortOnDropHandle<()>>,
    /// Shows that this life goes on, where no socket does.
    life: Option<Arc<Life>>,
    /// What tells the store from others.
    store_id: Option<String>,
}

impl State {
    /// Opens the store that the configuration names, and marks the calls that an earlier life
    /// of the sidecar on this socket left unfinished as interrupted: but for those of
    /// `predecessors`, which still end them.
    ///
    /// # Errors
    /// When the store cannot be opened: `unavailable`, `corrupt`.
    pub(crate) async fn open(
        config: &Config,
        socket: &Path,
        predecessors: &Predecessors,
    ) -> Result<Self, StoreError> {
        let store = open_store(config).await?;
        let process = ProcessLife {
            owner: instance::owner(config, socket),
            life: Uuid::now_v7().to_string(),
        };
        interrupt_calls(&store, &process, predecessors).await?;
        warn_of(interrupt_lives(&store, Lives::of(config)).await?);
        let store_id = store_id::of_or_new(&*store).await?;
        Ok(Self {
            store_id,
            ..Self::over(store, process, predecessors.clone(), config)
        })
    }

    /// Opens the store for a process that serves no socket: one of many, perhaps, beside a
    /// sidecar. Calls of such processes that have ended are marked as interrupted.
    ///
    /// # Errors
    /// When the store cannot be opened: `unavailable`, `corrupt`.
    pub(crate) async fn open_beside_others(config: &Config) -> Result<Self, StoreError> {
        let store = open_store(config).await?;
        let lives = Lives::of(config);
        let name = Uuid::now_v7().to_string();
        let mut process = ProcessLife {
            owner: "alone".to_owned(),
            life: name.clone(),
        };
        let mut life = None;
        if let Some(lives) = &lives {
            let begun = lives.begin(name).map_err(|error| {
                let message = format!("Cannot show that this process lives: {error}");
                StoreError::unavailable(message).with_source(error)
            })?;
            process.owner = lives.owner();
            life = Some(Arc::new(begun));
        }
        warn_of(interrupt_lives(&store, lives).await?);
        Ok(Self {
            life,
            ..Self::over(store, process, Predecessors::default(), config)
        })
    }

    fn over(
        store: Arc<SqlStore>,
        process: ProcessLife,
        predecessors: Predecessors,
        config: &Config,
    ) -> Self {
        let results = ResultDirectory::of(config);
        let clean_up = tokio::spawn(clean_up(
            Arc::clone(&store),
            config.call_log.retention(),
            config.chat.keep,
            results
                .as_ref()
                .map(|results| results.under(&config.results)),
        ));
        let file_watch = tokio::spawn(file_watch::watch(Arc::clone(&store)));
        let known = Arc::<SqlStore>::clone(&store);
        let keys = KeyLedger::new(known, process.clone(), predecessors);
        Self {
            keys: Arc::new(keys),
            results,
            store,
            process,
            clean_up: Arc::new(AbortOnDropHandle::new(clean_up)),
            file_watch: Arc::new(AbortOnDropHandle::new(file_watch)),
            life: None,
            store_id: None,
        }
    }

    /// What tells the store from others, where that is known.
    pub(crate) fn store_id(&self) -> Option<&str> {
        self.store_id.as_deref()
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

    /// Marks the calls as interrupted that predecessors leave unfinished when they end.
    pub(crate) fn watch(&self, predecessors: &Predecessors) {
        let (store, process) = (Arc::clone(&self.store), self.process.clone());
        let others = predecessors.clone();
        predecessors.watch(move || {
            let (store, process, others) = (Arc::clone(&store), process.clone(), others.clone());
            async move {
                if let Err(error) = interrupt_calls(&store, &process, &others).await {
                    tracing::warn!(%error, "Cannot mark the calls that were interrupted");
                }
            }
        });
    }

    /// All that is kept.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::<SqlStore>::clone(&self.store)
    }

    /// Returns why calls cannot be recorded, if the store is known to fail.
    pub(crate) fn store_failure(&self) -> Option<String> {
        self.store_file_failure()
            .or_else(|| self.store.recording_failure())
    }

    /// Returns why the store cannot be used, if its file was deleted or replaced.
    pub(crate) fn store_file_failure(&self) -> Option<String> {
        self.store.file_failure()
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
        self.file_watch.abort();
        let Some(life) = &self.life else {
            return self.store.close().await;
        };
        // Nobody comes after this one who would find what it leaves.
        if self.cut_off_calls().await {
            life.end();
        }
        self.store.close().await;
    }

    /// Marks the calls of this process that have not ended as interrupted; whether that could be
    /// stored.
    pub(crate) async fn cut_off_calls(&self) -> bool {
        let left = self.store.interrupt_life(&self.process, Timestamp::now());
        let outcome = left.await;
        if let Err(error) = &outcome {
            tracing::warn!(%error, "Cannot say which calls were cut off");
        }
        outcome.is_ok()
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

async fn open_store(config: &Config) -> Result<Arc<SqlStore>, StoreError> {
    let options = store_options(config)?;
    make_directory(&options)?;
    Ok(Arc::new(SqlStore::open(&options).await?))
}

/// Marks what processes without a socket have left unfinished; how many calls.
async fn interrupt_lives(store: &SqlStore, lives: Option<Lives>) -> Result<u64, StoreError> {
    let Some(lives) = lives else {
        return Ok(0);
    };
    let ended = match lives.ended() {
        Ok(ended) => ended,
        Err(error) => {
            tracing::warn!(%error, "Cannot see which processes have ended");
            return Ok(0);
        }
    };
    let mut interrupted = 0;
    for life in ended {
        let process = ProcessLife {
            owner: lives.owner(),
            life: life.name.clone(),
        };
        interrupted += store.interrupt_life(&process, Timestamp::now()).await?;
        life.end();
    }
    Ok(interrupted)
}

fn warn_of(interrupted: u64) {
    if interrupted > 0 {
        tracing::warn!(
            calls = interrupted,
            "Calls were interrupted by an earlier end"
        );
    }
}

/// Where the store is.
pub(crate) fn store_options(config: &Config) -> Result<StoreOptions, StoreError> {
    config.store.options().ok_or_else(|| {
        StoreError::unavailable("This user has no directory for a store: set store.location")
    })
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

/// Marks the calls that earlier lives left unfinished, but for those of `predecessors`.
async fn interrupt_calls(
    store: &SqlStore,
    process: &ProcessLife,
    predecessors: &Predecessors,
) -> Result<(), StoreError> {
    let mut living = predecessors.lives();
    living.push(process.life.clone());
    let interrupted = store
        .interrupt_calls(&process.owner, &living, Timestamp::now())
        .await?;
    warn_of(interrupted);
    Ok(())
}

async fn clean_up(
    store: Arc<SqlStore>,
    retention: Retention,
    keep_chats: Duration,
    results: Option<Results>,
) {
    let mut clock = ClockWatch::start();
    loop {
        if let Some(set) = clock.was_set() {
            let (Ok(by) | Err(by)) = set;
            tracing::warn!(
                seconds = by.as_secs(),
                forward = set.is_ok(),
                "The system's clock was set; nothing is removed for its age now"
            );
            tokio::time::sleep(CLEAN_UP_EVERY).await;
            continue;
        }
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
        let chats = store.remove_old_chats(Timestamp::now().minus(keep_chats));
        if let Err(error) = chats.await {
            tracing::warn!(%error, "Cannot remove old chats");
        }
        let a_while_ago = Timestamp::now().minus(BETWEEN_APPROVAL_AND_RUN);
        let cancelled = store.cancel_undecided(a_while_ago, Timestamp::now());
        if let Err(error) = cancelled.await {
            tracing::warn!(%error, "Cannot look for calls that wait in vain");
        }
        if let Err(error) = store.remove_expired_keys(Timestamp::now()).await {
            tracing::warn!(%error, "Cannot remove old idempotency keys");
        }
        if let Err(error) = store.remove_expired_steps(Timestamp::now()).await {
            tracing::warn!(%error, "Cannot remove steps that wait in vain");
        }
        let long_ago = Timestamp::now().minus(KEPT_APPROVALS);
        if let Err(error) = store.remove_expired_approvals(long_ago).await {
            tracing::warn!(%error, "Cannot remove old approvals");
        }
        tokio::time::sleep(CLEAN_UP_EVERY).await;
    }
}
