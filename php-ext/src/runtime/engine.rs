//! The tokio runtime of a process, and which thread drives it.
//!
//! The thread of PHP that waits for a call drives the runtime itself: no other thread has to
//! wake up for the request to leave and for the answer to come. At other times a thread of
//! our own stands in, so that sessions live on (pings, event streams, calls that PHP does not
//! wait for at the moment). It takes over
//!
//! - after [`GRACE`], when there is work that PHP has started and does not wait for
//!   ([`Unattended`]), or that something has left behind ([`Engine::clear_up`]),
//! - after [`REST`] otherwise: the next call of a busy process finds nobody to relieve.

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

/// How long nobody drives after a call.
const REST: Duration = Duration::from_millis(50);

/// How long nobody drives although there is work: PHP is often back at once.
const GRACE: Duration = Duration::from_millis(2);

/// How long the end waits for the stand-in, which something else's blocking may hold up.
const FAREWELL: Duration = Duration::from_millis(100);

/// A runtime that the threads of PHP drive, and one that stands in for them.
pub struct Engine {
    runtime: Runtime,
    shift: Arc<Shift>,
}

/// Whose turn it is.
struct Shift {
    state: Mutex<State>,
    /// The stand-in has something to look at, or has left.
    changed: Condvar,
    /// Ends the turn of the stand-in.
    relief: Notify,
}

struct State {
    /// The threads of PHP that drive, or wait for their turn; one at a time does.
    drivers: usize,
    /// When the last of them left.
    left: Instant,
    /// How much work there is that no thread of PHP waits for.
    unattended: usize,
    /// There is something to do, once.
    untidy: bool,
    standing_in: bool,
    /// Until when the stand-in rests, if nobody wakes it.
    rests_until: Instant,
    stopping: bool,
    gone: bool,
}

impl Engine {
    /// Makes a runtime and starts the thread that stands in.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
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

    /// Where work can be spawned.
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Drives the runtime on this thread until `future` is ready or the time is over, which
    /// is `None`. No PHP code may run in it.
    pub fn drive<F: Future>(self: &Arc<Self>, time: Duration, future: F) -> Option<F::Output> {
        if has_small_stack() {
            let _unattended = Unattended::new(self);
            return signals::without(|| self.handle().block_on(within(time, future)));
        }
        let _turn = self.shift.take_turn(time)?;
        let _signals = Deferred::new();
        self.runtime.block_on(within(time, future))
    }

    /// Whether this thread is driving at this moment, and was interrupted by a signal.
    pub fn is_driven_here() -> bool {
        signals::are_deferred()
    }

    /// Says that there is something to do which nobody waits for, such as the end of a call
    /// that was given up.
    pub fn clear_up(&self) {
        let mut state = self.shift.lock();
        state.untidy = true;
        self.shift.wake(state);
    }

    /// Whether there is such a thing that nobody has seen to yet.
    pub fn is_untidy(&self) -> bool {
        self.shift.lock().untidy
    }

    /// Ends the runtime, without waiting for work that is under way.
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

    /// The last one to leave ends the runtime.
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

/// May be made outside of the runtime, unlike tokio's `timeout`.
async fn within<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    timeout(time, future).await.ok()
}

/// Work that PHP does not wait for at the moment, for as long as it lives.
pub struct Unattended(Arc<Engine>);

impl Unattended {
    /// More of it.
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

    /// A turn of PHP's; none if the stand-in cannot leave what it is doing in that time.
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

    /// Wakes the stand-in, unless it looks soon enough anyway.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let is_late = !state.standing_in && state.rests_until > Instant::now() + GRACE;
        drop(state);
        if is_late {
            self.changed.notify_all();
        }
    }

    /// Rests until the stand-in is needed; false when it is not any more.
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

/// While it lives, a thread of PHP drives.
struct Turn<'a>(&'a Shift);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.drivers -= 1;
        state.left = Instant::now();
    }
}
