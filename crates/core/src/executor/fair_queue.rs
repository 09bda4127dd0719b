//! Decides which call runs next. The number of concurrent calls is limited in total, for each MCP
//! server, for local tools, and for some individual tools. Queued calls get permits in turn:
//! servers take turns, and the users of each server take turns.

mod bounds;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::tool::{ErrorCode, ToolFailure, ToolOrigin, seconds_text};
pub(super) use bounds::QueueLimits;
pub(super) use state::PermitRequest;
use state::{CountedCall, State, Waiter};

/// `retry_after` of a call that a full queue rejects.
const QUEUE_FULL_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Gives permits to calls that may run, and queues the other calls.
///
/// Each MCP server has its own limit, and all local tools share one, so that a slow server delays
/// only its own calls. Users take turns: even a user with a thousand queued calls delays a call of
/// another user by only one call per server.
#[derive(Debug)]
pub(super) struct FairQueue {
    state: Mutex<State>,
}

/// A source of tools that share a concurrency limit: an MCP server, or the local tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) enum ToolSource {
    /// Tools that belong to no MCP server.
    #[default]
    Local,
    /// Tools of the MCP server with this label.
    Server(String),
}

impl From<&ToolOrigin> for ToolSource {
    fn from(origin: &ToolOrigin) -> Self {
        match origin {
            ToolOrigin::Native => Self::Local,
            ToolOrigin::Mcp { server_label, .. } => Self::Server(server_label.clone()),
        }
    }
}

/// A permit for a running call. Dropping the permit releases it.
#[derive(Debug)]
pub(super) struct QueuePermit {
    queue: Arc<FairQueue>,
    /// The counters that dropping the permit decrements. Boxed, because the future of every call
    /// holds the permit several times.
    counted_call: Box<CountedCall>,
}

/// The queue is full, so the call is rejected.
#[derive(Debug)]
struct QueueFull;

/// A queued call. Dropping this value removes the call from the queue.
struct QueuedCall {
    queue: Arc<FairQueue>,
    request: PermitRequest,
    id: u64,
    receiver: oneshot::Receiver<Result<QueuePermit, QueueFull>>,
}

/// The number of running and queued calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueLoad {
    /// Number of calls whose tools run or are about to run.
    pub running: usize,
    /// Number of calls that wait for a permit.
    pub queued: usize,
}

impl FairQueue {
    pub(super) fn new(bounds: QueueLimits) -> Arc<Self> {
        let state = Mutex::new(State::new(bounds));
        Arc::new(Self { state })
    }

    /// Replaces the limits. Running calls keep their permits.
    pub(super) fn set_bounds(self: &Arc<Self>, bounds: QueueLimits) {
        let mut state = self.state.lock();
        state.bounds = bounds;
        let picked_calls = state.take_runnable_calls();
        drop(state);
        self.hand_permits(picked_calls);
    }

    pub(super) fn load(&self) -> QueueLoad {
        let state = self.state.lock();
        QueueLoad {
            running: state.running_count,
            queued: state.queued_count,
        }
    }

    /// Returns a permit, after waiting at most `max_wait` and never beyond `deadline`.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        request: PermitRequest,
        max_wait: Duration,
        deadline: Instant,
    ) -> Result<QueuePermit, ToolFailure> {
        match self.acquire_or_queue(request) {
            Ok(Ok(permit)) => Ok(permit),
            // The future is boxed, because waiting is rare, and the future of every call would be
            // larger otherwise.
            Ok(Err(queued_call)) => Box::pin(queued_call.wait_for_permit(max_wait, deadline)).await,
            Err(QueueFull) => Err(queue_full_failure()),
        }
    }

    /// Returns a permit, or a queued call if no permit is free.
    fn acquire_or_queue(
        self: &Arc<Self>,
        request: PermitRequest,
    ) -> Result<Result<QueuePermit, QueuedCall>, QueueFull> {
        let mut state = self.state.lock();
        // A free permit can be taken without looking at the queue: a queued call that could use the
        // permit would already have received it.
        if state.may_run(&request) {
            return Ok(Ok(self.create_permit(state.count(request))));
        }
        let evicted_waiter = if state.queued_count < state.bounds.max_queued {
            None
        } else {
            Some(state.evict_call(&request)?)
        };
        let (sender, receiver) = oneshot::channel();
        let id = state.enqueue(request.clone(), sender);
        drop(state);
        if let Some(waiter) = evicted_waiter {
            // The send fails if the removed call has stopped waiting, which is fine.
            drop(waiter.sender.send(Err(QueueFull)));
        }
        Ok(Err(QueuedCall {
            queue: Arc::clone(self),
            request,
            id,
            receiver,
        }))
    }

    /// Sends permits to the queued calls that were selected to run.
    fn hand_permits(self: &Arc<Self>, picked_calls: Vec<(Waiter, Box<CountedCall>)>) {
        for (waiter, counted_call) in picked_calls {
            // If the call no longer waits, dropping the permit releases it.
            drop(waiter.sender.send(Ok(self.create_permit(counted_call))));
        }
    }

    fn create_permit(self: &Arc<Self>, counted_call: Box<CountedCall>) -> QueuePermit {
        QueuePermit {
            queue: Arc::clone(self),
            counted_call,
        }
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.uncount(&self.counted_call);
        let picked_calls = state.take_runnable_calls();
        drop(state);
        self.queue.hand_permits(picked_calls);
    }
}

impl QueuedCall {
    /// Waits for the permit, at most `max_wait` and never beyond `deadline`.
    async fn wait_for_permit(
        mut self,
        max_wait: Duration,
        deadline: Instant,
    ) -> Result<QueuePermit, ToolFailure> {
        let max_wait = max_wait.min(deadline.saturating_duration_since(Instant::now()));
        match pillion_deadline::timeout(max_wait, &mut self.receiver).await {
            Ok(Ok(Ok(permit))) => Ok(permit),
            Ok(Ok(Err(QueueFull))) => Err(queue_full_failure()),
            // Receiving never fails, because the queue never drops a sender without sending a
            // message. If receiving did fail, the call would have no permit; the error therefore
            // rejects the call.
            Ok(Err(_)) | Err(_) => {
                let (tool, wait) = (&self.request.tool, seconds_text(max_wait));
                let message =
                    format!("Tool '{tool}' did not start within {wait}: no slot was free");
                Err(ToolFailure::new(ErrorCode::Unavailable, message))
            }
        }
    }
}

impl Drop for QueuedCall {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.remove_queued(&self.request.source, &self.request.account, self.id);
    }
}

fn queue_full_failure() -> ToolFailure {
    let message = "The queue of tool calls is full. Retry after 1 second.";
    ToolFailure::new(ErrorCode::RateLimited, message).with_retry_after(QUEUE_FULL_RETRY_INTERVAL)
}
