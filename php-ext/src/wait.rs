//! How a PHP thread waits for the engine.
//!
//! The work runs on the runtime's thread; the PHP thread sleeps on a channel, in slices of
//! 20 ms. Between slices, and outside the runtime, it does what the engine does between
//! opcodes (signal handlers, `max_execution_time`), looks whether the client of the request
//! is still there, and runs the PHP functions that tools ask for. However the wait ends, the
//! work ends with it; a panic in it becomes an `Error`.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use futures_util::FutureExt;
use pillion_core::tool::{JsonObject, ToolFailure, ToolOutput};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::runtime::{self, Bound};
use crate::zend::{Failure, check_interrupt};

/// How long a signal may go unnoticed.
const SLICE: Duration = Duration::from_millis(20);

/// A tool that is a PHP function asks the PHP thread to run it.
pub struct Job {
    /// The tool's own name.
    pub tool: String,
    /// The arguments, validated.
    pub arguments: JsonObject,
    /// The id of the call.
    pub call_id: String,
    /// Bound, because a forked child must not wake the parent's task: that takes locks
    /// which another thread of the parent may have held at the fork.
    reply: Bound<oneshot::Sender<Result<ToolOutput, ToolFailure>>>,
}

impl Job {
    /// A request, and where its answer will come.
    pub fn new(
        tool: String,
        arguments: JsonObject,
        call_id: String,
    ) -> (Self, oneshot::Receiver<Result<ToolOutput, ToolFailure>>) {
        let (reply, answer) = oneshot::channel();
        (
            Self {
                tool,
                arguments,
                call_id,
                reply: Bound::new(reply),
            },
            answer,
        )
    }

    /// Whether nobody waits for the answer any more: the deadline has passed.
    pub fn is_abandoned(&self) -> bool {
        self.reply.get().is_none_or(oneshot::Sender::is_closed)
    }

    /// Answers. An answer that comes too late is dropped, as is that of a forked child.
    pub fn answer(self, outcome: Result<ToolOutput, ToolFailure>) {
        if let Some(reply) = self.reply.into_inner() {
            let _ = reply.send(outcome);
        }
    }
}

/// Hands jobs to the PHP thread that waits; it can be cloned and used from any thread.
pub type JobSender = Arc<dyn Fn(Job) + Send + Sync>;

enum Event<T> {
    Job(Job),
    Done(T),
    /// With what it said.
    Panicked(String),
}

/// Runs `work` on the runtime and waits for it.
///
/// # Errors
/// What a signal handler threw, the end of the request, or that the work panicked.
pub fn wait<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    wait_serving(|_| work, |_| Ok(()))
}

/// As [`wait`], for work that can send [`Job`]s, which `serve` answers on this thread.
///
/// # Errors
/// As [`wait`], and what `serve` fails with.
pub fn wait_serving<T, W>(
    work: impl FnOnce(JobSender) -> W,
    serve: impl Fn(Job) -> Result<(), Failure>,
) -> Result<T, Failure>
where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let (events, inbox) = mpsc::channel();
    let jobs = events.clone();
    let work = work(Arc::new(move |job| {
        // When nobody listens the job is dropped, and with it the place for its answer.
        let _ = jobs.send(Event::Job(job));
    }));
    let _task = Bound::new(AbortOnDrop(runtime::handle()?.spawn(async move {
        let ended = match AssertUnwindSafe(work).catch_unwind().await {
            Ok(value) => Event::Done(value),
            Err(panic) => Event::Panicked(message_of(&*panic)),
        };
        let _ = events.send(ended);
    })));
    // Bound, because what the runtime's thread was doing with it at a fork stays half done.
    let inbox = Bound::new(inbox);
    loop {
        let Some(open) = inbox.get() else {
            return Err(Failure::error(
                "Pillion: the process was forked inside a tool; only the parent goes on with the call",
            ));
        };
        match open.recv_timeout(SLICE) {
            Ok(Event::Done(value)) => return Ok(value),
            Ok(Event::Job(job)) => serve(job)?,
            Ok(Event::Panicked(message)) => {
                return Err(Failure::error(format!(
                    "Pillion: internal error: {message}"
                )));
            }
            Err(RecvTimeoutError::Timeout) => check_interrupt()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::error("Pillion: the work ended unexpectedly"));
            }
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".to_owned())
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
