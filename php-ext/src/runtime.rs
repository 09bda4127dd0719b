//! The state of the process: the tokio runtime, and the clients of language models and of the
//! sidecar, whose connections stay open from one PHP request to the next. `mcp::sessions` owns the
//! MCP sessions that stay open.
//!
//! - The runtime is created on first use, never at module startup: FPM forks its workers after
//!   module startup, and threads do not survive a fork.
//! - After a fork (`pcntl_fork`) the child creates its own runtime. It leaks the parent's runtime
//!   instead of dropping it: the drop would wait for threads that do not exist in the child, or
//!   take locks that those threads held.
//! - PHP's thread drives the runtime while it waits. A background thread drives it at other times,
//!   so that connections are served (pings, event streams) while PHP runs: see [`Engine`].
//! - No PHP code ever runs inside the runtime: see [`wait`](crate::wait).

mod bound;
mod engine;
pub mod forks;
mod lru_cache;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use bound::{PerProcess, ProcessBound};
pub use engine::{Engine, UnattendedGuard};
pub use lru_cache::LruCache;
use pillion_chat::HttpModel;
use pillion_client::Client;
use pillion_core::tool::ErrorCode;

use crate::exception;
use crate::settings;
use crate::zend::{Result, note_interrupt};

/// Locks a mutex. A poisoned lock is ignored, because a panic while a lock is held leaves a valid
/// value behind.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum time that shutdown waits for clean-up work, such as the end of abandoned calls.
const ABANDONED_WORK_TIMEOUT: Duration = Duration::from_millis(50);

/// The state that belongs to one process. A forked child never drops the state of its parent, but
/// leaks it deliberately, because the drop could wait for threads that do not exist in the child.
struct ProcessState {
    engine: Arc<Engine>,
    models: LruCache<String, HttpModel>,
}

static PROCESS_STATE: PerProcess<ProcessState> = PerProcess::new();

/// Calls `work` with the state of this process, which is created on first use.
fn with_process<R>(work: impl FnOnce(&mut ProcessState) -> R) -> Result<R> {
    let create = || {
        Ok(ProcessState {
            engine: start_engine()?,
            models: LruCache::new(16),
        })
    };
    PROCESS_STATE.with(create, work)
}

fn start_engine() -> Result<Arc<Engine>> {
    Engine::start().map_err(|error| {
        let message = format!("Pillion cannot start its thread: {error}");
        exception::for_code(ErrorCode::Unavailable, message)
    })
}

/// Returns the engine of this process.
///
/// # Errors
/// An `UnavailableException` if the system cannot create threads.
pub fn engine() -> Result<Arc<Engine>> {
    with_process(|process_state| Arc::clone(&process_state.engine))
}

/// Returns the language model with this identity; creates the model on first use. The model's
/// connections stay open from one request to the next.
///
/// # Errors
/// An `UnavailableException` if the system cannot create threads, or the error of `create`.
pub fn language_model(
    identity: &str,
    create: impl FnOnce() -> Result<HttpModel>,
) -> Result<HttpModel> {
    let key = identity.to_owned();
    let cached_model = with_process(|process_state| process_state.models.get(&key).cloned())?;
    if let Some(model) = cached_model {
        return Ok(model);
    }
    let model = create()?;
    with_process(|process_state| process_state.models.add(key, model.clone()))?;
    Ok(model)
}

/// Returns whether the process has started its engine.
pub fn is_running() -> bool {
    PROCESS_STATE.peek(|_| ()).is_some()
}

/// Ends the runtime at module shutdown, without waiting for running work. Calls `close_connections`
/// first, which may drive the engine.
///
/// Closes no connections in two cases: in a forked child, whose parent owns the connections, and if
/// a signal handler that interrupted the runtime ends the process.
pub fn shut_down(close_connections: impl FnOnce(&Arc<Engine>)) {
    if Engine::is_driven_here() {
        return;
    }
    let Some(ProcessState { engine, models }) = PROCESS_STATE.take() else {
        return;
    };
    // A panic is ignored, because the panic hook has already written it to stderr. The connections
    // are closed even after a panic, because they hold references to the engine.
    let _ = catch_unwind(AssertUnwindSafe(|| finish_cleanup(&engine)));
    let _ = catch_unwind(AssertUnwindSafe(|| close_connections(&engine)));
    drop(models);
    engine.stop();
}

/// Waits for the tasks that end abandoned calls or dropped sessions, which may not have run yet.
fn finish_cleanup(engine: &Arc<Engine>) {
    if engine.has_cleanup() {
        let metrics = engine.handle().metrics();
        engine.drive(ABANDONED_WORK_TIMEOUT, async {
            while metrics.num_alive_tasks() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
}

/// Returns the client of the sidecar at `path`, with its persistent connections. Forks need no
/// special handling, because the client detects them.
pub fn sidecar_client(path: &Path, timeout: Duration) -> Arc<Client> {
    type ClientKey = (PathBuf, Duration, Option<u64>);
    static SIDECAR_CLIENTS: Mutex<LruCache<ClientKey, Arc<Client>>> = Mutex::new(LruCache::new(8));
    let max_bytes = settings::max_response_bytes();
    let key = (path.to_owned(), timeout, max_bytes);
    let mut clients = lock(&SIDECAR_CLIENTS);
    if let Some(client) = clients.get(&key) {
        return Arc::clone(client);
    }
    let mut builder = Client::builder(path)
        .timeout(timeout)
        .interrupt_when(note_interrupt);
    if let Some(max_bytes) = max_bytes {
        builder = builder.max_response_bytes(max_bytes);
    }
    let client = Arc::new(builder.build());
    clients.add(key, Arc::clone(&client));
    client
}
