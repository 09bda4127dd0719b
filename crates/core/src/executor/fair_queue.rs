//! Decides which call runs next. The number of concurrent calls is limited in total, for each MCP
//! server, for local tools, and for some single tools. Queued calls get permits by turns: servers
//! take turns, and the users of each server take turns.

mod bounds;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::run::seconds_text;
use crate::tool::{ErrorCode, ToolFailure, ToolOrigin};
pub(super) use bounds::QueueLimits;
pub(super) use state::PermitRequest;
use state::{CountedCall, State, Waiter};

/// `retry_after` of a call that a full queue rejects.
const QUEUE_FULL_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Gives out permits to running calls, and queues calls that wait for a permit.
///
/// Each MCP server has its own limit, and so have local tools: a slow server delays only its own
/// calls. Users take turns: a user with a thousand queued calls delays the call of another user by
/// one call of each server.
#[derive(Debug)]
pub(super) struct FairQueue {
    state: Mutex<State>,
}

/// The origin of tools that share a concurrency limit.
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
    /// Boxed, because the future of every call holds this value several times.
    counted: Box<CountedCall>,
}

/// The queue is full, so the call is rejected.
#[derive(Debug)]
struct Full;

/// A queued call. Dropping this value removes the call from the queue.
struct QueuedCall {
    queue: Arc<FairQueue>,
    request: PermitRequest,
    id: u64,
    receiver: oneshot::Receiver<Result<QueuePermit, Full>>,
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
        let next = state.next();
        drop(state);
        self.call(next);
    }

    pub(super) fn load(&self) -> QueueLoad {
        let state = self.state.lock();
        QueueLoad {
            running: state.running,
            queued: state.waiting,
        }
    }

    /// Returns a permit, after waiting at most `max_wait` and never beyond `deadline`.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        request: PermitRequest,
        max_wait: Duration,
        deadline: Instant,
    ) -> Result<QueuePermit, ToolFailure> {
        match self.enter(request) {
            Ok(Ok(permit)) => Ok(permit),
            // Boxed, because waiting is rare, and the future of every call would be larger
            // otherwise.
            Ok(Err(waiting)) => Box::pin(waiting.end(max_wait, deadline)).await,
            Err(Full) => Err(full()),
        }
    }

    /// Returns a permit, or a queued call if no permit is free.
    fn enter(
        self: &Arc<Self>,
        request: PermitRequest,
    ) -> Result<Result<QueuePermit, QueuedCall>, Full> {
        let mut state = self.state.lock();
        // If a permit is free, no queued call could use the permit: that call would have got it
        // already.
        if state.may_run(&request) {
            let counted = state.count(request);
            let queue = Arc::clone(self);
            return Ok(Ok(QueuePermit { queue, counted }));
        }
        let evicted = if state.waiting < state.bounds.max_queued {
            None
        } else {
            Some(state.evict_for(&request)?)
        };
        let (sender, receiver) = oneshot::channel();
        let id = state.wait(request.clone(), sender);
        drop(state);
        if let Some(waiter) = evicted {
            // The send fails if the removed call has stopped waiting, which is fine.
            drop(waiter.sender.send(Err(Full)));
        }
        Ok(Err(QueuedCall {
            queue: Arc::clone(self),
            request,
            id,
            receiver,
        }))
    }

    /// Hands permits to the picked calls.
    fn call(self: &Arc<Self>, next: Vec<(Waiter, Box<CountedCall>)>) {
        for (waiter, counted) in next {
            let queue = Arc::clone(self);
            // If the call no longer waits, dropping the permit releases it.
            drop(waiter.sender.send(Ok(QueuePermit { queue, counted })));
        }
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.discount(&self.counted);
        let next = state.next();
        drop(state);
        self.queue.call(next);
    }
}

impl QueuedCall {
    /// Waits for the permit, at most `max_wait` and never beyond `deadline`.
    async fn end(
        mut self,
        max_wait: Duration,
        deadline: Instant,
    ) -> Result<QueuePermit, ToolFailure> {
        let max_wait = max_wait.min(deadline.saturating_duration_since(Instant::now()));
        match pillion_deadline::timeout(max_wait, &mut self.receiver).await {
            Ok(Ok(Ok(permit))) => Ok(permit),
            Ok(Ok(Err(Full))) => Err(full()),
            // The sender is never dropped without a message; if that happened, there would be no
            // permit.
            Ok(Err(_)) | Err(_) => Err(ToolFailure::new(
                ErrorCode::Unavailable,
                format!(
                    "Tool '{}' did not start within {}: no slot was free",
                    self.request.tool,
                    seconds_text(max_wait)
                ),
            )),
        }
    }
}

impl Drop for QueuedCall {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.leave(&self.request.source, &self.request.account, self.id);
    }
}

fn full() -> ToolFailure {
    ToolFailure::new(
        ErrorCode::RateLimited,
        "The queue is full. Retry after 1 second.",
    )
    .with_retry_after(QUEUE_FULL_RETRY_INTERVAL)
}
