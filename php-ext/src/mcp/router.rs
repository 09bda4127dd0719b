//! Routes the server's requests and notifications to the PHP thread that handles them.
//!
//! Each call has an entry in the router, with the channel to the PHP thread of the call. The
//! channel only wakes the thread, which then takes the request from the router's queue. The
//! requests do not wait in the channel for two reasons:
//!
//! - No thread may be waiting for the call, for example if a `ToolStream` is not read.
//! - The call may end before PHP takes the request.

mod call_handle;
mod inbox;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use pillion_mcp_client::{Notification, RpcError};
use serde_json::Value;
use serde_json::value::RawValue;

use super::server_job::{ServerJob, ServerRequest, ServerRequestKind};
use crate::runtime::lock;
use crate::wait::JobSender;
use call_handle::{CURRENT_CALL, CallEntry};
pub use call_handle::{CallHandle, ProgressPermit, WaitGuard};
pub use inbox::NotificationInbox;

/// The JSON-RPC error code of the response to a request that no PHP thread can handle.
const NO_PHP_THREAD: i64 = -32000;

/// Routes the messages of one connection to the PHP threads that use the connection, and queues
/// jobs for these threads.
#[derive(Default)]
pub struct MessageRouter {
    state: Mutex<RouterState>,
    inboxes: Mutex<Vec<Weak<NotificationInbox>>>,
    /// The number of `tools/list_changed` notifications from the server.
    tools_change_count: AtomicU64,
}

/// The open calls and the pending jobs.
#[derive(Default)]
struct RouterState {
    /// The open calls, ordered by the time at which their last wait began.
    calls: Vec<Arc<CallEntry>>,
    /// The jobs that no thread has taken yet, oldest first. The engine limits their number.
    jobs: VecDeque<QueuedJob>,
}

/// A job for PHP, and the call that it belongs to, if known.
struct QueuedJob {
    job: ServerJob,
    call: Option<Arc<CallEntry>>,
}

impl RouterState {
    /// Returns the call whose waiting thread handles a job of `call`. Returns `None` if no thread
    /// waits.
    ///
    /// A call of the object that made `call` is preferred to the calls of other objects. Among
    /// several calls, the call whose wait began last is returned: a thread that waits for several
    /// calls, in nested callbacks, can handle only jobs of the innermost call.
    fn find_target(&self, call: Option<&Arc<CallEntry>>) -> Option<&Arc<CallEntry>> {
        let waiting_calls = || self.calls.iter().rev().filter(|entry| entry.has_waiter());
        let call_of_same_object = call
            .and_then(|call| waiting_calls().find(|entry| Arc::ptr_eq(&entry.inbox, &call.inbox)));
        call_of_same_object.or_else(|| waiting_calls().next())
    }

    /// Wakes the PHP threads for which a job is pending.
    fn wake_targets(&mut self) {
        if !self.calls.iter().any(|entry| entry.can_have_waiter()) {
            // No PHP thread waits now or can wait later, so all jobs are dropped. The server
            // receives the error `NO_PHP_THREAD` for a dropped request.
            self.jobs.clear();
        }
        self.jobs
            .retain(|queued_job| !queued_job.job.is_abandoned());
        let mut woken_calls: Vec<&Arc<CallEntry>> = Vec::new();
        for queued_job in &self.jobs {
            let target_call = self
                .find_target(queued_job.call.as_ref())
                .filter(|call| !woken_calls.iter().any(|entry| Arc::ptr_eq(entry, call)));
            if let Some(target_call) = target_call {
                (target_call.job_sender)(ServerJob::Wake);
                woken_calls.push(target_call);
            }
        }
    }
}

impl MessageRouter {
    /// Registers a call of the PHP object that has this inbox.
    pub fn open_call(
        self: &Arc<Self>,
        job_sender: JobSender<ServerJob>,
        inbox: &Arc<NotificationInbox>,
    ) -> CallHandle {
        let entry = Arc::new(CallEntry::new(job_sender, inbox));
        lock(&self.state).calls.push(Arc::clone(&entry));
        CallHandle {
            router: Arc::clone(self),
            entry,
        }
    }

    /// Adds an inbox, to which the router delivers every later notification as long as the inbox
    /// exists.
    pub fn subscribe(&self, inbox: &Arc<NotificationInbox>) {
        let mut inboxes = lock(&self.inboxes);
        inboxes.retain(|inbox| inbox.strong_count() > 0);
        inboxes.push(Arc::downgrade(inbox));
    }

    /// Returns the number of `tools/list_changed` notifications that the server has sent.
    pub fn tools_change_count(&self) -> u64 {
        self.tools_change_count.load(Ordering::Acquire)
    }

    /// Forwards a request of the server to the PHP object whose call the request belongs to.
    ///
    /// The object whose wait began last gets the request instead if the call is unknown (as for
    /// requests on a separate stream), or if the object of the call does not wait. If no object
    /// waits but a call is running, the request stays in the queue.
    ///
    /// Must be called in the task that receives the request, because the current task identifies
    /// the call.
    pub fn forward_request(
        self: &Arc<Self>,
        kind: ServerRequestKind,
        params: Box<RawValue>,
    ) -> impl Future<Output = Result<Value, RpcError>> + Send + use<> {
        let (request, response) = ServerRequest::new(kind, params);
        self.enqueue(ServerJob::Request(request));
        async move {
            response.await.unwrap_or_else(|_| {
                let message = "No PHP thread is available to answer the request";
                Err(RpcError::new(NO_PHP_THREAD, message))
            })
        }
    }

    /// Queues a job for PHP. If no call is open, the job is dropped.
    pub fn enqueue(&self, job: ServerJob) {
        let call = CURRENT_CALL.try_with(Arc::clone).ok();
        let mut state = lock(&self.state);
        state.jobs.push_back(QueuedJob { job, call });
        state.wake_targets();
    }

    /// Wakes the waiting thread. A thread that begins to wait later checks the queue anyway.
    pub fn wake(&self) {
        let call = CURRENT_CALL.try_with(Arc::clone).ok();
        if let Some(entry) = lock(&self.state).find_target(call.as_ref()) {
            (entry.job_sender)(ServerJob::Wake);
        }
    }

    /// Removes and returns the first queued job that the PHP thread of this call must handle.
    fn take_job(&self, entry: &Arc<CallEntry>) -> Option<ServerJob> {
        let mut state = lock(&self.state);
        let index = state.jobs.iter().position(|queued_job| {
            let target = state.find_target(queued_job.call.as_ref());
            target.is_some_and(|target| Arc::ptr_eq(target, entry))
        })?;
        state.jobs.remove(index).map(|queued_job| queued_job.job)
    }

    fn mark_waiting(&self, entry: &Arc<CallEntry>) {
        let mut state = lock(&self.state);
        state
            .calls
            .retain(|open_call| !Arc::ptr_eq(open_call, entry));
        state.calls.push(Arc::clone(entry));
        state.wake_targets();
    }

    fn close_call(&self, entry: &Arc<CallEntry>) {
        let mut state = lock(&self.state);
        state
            .calls
            .retain(|open_call| !Arc::ptr_eq(open_call, entry));
        state.wake_targets();
    }

    fn wake_targets(&self) {
        lock(&self.state).wake_targets();
    }

    /// Delivers a notification of the server to the inboxes, and wakes the waiting threads.
    pub fn handle_notification(&self, notification: &Notification) {
        if notification.method == "notifications/tools/list_changed" {
            self.tools_change_count.fetch_add(1, Ordering::AcqRel);
        }
        let mut has_first_notification = false;
        for inbox in lock(&self.inboxes).iter().filter_map(Weak::upgrade) {
            has_first_notification |= inbox.put(notification.clone());
        }
        // A thread is woken only for the first notification in its inbox, because the thread then
        // reads all notifications.
        if has_first_notification {
            for entry in &lock(&self.state).calls {
                (entry.job_sender)(ServerJob::Wake);
            }
        }
    }
}
