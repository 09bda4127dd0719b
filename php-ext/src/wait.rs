//! Lets a PHP thread wait for the engine.
//!
//! The work is a task of the runtime, which the PHP thread drives in slices of 20 ms. Between
//! slices, outside the runtime, the thread does what PHP's engine does between opcodes (signal
//! handlers, `max_execution_time`), checks whether the client of the request is still connected,
//! and runs the PHP code that the work requests. When the wait ends, for any reason, the work is
//! stopped. A panic in the work becomes an `Error`.

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

use crate::runtime::{self, Engine, ProcessBound, UnattendedGuard};
use crate::zend::{Failure, Result, check_interrupt};

/// Maximum duration of a slice, in which the PHP thread drives the runtime without a pause, and
/// therefore the maximum delay of a signal handler.
const SLICE_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum time to wait for stopped work to end. Stopped work ends at its next await point.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the response to a job. The sender is bound to the process, because a forked child must not
/// wake the parent's task: waking takes locks that another thread of the parent may have held at
/// the fork.
pub struct ReplySender<R>(ProcessBound<oneshot::Sender<R>>);

impl<R> ReplySender<R> {
    /// Creates the sender and the receiver of a response.
    pub fn new() -> (Self, oneshot::Receiver<R>) {
        let (sender, response) = oneshot::channel();
        (Self(ProcessBound::new(sender)), response)
    }

    /// Returns whether the receiver of the response was dropped, for example because its deadline
    /// has passed.
    pub fn is_abandoned(&self) -> bool {
        self.0.get().is_none_or(oneshot::Sender::is_closed)
    }

    /// Sends the response. If the receiver was dropped, or if this process is a forked child, drops
    /// the response.
    pub fn send(self, response: R) {
        if let Some(sender) = self.0.into_inner() {
            let _ = sender.send(response);
        }
    }
}

/// A request to the waiting PHP thread, with the sender of its response.
pub struct Job<Request, Response> {
    request: Request,
    reply_sender: ReplySender<Response>,
}

impl<Request, Response> Job<Request, Response> {
    /// Creates a request, and the receiver of its response.
    pub fn new(request: Request) -> (Self, oneshot::Receiver<Response>) {
        let (reply_sender, response) = ReplySender::new();
        let job = Self {
            request,
            reply_sender,
        };
        (job, response)
    }

    /// Sends the result of `work` as the response, unless the receiver of the response was dropped.
    ///
    /// # Errors
    /// The failure of `work`, after which no response is sent.
    pub fn serve(self, work: impl FnOnce(&Request) -> Result<Response>) -> Result<()> {
        if !self.reply_sender.is_abandoned() {
            let response = work(&self.request)?;
            self.reply_sender.send(response);
        }
        Ok(())
    }
}

/// Sends jobs to the waiting PHP thread. Can be cloned, and used from any thread.
pub type JobSender<J> = Arc<dyn Fn(J) + Send + Sync>;

/// An event that wakes the waiting PHP thread.
pub enum WorkEvent<T, J> {
    /// The work requests that PHP code runs.
    Job(J),
    /// The work has finished with this output.
    Done(T),
}

/// Runs `work` on the runtime and waits for it.
///
/// # Errors
/// An exception of a signal handler, the end of the request, or a panic in the work.
pub fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    wait_serving(|_: JobSender<()>| work, |()| Ok(()))
}

/// Runs `work` on the runtime and waits for it, as [`wait`] does, for work that can send jobs.
/// `serve` handles the jobs on this thread.
///
/// # Errors
/// The same errors as [`wait`], or the failure of `serve`.
pub fn wait_serving<T, J, W>(
    work: impl FnOnce(JobSender<J>) -> W,
    serve: impl Fn(J) -> Result<()>,
) -> Result<T>
where
    T: Send + 'static,
    J: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let work_handle = WorkHandle::new(work)?;
    loop {
        match work_handle.next()? {
            WorkEvent::Done(value) => return Ok(value),
            WorkEvent::Job(job) => serve(job)?,
        }
    }
}

/// The PHP thread's handle to work on the runtime. Dropping the handle ends the work.
pub struct WorkHandle<T, J> {
    /// The state is bound to the process: in a forked child, the state may be inconsistent, because
    /// the fork may have interrupted another thread that was changing it.
    state: ProcessBound<WorkState<T, J>>,
}

struct WorkState<T, J> {
    inbox: RefCell<UnboundedReceiver<WorkEvent<Result<T, String>, J>>>,
    unattended_guard: RefCell<Option<UnattendedGuard>>,
    task: RefCell<JoinHandle<()>>,
    engine: Arc<Engine>,
}

impl<T: Send + 'static, J: Send + 'static> WorkHandle<T, J> {
    /// Starts `work` on the runtime. The work continues while PHP runs other code.
    ///
    /// # Errors
    /// An `UnavailableException` if the system cannot create threads.
    pub fn start<W>(work: impl FnOnce(JobSender<J>) -> W) -> Result<Self>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let handle = Self::new(work)?;
        handle.mark_unattended();
        Ok(handle)
    }

    /// Starts `work` like [`start`](Self::start), for work that PHP waits for immediately.
    fn new<W>(work: impl FnOnce(JobSender<J>) -> W) -> Result<Self>
    where
        W: Future<Output = T> + Send + 'static,
    {
        // The channel is unbounded, because senders cannot wait. The senders limit the number of
        // jobs: a call sends a limited number of jobs, a chat limits its unread events, an inbox
        // limits its notifications, and the MCP client limits the messages of servers.
        let (event_sender, inbox) = mpsc::unbounded_channel();
        let job_event_sender = event_sender.clone();
        let future = work(Arc::new(move |job| {
            // If the receiver of the jobs was dropped, the job and the sender of its response are
            // dropped.
            let _ = job_event_sender.send(WorkEvent::Job(job));
        }));
        let engine = runtime::engine()?;
        let task = engine.handle().spawn(async move {
            // The task yields first: the runtime may not have polled its connections since the last
            // wait, and must detect closed connections before the work uses one.
            yield_now().await;
            let outcome = AssertUnwindSafe(future).catch_unwind().await;
            let _ = event_sender.send(WorkEvent::Done(
                outcome.map_err(|panic| panic_message(&*panic)),
            ));
        });
        Ok(Self {
            state: ProcessBound::new(WorkState {
                inbox: RefCell::new(inbox),
                unattended_guard: RefCell::default(),
                task: RefCell::new(task),
                engine,
            }),
        })
    }

    /// Returns whether the work runs in this process.
    pub fn is_of_this_process(&self) -> bool {
        self.state.get().is_some()
    }

    /// Ends the work, and waits until the work has ended. Pending jobs are dropped. In a forked
    /// child, does nothing, because the work runs only in the parent.
    pub fn stop(&self) {
        if let Some(state) = self.state.get() {
            state.unattended_guard.replace(None);
            state.stop();
        }
    }

    /// Lets the background thread drive the runtime while PHP runs other code.
    fn mark_unattended(&self) {
        if let Some(state) = self.state.get() {
            state
                .unattended_guard
                .replace(Some(UnattendedGuard::new(&state.engine)));
        }
    }

    /// Waits for the next event of the work.
    ///
    /// # Errors
    /// An exception of a signal handler, the end of the request, or a panic in the work. In a
    /// forked child, always an error, because the work runs only in the parent.
    pub fn next(&self) -> Result<WorkEvent<T, J>> {
        loop {
            let Some(state) = self.state.get() else {
                return Err(Failure::error(
                    "Pillion: the process was forked inside a tool or a callback; only the parent continues the call",
                ));
            };
            state.unattended_guard.replace(None);
            match state.drive_once() {
                Some(WorkEvent::Job(job)) => {
                    self.mark_unattended();
                    return Ok(WorkEvent::Job(job));
                }
                Some(WorkEvent::Done(Ok(value))) => return Ok(WorkEvent::Done(value)),
                Some(WorkEvent::Done(Err(message))) => {
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
    fn drive_once(&self) -> Option<WorkEvent<Result<T, String>, J>> {
        let mut inbox = self.inbox.borrow_mut();
        let event = self.engine.drive(SLICE_INTERVAL, inbox.recv())?;
        Some(event.unwrap_or_else(|| {
            WorkEvent::Done(Err(
                "the task of the work ended without an outcome".to_owned()
            ))
        }))
    }

    fn stop(&self) {
        let Ok(mut task) = self.task.try_borrow_mut() else {
            return;
        };
        task.abort();
        let deadline = Instant::now() + STOP_TIMEOUT;
        while !task.is_finished() && Instant::now() < deadline {
            // The outcome is ignored, because no code uses the outcome of stopped work.
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

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".to_owned())
}
