//! The tokio runtime of a process, and the rules that determine which thread drives (polls) the
//! runtime.
//!
//! The PHP thread that waits for a call drives the runtime itself, so that no other thread must
//! wake up to send the request and to receive the response. At other times a background thread
//! drives the runtime, so that sessions stay alive (pings, event streams, calls that PHP does not
//! wait for at the moment). The background thread takes over
//!
//! - after [`WORK_TAKEOVER_TIMEOUT`], if there is work that PHP has started and does not wait for
//!   ([`UnattendedGuard`]), or that was abandoned ([`Engine::schedule_cleanup`]),
//! - after [`IDLE_TAKEOVER_TIMEOUT`] otherwise, so that the next call of a busy process does not
//!   have to interrupt the background thread.

mod signals;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signals::SignalBlock;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::lock;
use crate::zend::has_small_stack;

/// Maximum time after a call during which no thread drives the runtime. After this time, the
/// background thread takes over.
const IDLE_TAKEOVER_TIMEOUT: Duration = Duration::from_millis(50);

/// Maximum time during which no thread drives the runtime although there is work that no PHP thread
/// waits for. After this time, the background thread takes over. The time is not zero, because PHP
/// often waits again immediately.
const WORK_TAKEOVER_TIMEOUT: Duration = Duration::from_millis(2);

/// Maximum time that shutdown waits for the background thread, which may be blocked by other work.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);

/// A tokio runtime, which the PHP threads drive while they wait, and a background thread at other
/// times.
pub struct Engine {
    runtime: Runtime,
    coordinator: Arc<DriverCoordinator>,
}

/// Coordinates the threads that drive the runtime.
struct DriverCoordinator {
    state: Mutex<DriverState>,
    /// Wakes the background thread and the PHP threads that wait for a change of `state`.
    state_condvar: Condvar,
    /// Signals the background thread to end its turn.
    stop_signal: Notify,
}

struct DriverState {
    /// The number of PHP threads that drive the runtime or wait for their turn. Only one thread
    /// drives the runtime at a time.
    driver_count: usize,
    /// The time at which a PHP thread last stopped driving the runtime.
    last_driven_at: Instant,
    /// The number of [`UnattendedGuard`]s. Each marks work that no PHP thread waits for.
    unattended_count: usize,
    /// Whether there is clean-up work for the background thread.
    needs_cleanup: bool,
    is_background_driving: bool,
    /// The time at which the background thread's sleep ends, unless the thread is woken earlier.
    sleep_deadline: Instant,
    is_stopping: bool,
    has_ended: bool,
}

impl Engine {
    /// Creates a runtime and starts the background thread.
    ///
    /// # Errors
    /// An error if the system has no more threads or file descriptors.
    pub fn start() -> io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(4)
            .thread_name("pillion-work")
            .on_thread_start(signals::block_all)
            .on_thread_park(signals::unblock_for_sleep)
            .on_thread_unpark(signals::block_after_sleep)
            .enable_all()
            .build()?;
        let coordinator = Arc::new(DriverCoordinator::new());
        let engine = Arc::new(Self {
            runtime,
            coordinator,
        });
        let background_engine = Arc::clone(&engine);
        signals::with_signals_blocked(|| {
            thread::Builder::new()
                .name("pillion".to_owned())
                .spawn(move || background_engine.run_background_driver())
        })?;
        Ok(engine)
    }

    /// Returns the handle of the runtime, which spawns tasks.
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Drives the runtime on this thread until `future` is ready. Returns `None` if the time limit
    /// passes first. No PHP code may run inside `future`.
    pub fn drive<F: Future>(self: &Arc<Self>, limit: Duration, future: F) -> Option<F::Output> {
        if has_small_stack() {
            let _unattended_guard = UnattendedGuard::new(self);
            return signals::with_signals_blocked(|| {
                self.handle().block_on(with_timeout(limit, future))
            });
        }
        let _driver_guard = self.coordinator.take_turn(limit)?;
        let _signal_block = SignalBlock::new();
        self.runtime.block_on(with_timeout(limit, future))
    }

    /// Returns whether this thread is driving the runtime. Returns `true` only inside a signal
    /// handler that has interrupted [`drive`](Self::drive).
    pub fn is_driven_here() -> bool {
        signals::are_blocked()
    }

    /// Lets the background thread drive the runtime soon, for clean-up work that no PHP thread
    /// waits for, such as the end of an abandoned call.
    pub fn schedule_cleanup(&self) {
        let mut state = self.coordinator.lock();
        state.needs_cleanup = true;
        self.coordinator.wake(state);
    }

    /// Returns whether scheduled clean-up work still waits for the background thread.
    pub fn has_cleanup(&self) -> bool {
        self.coordinator.lock().needs_cleanup
    }

    /// Ends the runtime without waiting for running work.
    pub fn stop(self: Arc<Self>) {
        let coordinator = Arc::clone(&self.coordinator);
        let mut state = coordinator.lock();
        state.is_stopping = true;
        coordinator.stop_signal.notify_one();
        let condvar = &coordinator.state_condvar;
        condvar.notify_all();
        let wait_result = condvar.wait_timeout_while(state, STOP_TIMEOUT, |state| !state.has_ended);
        drop(wait_result);
        self.shut_down_if_last();
    }

    /// Ends the runtime if no other thread uses the engine.
    fn shut_down_if_last(self: Arc<Self>) {
        if let Some(engine) = Arc::into_inner(self) {
            engine.runtime.shutdown_background();
        }
    }

    fn run_background_driver(self: Arc<Self>) {
        while self.coordinator.wait_for_turn() {
            self.runtime
                .block_on(self.coordinator.stop_signal.notified());
        }
        let coordinator = Arc::clone(&self.coordinator);
        self.shut_down_if_last();
        coordinator.lock().has_ended = true;
        coordinator.state_condvar.notify_all();
    }
}

/// Runs a future with a timeout. Unlike tokio's `timeout`, this function can be called outside the
/// runtime.
async fn with_timeout<F: Future>(time_limit: Duration, future: F) -> Option<F::Output> {
    timeout(time_limit, future).await.ok()
}

/// Marks work that PHP does not wait for, until this value is dropped.
pub struct UnattendedGuard(Arc<Engine>);

impl UnattendedGuard {
    /// Creates a guard, and wakes the background thread if it would sleep too long.
    pub fn new(engine: &Arc<Engine>) -> Self {
        let mut state = engine.coordinator.lock();
        state.unattended_count += 1;
        engine.coordinator.wake(state);
        Self(Arc::clone(engine))
    }
}

impl Drop for UnattendedGuard {
    fn drop(&mut self) {
        self.0.coordinator.lock().unattended_count -= 1;
    }
}

impl DriverCoordinator {
    fn new() -> Self {
        let now = Instant::now();
        let state = DriverState {
            driver_count: 0,
            last_driven_at: now,
            unattended_count: 0,
            needs_cleanup: false,
            is_background_driving: false,
            sleep_deadline: now,
            is_stopping: false,
            has_ended: false,
        };
        Self {
            state: Mutex::new(state),
            state_condvar: Condvar::new(),
            stop_signal: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, DriverState> {
        lock(&self.state)
    }

    /// Begins the turn of a PHP thread. Returns `None` if the background thread does not end its
    /// turn within `time_limit`.
    fn take_turn(&self, time_limit: Duration) -> Option<DriverGuard<'_>> {
        let mut state = self.lock();
        state.driver_count += 1;
        if state.is_background_driving {
            self.stop_signal.notify_one();
            let wait_result = self
                .state_condvar
                .wait_timeout_while(state, time_limit, |state| state.is_background_driving);
            state = wait_result.unwrap_or_else(PoisonError::into_inner).0;
            if state.is_background_driving {
                state.driver_count -= 1;
                return None;
            }
        }
        Some(DriverGuard(self))
    }

    /// Wakes the background thread, unless its sleep ends soon enough anyway.
    fn wake(&self, state: MutexGuard<'_, DriverState>) {
        let is_needed_earlier = !state.is_background_driving
            && state.sleep_deadline > Instant::now() + WORK_TAKEOVER_TIMEOUT;
        drop(state);
        if is_needed_earlier {
            self.state_condvar.notify_all();
        }
    }

    /// Sleeps until the background thread is needed. Returns false if the background thread must
    /// end.
    fn wait_for_turn(&self) -> bool {
        let mut state = self.lock();
        if state.is_background_driving {
            state.is_background_driving = false;
            self.state_condvar.notify_all();
        }
        loop {
            if state.is_stopping {
                return false;
            }
            let sleep_time = if state.driver_count > 0 {
                IDLE_TAKEOVER_TIMEOUT
            } else {
                let has_background_work = state.unattended_count > 0 || state.needs_cleanup;
                let timeout = if has_background_work {
                    WORK_TAKEOVER_TIMEOUT
                } else {
                    IDLE_TAKEOVER_TIMEOUT
                };
                timeout.saturating_sub(state.last_driven_at.elapsed())
            };
            if sleep_time.is_zero() {
                break;
            }
            state.sleep_deadline = Instant::now() + sleep_time;
            let wait_result = self.state_condvar.wait_timeout(state, sleep_time);
            state = wait_result.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.needs_cleanup = false;
        state.is_background_driving = true;
        true
    }
}

/// The turn of a PHP thread, which drives the runtime until this value is dropped.
struct DriverGuard<'a>(&'a DriverCoordinator);

impl Drop for DriverGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.driver_count -= 1;
        state.last_driven_at = Instant::now();
    }
}
