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
use crate::host::Host;
use crate::http::RunRequests;
use crate::permissions::ToolPermissions;
use crate::quota;
use crate::sandbox::error_chain;
use crate::settings::Limits;

/// The limits and resources of a run of a component.
#[derive(Clone)]
pub(crate) struct RunConditions {
    pub(crate) limits: Limits,
    pub(crate) permissions: Arc<ToolPermissions>,
    pub(crate) http_client: Arc<LazyHttpClient>,
}

/// The resources that a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunUsage {
    pub(crate) fuel: u64,
    pub(crate) memory_bytes: usize,
}

/// Why a run of a component failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum RunFault {
    #[error("timed out after {seconds:?}s")]
    Time { seconds: f64 },
    #[error("exceeded its fuel limit of {0}")]
    Fuel(u64),
    #[error("exceeded its memory limit of {0} bytes")]
    Memory(usize),
    #[error("exceeded its call stack")]
    Stack,
    #[error("passed more than {0} bytes at once to the host")]
    Output(usize),
    #[error("returned a string that is not valid UTF-8")]
    Text,
    #[error("cannot be started: {0}")]
    Folder(String),
    #[error("cannot be called: its folder '{guest}' contains more than {max_bytes} bytes")]
    Full { guest: String, max_bytes: u64 },
    #[error("failed: {0}")]
    Trap(String),
    #[error("failed unexpectedly")]
    Lost,
}

/// Interval between interruptions of a run that has to stop.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

/// Stops a run of a component when the run's future is dropped.
struct StopOnDrop {
    token: CancellationToken,
    engine: Engine,
    /// The handle of the run's thread, which tells whether the run has finished.
    run: AbortHandle,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.token.cancel();
        let (engine, run) = (self.engine.clone(), self.run.clone());
        if run.is_finished() {
            return;
        }
        // The new epoch interrupts all running components; all except the stopped one continue.
        engine.increment_epoch();
        // An interruption that falls between a run's check of its token and its next deadline is
        // lost, so interruptions are repeated.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                while !run.is_finished() {
                    sleep(INTERRUPT_INTERVAL).await;
                    engine.increment_epoch();
                }
            });
        }
    }
}

/// Runs `entry` with a new instance of the component, on a thread for blocking work. Dropping the
/// future ends the run.
///
/// # Errors
/// The run exceeded a limit or failed.
pub(crate) async fn run<T, F>(
    pre: ToolPre<Host>,
    conditions: RunConditions,
    entry: F,
) -> Result<(T, RunUsage), RunFault>
where
    F: AsyncFnOnce(&Tool, &mut Store<Host>) -> wasmtime::Result<T> + Send + 'static,
    T: Send + 'static,
{
    let (stopped_by, engine) = (CancellationToken::new(), pre.engine().clone());
    let token = stopped_by.clone();
    let run_timeout = conditions.limits.timeout();
    let timed_out = RunFault::Time {
        seconds: run_timeout.as_secs_f64(),
    };
    let runtime = Handle::current();
    let stop_fault = timed_out.clone();
    let run = spawn_blocking(move || {
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = token.cancelled() => Err(stop_fault),
                result = run_in_store(&pre, &conditions, &token, entry) => result,
            }
        })
    });
    let stop = StopOnDrop {
        token: stopped_by,
        engine,
        run: run.abort_handle(),
    };
    let outcome = timeout(run_timeout, run).await;
    drop(stop);
    match outcome {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(RunFault::Lost),
        Err(_) => Err(timed_out),
    }
}

async fn run_in_store<T, F>(
    pre: &ToolPre<Host>,
    conditions: &RunConditions,
    token: &CancellationToken,
    entry: F,
) -> Result<(T, RunUsage), RunFault>
where
    F: AsyncFnOnce(&Tool, &mut Store<Host>) -> wasmtime::Result<T>,
{
    let limits = &conditions.limits;
    let requests = RunRequests::new(
        Arc::clone(&conditions.http_client),
        conditions.permissions.origins.clone(),
        limits,
    );
    let host = Host::new(limits, &conditions.permissions, requests).map_err(RunFault::Folder)?;
    let is_cancelled = || token.is_cancelled();
    for folder in conditions.permissions.writable() {
        let (guest, max_bytes) = (&folder.guest, limits.max_folder_bytes);
        match quota::is_larger(folder.path(), max_bytes, is_cancelled) {
            Ok(false) => {}
            Ok(true) => {
                let guest = guest.clone();
                return Err(RunFault::Full { guest, max_bytes });
            }
            Err(error) => {
                return Err(RunFault::Folder(format!(
                    "cannot read the folder for '{guest}': {error}"
                )));
            }
        }
    }
    let mut store = Store::new(pre.engine(), host);
    store.limiter(|host| &mut host.memory);
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
        // The run can be interrupted from now on; it may have been stopped before.
        if token.is_cancelled() {
            return Err(Trap::Interrupt.into());
        }
        store.set_fuel(limits.max_fuel)?;
        let tool = pre.instantiate_async(&mut store).await?;
        entry(&tool, &mut store).await
    }
    .await;
    let usage = RunUsage {
        fuel: limits.max_fuel - store.get_fuel().unwrap_or_default(),
        memory_bytes: store.data().memory.used(),
    };
    result.map(|output| (output, usage)).map_err(|error| {
        let stderr = store.data().stderr.text();
        tracing::debug!(error = error_chain(&error), stderr = ?stderr, "A sandboxed tool failed");
        classify_fault(&error, store.data(), limits)
    })
}

fn classify_fault(error: &wasmtime::Error, host: &Host, limits: &Limits) -> RunFault {
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return RunFault::Fuel(limits.max_fuel),
        Some(Trap::StackOverflow) => return RunFault::Stack,
        Some(Trap::Interrupt) => {
            let seconds = limits.timeout().as_secs_f64();
            return RunFault::Time { seconds };
        }
        _ => {}
    }
    // A component whose allocation was rejected may fail in any way, so the error names the memory
    // limit.
    if host.memory.has_rejected {
        return RunFault::Memory(limits.max_memory_bytes);
    }
    if error.is::<Utf8Error>() {
        return RunFault::Text;
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return RunFault::Trap(format!("it exited with status {}", exit.0));
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return RunFault::Trap(trap.to_string());
    }
    let root = error.root_cause().to_string();
    if root.contains("fuel allocated for hostcalls") {
        RunFault::Output(limits.max_output_bytes)
    } else {
        RunFault::Trap(error_chain(error))
    }
}

impl RunFault {
    /// Returns the name of the limit that the run exceeded, if any.
    fn limit(&self) -> Option<&'static str> {
        match self {
            Self::Time { .. } => Some("time"),
            Self::Fuel(_) => Some("fuel"),
            Self::Memory(_) => Some("memory"),
            Self::Stack => Some("stack"),
            Self::Output(_) => Some("output"),
            Self::Full { .. } => Some("folder"),
            Self::Text | Self::Folder(_) | Self::Trap(_) | Self::Lost => None,
        }
    }

    /// Converts the error to the failure of a call, with the name of the exceeded limit as
    /// `metadata.limit`.
    pub(crate) fn failure(&self, name: &str) -> ToolFailure {
        let code = match self {
            Self::Time { .. } => ErrorCode::Timeout,
            Self::Folder(_) | Self::Full { .. } => ErrorCode::Unavailable,
            _ => ErrorCode::InternalError,
        };
        let failure = ToolFailure::new(code, format!("Tool '{name}' {self}"));
        match self.limit() {
            Some(limit) => failure.with_metadata("limit", limit.into()),
            None => failure,
        }
    }
}
