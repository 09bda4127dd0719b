//! The store, whose data outlives the sidecar, and its maintenance.

mod clean_up;
pub mod store_id;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clean_up::CleanUp;
use pillion_config::Config;
use pillion_core::executor::Journal;
use pillion_core::store::{CallLog, ProcessRun, Store, StoreError, Timestamp};
use pillion_deadline::timeout;
use pillion_store::{SqlStore, StoreLocation, StoreOptions};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use uuid::Uuid;

use crate::idempotency::IdempotencyKeys;
use crate::instance;
use crate::predecessors::{Predecessors, ProcessRuns};
use crate::process_locks::{ProcessLock, ProcessLocks};
use crate::results::{ResultDirectory, Results};

/// Maximum time that a readiness check waits for the check of the store.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which the sidecar checks whether the store's file was deleted or replaced, to log
/// such a change. Writes do not rely on this check: each write checks the file as well.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The store of a running sidecar. Cheap to clone.
#[derive(Clone)]
pub struct State {
    store: Arc<SqlStore>,
    runs: ProcessRuns,
    keys: Arc<IdempotencyKeys>,
    result_directory: Option<ResultDirectory>,
    clean_up: Arc<AbortOnDropHandle<()>>,
    file_watch: Arc<AbortOnDropHandle<()>>,
    /// Locked while the store is checked.
    check_lock: Arc<tokio::sync::Mutex<()>>,
    /// The lock file of this process, if it serves no socket.
    process_lock: Option<Arc<ProcessLock>>,
    store_id: Option<String>,
}

impl State {
    /// Opens the configured store, and marks the unfinished calls of earlier processes on this
    /// socket as interrupted, except those of `predecessors`, which may still finish their calls.
    ///
    /// # Errors
    /// If the store cannot be opened: `unavailable`, `corrupt`.
    pub async fn open(
        config: &Config,
        socket: &Path,
        predecessors: &Predecessors,
    ) -> Result<Self, StoreError> {
        let store = open_store(config).await?;
        let process = ProcessRun {
            owner: instance::sidecar_identity(config, socket),
            run_id: Uuid::now_v7().to_string(),
        };
        let runs = ProcessRuns {
            current_run: process,
            predecessors: predecessors.clone(),
            socket: Some(socket.to_owned()),
        };
        interrupt_calls(&store, &runs).await?;
        let locks = ProcessLocks::from_config(config);
        warn_about_interrupted_calls(interrupt_ended_processes(&store, locks).await?);
        let store_id = store_id::load_or_create(&*store).await?;
        Ok(Self {
            store_id,
            ..Self::with_store(store, runs, config)
        })
    }

    /// Opens the store for a process that serves no socket and may run beside a sidecar. Marks the
    /// unfinished calls of ended processes without a socket as interrupted.
    ///
    /// # Errors
    /// If the store cannot be opened: `unavailable`, `corrupt`.
    pub async fn open_shared(config: &Config) -> Result<Self, StoreError> {
        let store = open_store(config).await?;
        let locks = ProcessLocks::from_config(config);
        let name = Uuid::now_v7().to_string();
        let mut process = ProcessRun {
            owner: "alone".to_owned(),
            run_id: name.clone(),
        };
        let mut process_lock = None;
        if let Some(locks) = &locks {
            let lock = locks.acquire(name).map_err(|error| {
                let message =
                    format!("Cannot lock the file that marks this process as running: {error}");
                StoreError::unavailable(message).with_source(error)
            })?;
            process.owner = locks.owner();
            process_lock = Some(Arc::new(lock));
        }
        warn_about_interrupted_calls(interrupt_ended_processes(&store, locks).await?);
        let runs = ProcessRuns {
            current_run: process,
            predecessors: Predecessors::default(),
            socket: None,
        };
        Ok(Self {
            process_lock,
            ..Self::with_store(store, runs, config)
        })
    }

    fn with_store(store: Arc<SqlStore>, runs: ProcessRuns, config: &Config) -> Self {
        let result_directory = ResultDirectory::from_config(config);
        let directory = result_directory.as_ref();
        let stored_results = directory.map(|directory| directory.with_section(&config.results));
        let clean_up = CleanUp::new(Arc::clone(&store), runs.clone(), config, stored_results);
        let clean_up_task = tokio::spawn(clean_up.run());
        let file_watch = tokio::spawn(watch_file(Arc::clone(&store)));
        let keys = IdempotencyKeys::new(Arc::<SqlStore>::clone(&store), runs.clone());
        Self {
            check_lock: Arc::default(),
            keys: Arc::new(keys),
            result_directory,
            store,
            runs,
            clean_up: Arc::new(AbortOnDropHandle::new(clean_up_task)),
            file_watch: Arc::new(AbortOnDropHandle::new(file_watch)),
            process_lock: None,
            store_id: None,
        }
    }

    /// Returns the store's ID; `None` if the ID was not read, as with
    /// [`open_shared`](Self::open_shared).
    pub fn store_id(&self) -> Option<&str> {
        self.store_id.as_deref()
    }

    /// Returns the ID of this process in the call log.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.runs.current_run.run_id
    }

    /// Returns the identity of this process in the call log.
    pub fn process(&self) -> &ProcessRun {
        &self.runs.current_run
    }

    /// Returns the idempotency keys.
    pub fn keys(&self) -> &Arc<IdempotencyKeys> {
        &self.keys
    }

    /// Returns the store of offloaded results, if configured.
    pub fn results(&self, config: &Config) -> Option<Results> {
        let directory = self.result_directory.as_ref()?;
        Some(directory.with_section(&config.results))
    }

    /// Waits in the background for each predecessor to end, and then marks the predecessor's
    /// unfinished calls as interrupted.
    pub fn watch(&self, predecessors: &Predecessors) {
        let (store, runs) = (Arc::clone(&self.store), self.runs.clone());
        predecessors.watch(move || {
            let (store, runs) = (Arc::clone(&store), runs.clone());
            async move {
                if let Err(error) = interrupt_calls(&store, &runs).await {
                    tracing::warn!(%error, "Cannot mark interrupted calls in the call log");
                }
            }
        });
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::<SqlStore>::clone(&self.store)
    }

    /// Returns why calls cannot be recorded; `None` if no failure of the store is known.
    pub fn store_failure(&self) -> Option<String> {
        self.store_file_failure()
            .or_else(|| self.store.recording_failure())
    }

    /// Returns the number of call log records that were lost in damaged files.
    pub fn lost_records(&self) -> u64 {
        self.store.lost_records()
    }

    /// Checks whether the store can be written, at most once a second. Returns after a second at
    /// the latest. An unfinished check continues, and until it ends, the store counts as
    /// unresponsive.
    pub async fn check_store(&self) {
        let write_check = async {
            let Ok(check_guard) = Arc::clone(&self.check_lock).try_lock_owned() else {
                drop(self.check_lock.lock().await);
                return;
            };
            let store = Arc::clone(&self.store);
            let health_check = tokio::spawn(async move {
                let _check_guard = check_guard;
                store.check_health().await;
            });
            drop(health_check.await);
        };
        if timeout(CHECK_TIMEOUT, write_check).await.is_err() {
            self.store.note_unresponsive();
        }
    }

    /// Returns why the store cannot be used, if its file was deleted or replaced.
    pub fn store_file_failure(&self) -> Option<String> {
        self.store.file_failure()
    }

    /// Returns the journal for the calls of this process. Writes in the background run in the task
    /// tracker `background_tasks`.
    #[must_use]
    pub fn journal(&self, config: &Config, background_tasks: TaskTracker) -> Journal {
        let log: Arc<dyn CallLog> = Arc::<SqlStore>::clone(&self.store);
        let redaction = config.call_log.redact.clone();
        Journal::new(log, self.runs.current_run.clone(), redaction)
            .with_background(background_tasks)
    }

    /// Writes pending records, and closes the store.
    pub async fn close(self) {
        self.clean_up.abort();
        self.file_watch.abort();
        let Some(lock) = &self.process_lock else {
            return self.store.close().await;
        };
        // The unfinished calls are marked as interrupted now, because there may be no later process
        // to mark them.
        if self.interrupt_own_calls().await {
            lock.remove();
        }
        self.store.close().await;
    }

    /// Marks the unfinished calls of this process as interrupted. Returns whether the store could
    /// be written.
    pub async fn interrupt_own_calls(&self) -> bool {
        let now = Timestamp::now();
        let outcome = self.store.interrupt_run(self.process(), now).await;
        if let Err(error) = &outcome {
            tracing::warn!(
                %error,
                "Cannot mark the unfinished calls of this process as interrupted"
            );
        }
        outcome.is_ok()
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("process", &self.runs.current_run)
            .finish_non_exhaustive()
    }
}

async fn open_store(config: &Config) -> Result<Arc<SqlStore>, StoreError> {
    let options = store_options(config)?;
    make_directory(&options)?;
    Ok(Arc::new(SqlStore::open(&options).await?))
}

/// Marks the unfinished calls of ended processes without a socket as interrupted. Returns the
/// number of these calls.
async fn interrupt_ended_processes(
    store: &SqlStore,
    locks: Option<ProcessLocks>,
) -> Result<u64, StoreError> {
    let Some(locks) = locks else {
        return Ok(0);
    };
    let ended_locks = match locks.acquire_ended() {
        Ok(ended_locks) => ended_locks,
        Err(error) => {
            tracing::warn!(%error, "Cannot determine which sidecar processes have ended");
            return Ok(0);
        }
    };
    let mut interrupted_calls = 0;
    for lock in ended_locks {
        let process = ProcessRun {
            owner: locks.owner(),
            run_id: lock.name.clone(),
        };
        interrupted_calls += store.interrupt_run(&process, Timestamp::now()).await?;
        lock.remove();
    }
    Ok(interrupted_calls)
}

fn warn_about_interrupted_calls(interrupted_calls: u64) {
    if interrupted_calls > 0 {
        tracing::warn!(
            calls = interrupted_calls,
            "Marked calls of ended sidecar processes as interrupted"
        );
    }
}

/// Returns the location and options of the store.
pub fn store_options(config: &Config) -> Result<StoreOptions, StoreError> {
    let message = "Cannot determine the state directory for the store: set store.location";
    let options = config.store.options();
    options.ok_or_else(|| StoreError::unavailable(message))
}

/// Creates the directory of the store's file, if the store is in a file.
pub fn make_directory(options: &StoreOptions) -> Result<(), StoreError> {
    let StoreLocation::File(path) = &options.location else {
        return Ok(());
    };
    let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    // No permissions are set, because the umask of the process restricts the directory to its user.
    std::fs::create_dir_all(directory).map_err(|error| {
        let path = directory.display();
        let message = format!("Cannot create the directory of the store, '{path}': {error}");
        StoreError::unavailable(message).with_source(error)
    })
}

/// Marks the unfinished calls of earlier processes as interrupted, unless the processes may still
/// finish them.
async fn interrupt_calls(store: &SqlStore, runs: &ProcessRuns) -> Result<(), StoreError> {
    let owner = &runs.current_run.owner;
    let mut interrupted_calls = 0;
    for run_id in store.unfinished_processes(owner).await? {
        if !runs.may_run(&run_id) {
            let ended_run = ProcessRun {
                owner: owner.clone(),
                run_id,
            };
            interrupted_calls += store.interrupt_run(&ended_run, Timestamp::now()).await?;
        }
    }
    warn_about_interrupted_calls(interrupted_calls);
    Ok(())
}

/// Logs when the file of an open store is deleted or replaced, and when the file is back.
async fn watch_file(store: Arc<SqlStore>) {
    let mut was_available = true;
    loop {
        let failure = store.file_failure();
        let is_available = failure.is_none();
        match failure {
            Some(error) if was_available => tracing::error!(
                error,
                "The store file is missing or was replaced: tool calls fail"
            ),
            None if !was_available => tracing::warn!("The store file is available again"),
            _ => {}
        }
        was_available = is_available;
        tokio::time::sleep(FILE_CHECK_INTERVAL).await;
    }
}
