//! How a PHP thread waits for the engine.
//!
//! The work is a task of the runtime, which the PHP thread drives in slices of 20 ms. Between
//! slices, and outside the runtime, it does what PHP's engine does between
//! opcodes (signal handlers, `max_execution_time`), looks whether the client of the request
//! is still there, and runs the PHP functions that tools ask for. However the wait ends, the
//! work ends with it; a panic in it becomes an `Error`.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};

use crate::runtime::{self, Bound, Engine, Unattended};
use crate::zend::{Failure, check_interrupt};

/// How long a signal may go unnoticed.
const SLICE: Duration = Duration::from_millis(20);

/// How long work that was stopped may take to end: it does where it waits next.
const FAREWELL: Duration = Duration::from_secs(5);

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
    question: Question,
    reply: Reply<Answer>,
}

impl<Question, Answer> Job<Question, Answer> {
    /// A question, and where its answer will come.
    pub fn new(question: Question) -> (Self, oneshot::Receiver<Answer>) {
        let (reply, answer) = Reply::new();
        (Self { question, reply }, answer)
    }

    /// Answers with what `work` gives, unless nobody waits for that any more.
    ///
    /// # Errors
    /// What `work` fails with; then there is no answer.
    pub fn serve(
        self,
        work: impl FnOnce(&Question) -> Result<Answer, Failure>,
    ) -> Result<(), Failure> {
        if !self.reply.is_abandoned() {
            let answer = work(&self.question)?;
            self.reply.send(answer);
        }
        Ok(())
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

/// Same as [`wait`], for work that can send jobs, which `serve` does on this thread.
///
/// # Errors
/// Same as [`wait`], and what `serve` fails with.
pub fn wait_serving<T, J, W>(
    work: impl FnOnce(JobSender<J>) -> W,
    serve: impl Fn(J) -> Result<(), Failure>,
) -> Result<T, Failure>
where
    T: Send + 'static,
    J: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let waiting = Waiting::new(work)?;
    loop {
        match waiting.next()? {
            Event::Done(value) => return Ok(value),
            Event::Job(job) => serve(job)?,
        }
    }
}

/// Work on the runtime, seen from the PHP thread. When it is dropped the work ends.
pub struct Waiting<T, J> {
    /// Bound, because what another thread was doing with it at a fork stays half done.
    inner: Bound<Inner<T, J>>,
}

struct Inner<T, J> {
    inbox: RefCell<UnboundedReceiver<Event<Result<T, String>, J>>>,
    unattended: RefCell<Option<Unattended>>,
    task: RefCell<JoinHandle<()>>,
    engine: Arc<Engine>,
}

impl<T: Send + 'static, J: Send + 'static> Waiting<T, J> {
    /// Starts `work` on the runtime, which goes on while PHP does something else.
    ///
    /// # Errors
    /// An `UnavailableException` when the system gives us no threads.
    pub fn start<W>(work: impl FnOnce(JobSender<J>) -> W) -> Result<Self, Failure>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let waiting = Self::new(work)?;
        waiting.leave();
        Ok(waiting)
    }

    /// Same as [`start`](Self::start), for work that PHP waits for at once.
    fn new<W>(work: impl FnOnce(JobSender<J>) -> W) -> Result<Self, Failure>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let (events, inbox) = mpsc::unbounded_channel();
        let jobs = events.clone();
        let work = work(Arc::new(move |job| {
            // When nobody listens the job is dropped, and with it the place for its answer.
            let _ = jobs.send(Event::Job(job));
        }));
        let engine = runtime::engine()?;
        let task = engine.handle().spawn(async move {
            // Nobody may have looked at the connections for a moment: one that has ended
            // since is noticed before it is used.
            yield_now().await;
            let done = AssertUnwindSafe(work).catch_unwind().await;
            let _ = events.send(Event::Done(done.map_err(|panic| message_of(&*panic))));
        });
        Ok(Self {
            inner: Bound::new(Inner {
                inbox: RefCell::new(inbox),
                unattended: RefCell::default(),
                task: RefCell::new(task),
                engine,
            }),
        })
    }

    /// Whether this is the process that the work runs in.
    pub fn is_ours(&self) -> bool {
        self.inner.get().is_some()
    }

    /// Ends the work, and waits until nothing of it goes on. What it had sent is dropped. Does
    /// nothing in a fork.
    pub fn stop(&self) {
        if let Some(inner) = self.inner.get() {
            inner.unattended.replace(None);
            inner.stop();
        }
    }

    /// PHP does something else now.
    fn leave(&self) {
        if let Some(inner) = self.inner.get() {
            inner
                .unattended
                .replace(Some(Unattended::new(&inner.engine)));
        }
    }

    /// Sleeps until there is something to do.
    ///
    /// # Errors
    /// What a signal handler threw, the end of the request, that the work panicked, or that
    /// this is a fork, in which nothing goes on.
    pub fn next(&self) -> Result<Event<T, J>, Failure> {
        loop {
            let Some(inner) = self.inner.get() else {
                return Err(Failure::error(
                    "Pillion: the process was forked inside a tool or a callback; only the parent goes on with the call",
                ));
            };
            inner.unattended.replace(None);
            match inner.turn() {
                Some(Event::Job(job)) => {
                    self.leave();
                    return Ok(Event::Job(job));
                }
                Some(Event::Done(Ok(value))) => return Ok(Event::Done(value)),
                Some(Event::Done(Err(message))) => {
                    return Err(Failure::error(format!(
                        "Pillion: internal error: {message}"
                    )));
                }
                None => check_interrupt()?,
            }
        }
    }
}

impl<T, J> Inner<T, J> {
    /// Drives the runtime until there is something to do, or for a slice.
    fn turn(&self) -> Option<Event<Result<T, String>, J>> {
        let mut inbox = self.inbox.borrow_mut();
        let received = self.engine.drive(SLICE, inbox.recv())?;
        Some(received.unwrap_or_else(|| Event::Done(Err("the work ended".to_owned()))))
    }

    fn stop(&self) {
        let Ok(mut task) = self.task.try_borrow_mut() else {
            return;
        };
        task.abort();
        let end = Instant::now() + FAREWELL;
        while !task.is_finished() && Instant::now() < end {
            // How it ended is of no matter.
            let _ = self.engine.drive(SLICE, &mut *task);
        }
    }
}

impl<T, J> Drop for Inner<T, J> {
    fn drop(&mut self) {
        let task = self.task.get_mut();
        if !task.is_finished() {
            task.abort();
            self.engine.clear_up();
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".to_owned())
}
