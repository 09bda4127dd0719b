//! The tokio runtime of a process, and which thread drives it.
//!
//! The thread of PHP that waits for a call drives the runtime itself: no other thread has to
//! wake up for the request to leave and for the answer to come. At other times a thread of
//! our own stands in, so that sessions live on (pings, event streams, calls that PHP does not
//! wait for at the moment). It takes over
//!
//! - at once, when there is work that PHP has started and does not wait for ([`Unattended`]),
//!   or that something has left behind ([`Engine::clear_up`]),
//! - after [`REST`] otherwise: the next call of a busy process finds nobody to relieve.
//!
//! PHP's signal handlers must run on PHP's threads: `pcntl` and the timer behind
//! `max_execution_time` write to the globals of the engine. So our threads take no signals.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

/// How long nobody drives after a call, unless there is work.
const REST: Duration = Duration::from_millis(50);

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
    /// Wakes the stand-in while it rests, and who waits for its end.
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
    /// The stand-in rests until it is woken.
    asleep: bool,
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
            .on_thread_start(|| {
                let _ = SigSet::all().thread_block();
            })
            .enable_all()
            .build()?;
        let shift = Arc::new(Shift::new());
        let engine = Arc::new(Self { runtime, shift });
        let stand_in = Arc::clone(&engine);
        // A thread is born with the mask of its maker.
        let _signals = Deferred::new(&SigSet::all());
        thread::Builder::new()
            .name("pillion".to_owned())
            .spawn(move || stand_in.stand_in())?;
        Ok(engine)
    }

    /// Where work can be spawned.
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Drives the runtime on this thread until `future` is ready. No PHP code may run in it.
    pub fn drive<F: Future>(&self, future: F) -> F::Output {
        let _signals = Deferred::new(&all_but_those_that_end_a_process());
        let _turn = self.shift.take_turn();
        self.runtime.block_on(future)
    }

    /// Says that there is something to do which nobody waits for, such as the end of a call
    /// that was given up.
    pub fn clear_up(&self) {
        self.shift.lock().untidy = true;
        self.shift.changed.notify_all();
    }

    /// Ends the runtime, without waiting for work that is under way.
    pub fn stop(self: Arc<Self>) {
        let shift = Arc::clone(&self.shift);
        let mut state = shift.lock();
        state.stopping = true;
        shift.relief.notify_one();
        shift.changed.notify_all();
        let outcome = shift
            .changed
            .wait_timeout_while(state, FAREWELL, |state| !state.gone);
        drop(outcome);
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

/// Work that PHP does not wait for at the moment, for as long as it lives.
pub struct Unattended(Arc<Engine>);

impl Unattended {
    /// More of it.
    pub fn new(engine: &Arc<Engine>) -> Self {
        engine.shift.lock().unattended += 1;
        engine.shift.changed.notify_all();
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
        let state = State {
            drivers: 0,
            left: Instant::now(),
            unattended: 0,
            untidy: false,
            standing_in: false,
            asleep: false,
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

    /// A turn of PHP's.
    fn take_turn(&self) -> Turn<'_> {
        let mut state = self.lock();
        state.drivers += 1;
        state.untidy = false;
        if state.standing_in {
            self.relief.notify_one();
        }
        Turn(self)
    }

    /// Rests until the stand-in is needed; false when it is not any more.
    fn await_turn(&self) -> bool {
        let mut state = self.lock();
        state.standing_in = false;
        loop {
            if state.stopping {
                return false;
            }
            let rest = if state.drivers > 0 {
                None
            } else if state.unattended > 0 || state.untidy {
                Some(Duration::ZERO)
            } else {
                Some(REST.saturating_sub(state.left.elapsed()))
            };
            state = match rest {
                Some(Duration::ZERO) => break,
                Some(rest) => {
                    let woken = self.changed.wait_timeout(state, rest);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    state.asleep = true;
                    let woken = self.changed.wait(state);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
            };
            state.asleep = false;
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
        if state.asleep {
            self.0.changed.notify_all();
        }
    }
}

/// While it lives, signals of this thread wait, and no thread that tokio starts on it has
/// room for one in its first moment.
struct Deferred(Option<SigSet>);

impl Deferred {
    fn new(signals: &SigSet) -> Self {
        // Without it a signal handler runs on the wrong thread now and then; there is nothing
        // better to do about a failure here.
        Self(signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok())
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = before.thread_set_mask();
        }
    }
}

/// Work that blocks must not make a process one that cannot be ended.
fn all_but_those_that_end_a_process() -> SigSet {
    let mut signals = SigSet::all();
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGHUP,
    ] {
        signals.remove(signal);
    }
    signals
}
