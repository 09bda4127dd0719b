//! Lets a PHP thread wait for the engine.
//!
//! The work is a task of the runtime, which the PHP thread drives in slices of 20 ms. Between
//! slices, outside the runtime, the thread does what PHP's engine does between opcodes (signal
//! handlers, `max_execution_time`), checks whether the client of the request is still connected,
//! and runs the PHP code that the work requests. When the wait ends, for any reason, the work ends,
//! too. A panic in the work becomes an `Error`.

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

use crate::runtime::{self, Bound, Engine, UnattendedGuard};
use crate::zend::{Failure, check_interrupt};

/// The duration of a slice, which is the maximum delay of a signal.
const SLICE_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum time that stopped work may take to end. Work ends at its next await point.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the response to a job. Bound to the process, because a forked child must not wake the
/// parent's task: waking takes locks that another thread of the parent may have held at the fork.
pub struct ReplySender<R>(Bound<oneshot::Sender<R>>);

impl<R> ReplySender<R> {
    /// Creates the sender and the receiver of a response.
    pub fn new() -> (Self, oneshot::Receiver<R>) {
        let (reply, response) = oneshot::channel();
        (Self(Bound::new(reply)), response)
    }

    /// Returns whether nothing waits any more for the response, because the deadline has passed.
    pub fn is_abandoned(&self) -> bool {
        self.0.get().is_none_or(oneshot::Sender::is_closed)
    }

    /// Sends the response. A late response is dropped, and so is a response from a forked child.
    pub fn send(self, response: R) {
        if let Some(reply) = self.0.into_inner() {
            let _ = reply.send(response);
        }
    }
}

/// A request to the waiting PHP thread, with the sender of its response.
pub struct Job<Request, Response> {
    request: Request,
    reply: ReplySender<Response>,
}

impl<Request, Response> Job<Request, Response> {
    /// Creates a request, and the receiver of its response.
    pub fn new(request: Request) -> (Self, oneshot::Receiver<Response>) {
        let (reply, response) = ReplySender::new();
        (Self { request, reply }, response)
    }

    /// Sends the result of `work` as the response, unless nothing waits any more for it.
    ///
    /// # Errors
    /// The failure of `work`, after which no response is sent.
    pub fn serve(
        self,
        work: impl FnOnce(&Request) -> Result<Response, Failure>,
    ) -> Result<(), Failure> {
        if !self.reply.is_abandoned() {
            let response = work(&self.request)?;
            self.reply.send(response);
        }
        Ok(())
    }
}

/// Sends jobs to the waiting PHP thread. Can be cloned, and used from any thread.
pub type JobSender<J> = Arc<dyn Fn(J) + Send + Sync>;

/// An event that wakes the waiting PHP thread.
pub enum Event<T, J> {
    /// The work requests that PHP code runs.
    Job(J),
    /// The work has finished with this output.
    Done(T),
}

/// Runs `work` on the runtime and waits for it.
///
/// # Errors
/// An exception of a signal handler, the end of the request, or a panic in the work.
pub fn wait<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    wait_serving(|_: JobSender<()>| work, |()| Ok(()))
}

/// Runs `work` on the runtime and waits for it, as [`wait`] does, for work that can send jobs.
/// `serve` handles the jobs on this thread.
///
/// # Errors
/// The failures of [`wait`], or the failure of `serve`.
pub fn wait_serving<T, J, W>(
    work: impl FnOnce(JobSender<J>) -> W,
    serve: impl Fn(J) -> Result<(), Failure>,
) -> Result<T, Failure>
where
    T: Send + 'static,
    J: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let handle = WorkHandle::new(work)?;
    loop {
        match handle.next()? {
            Event::Done(value) => return Ok(value),
            Event::Job(job) => serve(job)?,
        }
    }
}

/// The PHP thread's handle to work on the runtime. Dropping the handle ends the work.
pub struct WorkHandle<T, J> {
    /// Bound to the process, because in a forked child, an operation of another thread may be left
    /// half done.
    inner: Bound<WorkState<T, J>>,
}

struct WorkState<T, J> {
    inbox: RefCell<UnboundedReceiver<Event<Result<T, String>, J>>>,
    unattended: RefCell<Option<UnattendedGuard>>,
    task: RefCell<JoinHandle<()>>,
    engine: Arc<Engine>,
}

impl<T: Send + 'static, J: Send + 'static> WorkHandle<T, J> {
    /// Starts `work` on the runtime. The work continues while PHP does something else.
    ///
    /// # Errors
    /// An `UnavailableException` if the system cannot create threads.
    pub fn start<W>(work: impl FnOnce(JobSender<J>) -> W) -> Result<Self, Failure>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let handle = Self::new(work)?;
        handle.mark_unattended();
        Ok(handle)
    }

    /// Starts `work` like [`start`](Self::start), for work that PHP waits for immediately.
    fn new<W>(work: impl FnOnce(JobSender<J>) -> W) -> Result<Self, Failure>
    where
        W: Future<Output = T> + Send + 'static,
    {
        // The channel is unbounded, because senders cannot wait. The number of jobs is limited
        // where they are sent: jobs of calls by the calls, events of a chat by its backlog,
        // notifications by their inbox, and messages of servers by the limits of the MCP client.
        let (events, inbox) = mpsc::unbounded_channel();
        let jobs = events.clone();
        let work = work(Arc::new(move |job| {
            // If nothing receives jobs any more, the job is dropped, and with it the sender of its
            // response.
            let _ = jobs.send(Event::Job(job));
        }));
        let engine = runtime::engine()?;
        let task = engine.handle().spawn(async move {
            // The runtime may not have polled its connections since the last wait. This yield lets
            // it detect a closed connection before the work uses one.
            yield_now().await;
            let done = AssertUnwindSafe(work).catch_unwind().await;
            let _ = events.send(Event::Done(done.map_err(|panic| message_of(&*panic))));
        });
        Ok(Self {
            inner: Bound::new(WorkState {
                inbox: RefCell::new(inbox),
                unattended: RefCell::default(),
                task: RefCell::new(task),
                engine,
            }),
        })
    }

    /// Returns whether the work runs in this process.
    pub fn is_ours(&self) -> bool {
        self.inner.get().is_some()
    }

    /// Ends the work, and waits until the work has ended. Pending jobs are dropped. Does nothing in
    /// a forked child.
    pub fn stop(&self) {
        if let Some(inner) = self.inner.get() {
            inner.unattended.replace(None);
            inner.stop();
        }
    }

    /// Marks the work as unattended, because PHP continues with something else.
    fn mark_unattended(&self) {
        if let Some(inner) = self.inner.get() {
            inner
                .unattended
                .replace(Some(UnattendedGuard::new(&inner.engine)));
        }
    }

    /// Waits for the next event of the work.
    ///
    /// # Errors
    /// An exception of a signal handler, the end of the request, or a panic in the work. In a
    /// forked child, an error, because the work does not run there.
    pub fn next(&self) -> Result<Event<T, J>, Failure> {
        loop {
            let Some(inner) = self.inner.get() else {
                return Err(Failure::error(
                    "Pillion: the process was forked inside a tool or a callback; only the parent continues the call",
                ));
            };
            inner.unattended.replace(None);
            match inner.drive_once() {
                Some(Event::Job(job)) => {
                    self.mark_unattended();
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

impl<T, J> WorkState<T, J> {
    /// Drives the runtime until there is an event, at most for one slice.
    fn drive_once(&self) -> Option<Event<Result<T, String>, J>> {
        let mut inbox = self.inbox.borrow_mut();
        let received = self.engine.drive(SLICE_INTERVAL, inbox.recv())?;
        Some(received.unwrap_or_else(|| Event::Done(Err("the work ended".to_owned()))))
    }

    fn stop(&self) {
        let Ok(mut task) = self.task.try_borrow_mut() else {
            return;
        };
        task.abort();
        let end = Instant::now() + STOP_TIMEOUT;
        while !task.is_finished() && Instant::now() < end {
            // The outcome of stopped work does not matter.
            let _ = self.engine.drive(SLICE_INTERVAL, &mut *task);
        }
    }
}

impl<T, J> Drop for WorkState<T, J> {
    fn drop(&mut self) {
        let task = self.task.get_mut();
        if !task.is_finished() {
            task.abort();
            self.engine.schedule_cleanup();
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".to_owned())
}
