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
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::runtime::{self, Bound};
use crate::zend::{Failure, check_interrupt};

/// How long a signal may go unnoticed.
const SLICE: Duration = Duration::from_millis(20);

/// The way back for an answer. It is bound to the process, because a forked child must not
/// wake the parent's task: that takes locks which another thread of the parent may have held
/// at the fork.
pub struct Reply<A>(Bound<oneshot::Sender<A>>);

impl<A> Reply<A> {
    /// The way, and its end.
    pub fn new() -> (Self, oneshot::Receiver<A>) {
        let (reply, answer) = oneshot::channel();
        (Self(Bound::new(reply)), answer)
    }

    /// Whether nobody waits for the answer any more: the deadline has passed.
    pub fn is_abandoned(&self) -> bool {
        self.0.get().is_none_or(oneshot::Sender::is_closed)
    }

    /// Answers. An answer that comes too late is dropped, as is that of a forked child.
    pub fn send(self, answer: A) {
        if let Some(reply) = self.0.into_inner() {
            let _ = reply.send(answer);
        }
    }
}

/// A question to the PHP thread that waits, with the way back for the answer.
pub struct Job<Question, Answer> {
    /// What is asked.
    pub question: Question,
    reply: Reply<Answer>,
}

impl<Question, Answer> Job<Question, Answer> {
    /// A question, and where its answer will come.
    pub fn new(question: Question) -> (Self, oneshot::Receiver<Answer>) {
        let (reply, answer) = Reply::new();
        (Self { question, reply }, answer)
    }

    /// Whether nobody waits for the answer any more: the deadline has passed.
    pub fn is_abandoned(&self) -> bool {
        self.reply.is_abandoned()
    }

    /// Answers. An answer that comes too late is dropped.
    pub fn answer(self, answer: Answer) {
        self.reply.send(answer);
    }
}

/// Hands jobs to the PHP thread that waits; it can be cloned and used from any thread.
pub type JobSender<J> = Arc<dyn Fn(J) + Send + Sync>;

/// What the PHP thread wakes up for.
pub enum Event<T, J> {
    /// PHP code is to be run.
    Job(J),
    /// The work is done.
    Done(T),
}

/// Runs `work` on the runtime and waits for it.
///
/// # Errors
/// What a signal handler threw, the end of the request, or that the work panicked.
pub fn wait<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    wait_serving(|_: JobSender<()>| work, |()| Ok(()))
}

/// As [`wait`], for work that can send jobs, which `serve` does on this thread.
///
/// # Errors
/// As [`wait`], and what `serve` fails with.
pub fn wait_serving<T, J, W>(
    work: impl FnOnce(JobSender<J>) -> W,
    serve: impl Fn(J) -> Result<(), Failure>,
) -> Result<T, Failure>
where
    T: Send + 'static,
    J: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let waiting = Waiting::start(work)?;
    loop {
        match waiting.next()? {
            Event::Done(value) => return Ok(value),
            Event::Job(job) => serve(job)?,
        }
    }
}

/// Work on the runtime, seen from the PHP thread. When it is dropped the work ends.
pub struct Waiting<T, J> {
    /// Bound, because what the runtime's thread was doing with it at a fork stays half done.
    inbox: Bound<mpsc::Receiver<Event<Result<T, String>, J>>>,
    _task: Bound<AbortOnDrop>,
}

impl<T: Send + 'static, J: Send + 'static> Waiting<T, J> {
    /// Starts `work` on the runtime.
    ///
    /// # Errors
    /// An `UnavailableException` when the system gives us no threads.
    pub fn start<W>(work: impl FnOnce(JobSender<J>) -> W) -> Result<Self, Failure>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let (events, inbox) = mpsc::channel();
        let jobs = events.clone();
        let work = work(Arc::new(move |job| {
            // When nobody listens the job is dropped, and with it the place for its answer.
            let _ = jobs.send(Event::Job(job));
        }));
        let task = runtime::handle()?.spawn(async move {
            let done = AssertUnwindSafe(work).catch_unwind().await;
            let _ = events.send(Event::Done(done.map_err(|panic| message_of(&*panic))));
        });
        Ok(Self {
            inbox: Bound::new(inbox),
            _task: Bound::new(AbortOnDrop(task)),
        })
    }

    /// Sleeps until there is something to do.
    ///
    /// # Errors
    /// What a signal handler threw, the end of the request, that the work panicked, or that
    /// this is a fork, in which nothing goes on.
    pub fn next(&self) -> Result<Event<T, J>, Failure> {
        loop {
            let Some(inbox) = self.inbox.get() else {
                return Err(Failure::error(
                    "Pillion: the process was forked inside a tool or a callback; only the parent goes on with the call",
                ));
            };
            match inbox.recv_timeout(SLICE) {
                Ok(Event::Job(job)) => return Ok(Event::Job(job)),
                Ok(Event::Done(Ok(value))) => return Ok(Event::Done(value)),
                Ok(Event::Done(Err(message))) => {
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
