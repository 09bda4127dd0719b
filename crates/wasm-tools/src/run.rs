use std::str::Utf8Error;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::tool::{ErrorCode, ToolFailure};
use pillion_egress::LazyHttpClient;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use wasmtime::{Engine, Store, Trap, UpdateDeadline};
use wasmtime_wasi::I32Exit;

use crate::bindings::{Tool, ToolPre};
use crate::host::HostState;
use crate::http::RunRequests;
use crate::permissions::ToolPermissions;
use crate::quota;
use crate::sandbox::format_error_chain;
use crate::settings::Limits;

/// The limits and resources of a run of a component.
#[derive(Clone)]
pub(crate) struct RunConditions {
    pub(crate) limits: Limits,
    pub(crate) permissions: Arc<ToolPermissions>,
    pub(crate) http_client: Arc<LazyHttpClient>,
}

/// The amounts of fuel and memory that a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunUsage {
    pub(crate) fuel: u64,
    pub(crate) memory_bytes: usize,
}

/// The reason why a run of a component failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum RunFault {
    #[error("timed out after {seconds:?}s")]
    Timeout { seconds: f64 },
    #[error("exceeded its fuel limit of {0}")]
    FuelLimit(u64),
    #[error("exceeded its memory limit of {0} bytes")]
    MemoryLimit(usize),
    #[error("exceeded its call stack")]
    CallStackLimit,
    #[error("passed more than {0} bytes at once to the host")]
    OutputLimit(usize),
    #[error("returned a string that is not valid UTF-8")]
    InvalidText,
    #[error("cannot be started: {0}")]
    Folder(String),
    #[error("cannot be called: its folder '{guest_path}' contains more than {max_bytes} bytes")]
    FolderFull { guest_path: String, max_bytes: u64 },
    #[error("failed: {0}")]
    Trap(String),
    #[error("ended without a result: its thread panicked or was cancelled")]
    NoResult,
}

/// Interval between two attempts to interrupt a run that has to stop.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

/// Stops a run of a component when the run's future is dropped.
struct StopOnDrop {
    token: CancellationToken,
    engine: Engine,
    /// The handle of the run's thread, which tells whether the run has finished.
    run_handle: AbortHandle,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.token.cancel();
        let (engine, run_handle) = (self.engine.clone(), self.run_handle.clone());
        if run_handle.is_finished() {
            return;
        }
        // Increments the epoch, which interrupts all running components. Only the component that
        // has to stop ends; all other components continue.
        engine.increment_epoch();
        // Repeats the interruption, because an interruption is lost if it occurs after a run has
        // checked its token and before the run has set its next deadline.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                while !run_handle.is_finished() {
                    sleep(INTERRUPT_INTERVAL).await;
                    engine.increment_epoch();
                }
            });
        }
    }
}

/// Runs `entry_point` with a new instance of the component, on a thread for blocking work. Dropping
/// the future ends the run.
///
/// # Errors
/// The run exceeded a limit or failed.
pub(crate) async fn run<T, F>(
    tool_pre: ToolPre<HostState>,
    conditions: RunConditions,
    entry_point: F,
) -> Result<(T, RunUsage), RunFault>
where
    F: AsyncFnOnce(&Tool, &mut Store<HostState>) -> wasmtime::Result<T> + Send + 'static,
    T: Send + 'static,
{
    let (stop_token, engine) = (CancellationToken::new(), tool_pre.engine().clone());
    let token = stop_token.clone();
    let run_timeout = conditions.limits.timeout();
    let timeout_fault = RunFault::Timeout {
        seconds: run_timeout.as_secs_f64(),
    };
    let runtime = Handle::current();
    let stop_fault = timeout_fault.clone();
    let run_task = spawn_blocking(move || {
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = token.cancelled() => Err(stop_fault),
                result = run_in_store(&tool_pre, &conditions, &token, entry_point) => result,
            }
        })
    });
    let stop_guard = StopOnDrop {
        token: stop_token,
        engine,
        run_handle: run_task.abort_handle(),
    };
    let outcome = timeout(run_timeout, run_task).await;
    drop(stop_guard);
    match outcome {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(RunFault::NoResult),
        Err(_) => Err(timeout_fault),
    }
}

async fn run_in_store<T, F>(
    tool_pre: &ToolPre<HostState>,
    conditions: &RunConditions,
    token: &CancellationToken,
    entry_point: F,
) -> Result<(T, RunUsage), RunFault>
where
    F: AsyncFnOnce(&Tool, &mut Store<HostState>) -> wasmtime::Result<T>,
{
    let limits = &conditions.limits;
    let requests = RunRequests::new(
        Arc::clone(&conditions.http_client),
        conditions.permissions.origins.clone(),
        limits,
    );
    let host =
        HostState::new(limits, &conditions.permissions, requests).map_err(RunFault::Folder)?;
    let is_cancelled = || token.is_cancelled();
    for folder in conditions.permissions.writable_folders() {
        let (guest_path, max_bytes) = (&folder.guest_path, limits.max_folder_bytes);
        match quota::is_larger(folder.host_path(), max_bytes, is_cancelled) {
            Ok(false) => {}
            Ok(true) => {
                let guest_path = guest_path.clone();
                return Err(RunFault::FolderFull {
                    guest_path,
                    max_bytes,
                });
            }
            Err(error) => {
                return Err(RunFault::Folder(format!(
                    "cannot read the folder for '{guest_path}': {error}"
                )));
            }
        }
    }
    let mut store = Store::new(tool_pre.engine(), host);
    store.limiter(|host| &mut host.memory_limit);
    store.set_hostcall_fuel(limits.max_output_bytes);
    let epoch_token = token.clone();
    store.epoch_deadline_callback(move |_| {
        if epoch_token.is_cancelled() {
            return Err(Trap::Interrupt.into());
        }
        Ok(UpdateDeadline::Continue(1))
    });
    store.set_epoch_deadline(1);
    let result = async {
        // Checks the token, because a stop before `set_epoch_deadline` does not interrupt the run.
        if token.is_cancelled() {
            return Err(Trap::Interrupt.into());
        }
        store.set_fuel(limits.max_fuel)?;
        let tool = tool_pre.instantiate_async(&mut store).await?;
        entry_point(&tool, &mut store).await
    }
    .await;
    let usage = RunUsage {
        fuel: limits.max_fuel - store.get_fuel().unwrap_or_default(),
        memory_bytes: store.data().memory_limit.used_bytes(),
    };
    result.map(|output| (output, usage)).map_err(|error| {
        let stderr = store.data().stderr.text();
        let error_chain = format_error_chain(&error);
        tracing::debug!(error = error_chain, stderr = ?stderr, "A sandboxed tool failed");
        classify_fault(&error, store.data(), limits)
    })
}

fn classify_fault(error: &wasmtime::Error, host: &HostState, limits: &Limits) -> RunFault {
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return RunFault::FuelLimit(limits.max_fuel),
        Some(Trap::StackOverflow) => return RunFault::CallStackLimit,
        Some(Trap::Interrupt) => {
            let seconds = limits.timeout().as_secs_f64();
            return RunFault::Timeout { seconds };
        }
        _ => {}
    }
    // A component whose allocation was rejected may fail in any way, so the error names the memory
    // limit.
    if host.memory_limit.has_rejected_growth {
        return RunFault::MemoryLimit(limits.max_memory_bytes);
    }
    if error.is::<Utf8Error>() {
        return RunFault::InvalidText;
    }
    if let Some(exit_error) = error.downcast_ref::<I32Exit>() {
        return RunFault::Trap(format!("exited with status {}", exit_error.0));
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return RunFault::Trap(trap.to_string());
    }
    let root_cause = error.root_cause().to_string();
    if root_cause.contains("fuel allocated for hostcalls") {
        RunFault::OutputLimit(limits.max_output_bytes)
    } else {
        RunFault::Trap(format_error_chain(error))
    }
}

impl RunFault {
    /// Returns the name of the limit that the run exceeded; `None` if the run failed for another
    /// reason.
    fn exceeded_limit(&self) -> Option<&'static str> {
        match self {
            Self::Timeout { .. } => Some("time"),
            Self::FuelLimit(_) => Some("fuel"),
            Self::MemoryLimit(_) => Some("memory"),
            Self::CallStackLimit => Some("stack"),
            Self::OutputLimit(_) => Some("output"),
            Self::FolderFull { .. } => Some("folder"),
            Self::InvalidText | Self::Folder(_) | Self::Trap(_) | Self::NoResult => None,
        }
    }

    /// Converts the error to the failure of a call, with the name of the exceeded limit as
    /// `metadata.limit`.
    pub(crate) fn to_failure(&self, name: &str) -> ToolFailure {
        let code = match self {
            Self::Timeout { .. } => ErrorCode::Timeout,
            Self::Folder(_) | Self::FolderFull { .. } => ErrorCode::Unavailable,
            _ => ErrorCode::InternalError,
        };
        let failure = ToolFailure::new(code, format!("Tool '{name}' {self}"));
        match self.exceeded_limit() {
            Some(limit) => failure.with_metadata("limit", limit.into()),
            None => failure,
        }
    }
}
