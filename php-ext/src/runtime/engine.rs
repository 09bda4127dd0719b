//! The tokio runtime of a process, and the choice of the thread that drives it.
//!
//! The PHP thread that waits for a call drives the runtime itself, so that no other thread must
//! wake up to send the request and to receive the response. At other times a background thread, the
//! stand-in, drives it, so that sessions stay alive (pings, event streams, calls that PHP does not
//! wait for at the moment). The stand-in takes over
//!
//! - after [`GRACE`], if there is work that PHP has started and does not wait for ([`Unattended`]),
//!   or that was left behind ([`Engine::clear_up`]),
//! - after [`REST`] otherwise, so that the next call of a busy process need not relieve the
//!   stand-in.

mod signals;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signals::Deferred;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::zend::has_small_stack;

/// Maximum time without a driving thread after a call.
const REST: Duration = Duration::from_millis(50);

/// Maximum time without a driving thread although there is work. It is not zero, because PHP often
/// returns immediately.
const GRACE: Duration = Duration::from_millis(2);

/// Maximum time that shutdown waits for the stand-in, which may be blocked by other work.
const FAREWELL: Duration = Duration::from_millis(100);

/// A runtime that the PHP threads drive, and the thread that stands in for them.
pub struct Engine {
    runtime: Runtime,
    shift: Arc<Shift>,
}

/// The coordination of the threads that drive the runtime.
struct Shift {
    state: Mutex<State>,
    /// Signals that the stand-in has something to check, or has left.
    changed: Condvar,
    /// Ends the stand-in's turn.
    relief: Notify,
}

struct State {
    /// The number of PHP threads that drive or wait for their turn. Only one drives at a time.
    drivers: usize,
    /// When the last of them left.
    left: Instant,
    /// The amount of work that no PHP thread waits for.
    unattended: usize,
    /// Whether there is clean-up work to do once.
    untidy: bool,
    standing_in: bool,
    /// The end of the stand-in's rest, unless it is woken up earlier.
    rests_until: Instant,
    stopping: bool,
    gone: bool,
}

impl Engine {
    /// Creates a runtime and starts the stand-in thread.
    ///
    /// # Errors
    /// An error if the system has no more threads or file descriptors.
    pub fn start() -> io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(4)
            .thread_name("pillion-work")
            .on_thread_start(signals::take_none)
            .on_thread_park(signals::let_through)
            .on_thread_unpark(signals::hold_back)
            .enable_all()
            .build()?;
        let shift = Arc::new(Shift::new());
        let engine = Arc::new(Self { runtime, shift });
        let stand_in = Arc::clone(&engine);
        signals::without(|| {
            thread::Builder::new()
                .name("pillion".to_owned())
                .spawn(move || stand_in.stand_in())
        })?;
        Ok(engine)
    }

    /// Returns the handle that spawns work.
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Drives the runtime on this thread until `future` is ready, or returns `None` after the time
    /// limit. No PHP code may run inside it.
    pub fn drive<F: Future>(self: &Arc<Self>, time: Duration, future: F) -> Option<F::Output> {
        if has_small_stack() {
            let _unattended = Unattended::new(self);
            return signals::without(|| self.handle().block_on(within(time, future)));
        }
        let _turn = self.shift.take_turn(time)?;
        let _signals = Deferred::new();
        self.runtime.block_on(within(time, future))
    }

    /// Returns whether this thread is currently driving and was interrupted by a signal.
    pub fn is_driven_here() -> bool {
        signals::are_deferred()
    }

    /// Announces work that nothing waits for, such as the end of an abandoned call.
    pub fn clear_up(&self) {
        let mut state = self.shift.lock();
        state.untidy = true;
        self.shift.wake(state);
    }

    /// Returns whether such work is still pending.
    pub fn is_untidy(&self) -> bool {
        self.shift.lock().untidy
    }

    /// Ends the runtime without waiting for running work.
    pub fn stop(self: Arc<Self>) {
        let shift = Arc::clone(&self.shift);
        let mut state = shift.lock();
        state.stopping = true;
        shift.relief.notify_one();
        shift.changed.notify_all();
        let waited = shift
            .changed
            .wait_timeout_while(state, FAREWELL, |state| !state.gone);
        drop(waited);
        self.leave();
    }

    /// Ends the runtime if this is the last thread to leave.
    fn leave(self: Arc<Self>) {
        if let Some(engine) = Arc::into_inner(self) {
            engine.runtime.shutdown_background();
        }
    }

    fn stand_in(self: Arc<Self>) {
        while self.shift.await_turn() {
            self.runtime.block_on(self.shift.relief.notified());
        }
        let shift = Arc::clone(&self.shift);
        self.leave();
        shift.lock().gone = true;
        shift.changed.notify_all();
    }
}

/// Unlike tokio's `timeout`, this function can be called outside the runtime.
async fn within<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    timeout(time, future).await.ok()
}

/// Marks work that PHP does not wait for at the moment, as long as this value lives.
pub struct Unattended(Arc<Engine>);

impl Unattended {
    /// Adds one unit of unattended work.
    pub fn new(engine: &Arc<Engine>) -> Self {
        let mut state = engine.shift.lock();
        state.unattended += 1;
        engine.shift.wake(state);
        Self(Arc::clone(engine))
    }
}

impl Drop for Unattended {
    fn drop(&mut self) {
        self.0.shift.lock().unattended -= 1;
    }
}

impl Shift {
    fn new() -> Self {
        let now = Instant::now();
        let state = State {
            drivers: 0,
            left: now,
            unattended: 0,
            untidy: false,
            standing_in: false,
            rests_until: now,
            stopping: false,
            gone: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            relief: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held leaves a valid value behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a turn of PHP's thread. Returns `None` if the stand-in cannot leave its work within
    /// `patience`.
    fn take_turn(&self, patience: Duration) -> Option<Turn<'_>> {
        let mut state = self.lock();
        state.drivers += 1;
        if state.standing_in {
            self.relief.notify_one();
            let waited = self
                .changed
                .wait_timeout_while(state, patience, |state| state.standing_in);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.standing_in {
                state.drivers -= 1;
                return None;
            }
        }
        Some(Turn(self))
    }

    /// Wakes up the stand-in, unless its rest ends soon enough anyway.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let is_late = !state.standing_in && state.rests_until > Instant::now() + GRACE;
        drop(state);
        if is_late {
            self.changed.notify_all();
        }
    }

    /// Rests until the stand-in is needed. Returns false if it must end.
    fn await_turn(&self) -> bool {
        let mut state = self.lock();
        if state.standing_in {
            state.standing_in = false;
            self.changed.notify_all();
        }
        loop {
            if state.stopping {
                return false;
            }
            let rest = if state.drivers > 0 {
                REST
            } else {
                let is_needed = state.unattended > 0 || state.untidy;
                let whole = if is_needed { GRACE } else { REST };
                whole.saturating_sub(state.left.elapsed())
            };
            if rest.is_zero() {
                break;
            }
            state.rests_until = Instant::now() + rest;
            let woken = self.changed.wait_timeout(state, rest);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.untidy = false;
        state.standing_in = true;
        true
    }
}

/// A PHP thread drives as long as this value lives.
struct Turn<'a>(&'a Shift);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.drivers -= 1;
        state.left = Instant::now();
    }
}
