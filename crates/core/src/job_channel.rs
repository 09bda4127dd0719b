//! Runs jobs in application code, such as PHP code, that belongs to another thread or process (the
//! peer). A job runs a tool, decides on an approval, or checks a call before it runs; the
//! application code is also notified of calls.
//!
//! An interface implements [`JobPeer`] for the thread or process, opens a [`JobChannel`] for each
//! execution, and runs the calls of the execution with [`JobChannel::run`]. The [`hooks()`] of the
//! executor and the [`PeerTool`]s find the channel in the context of each call.

mod hooks;
mod tool;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::executor::{ApprovalRequest, Decision, Executor, ReadyCall};
use crate::tool::{
    CallContext, ErrorCode, JsonObject, Link, ToolCall, ToolFailure, ToolOutput, ToolResult,
};
pub use hooks::hooks;
pub use tool::PeerTool;

/// The outcome of a job: what the application code returned, or an error if the peer stopped
/// waiting before the job ended.
pub type JobOutcome<T> = Result<Result<T, ToolFailure>, PeerGone>;

/// The error of a job without an outcome, because its peer no longer waits for the execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer no longer waits for the execution")]
pub struct PeerGone;

/// The thread or process that runs application code for the calls of one execution. A job may
/// continue to run after its caller stopped waiting, because application code cannot be
/// interrupted.
pub trait JobPeer: Send + Sync + 'static {
    /// The type by which the peer identifies a tool.
    type Tool: Clone + Send + Sync + 'static;

    /// The name of the peer in errors, such as `PHP thread`.
    const NAME: &'static str;

    /// Returns the kinds of jobs that the peer handles, besides runs of tools.
    fn handled_jobs(&self) -> HandledJobs;

    /// Runs a tool in the application code, and returns the output of the tool.
    fn run_tool(
        &self,
        run: ToolRun<Self::Tool>,
    ) -> impl Future<Output = JobOutcome<ToolOutput>> + Send;

    /// Returns the decision of the application code on an approval request.
    fn approve(
        &self,
        request: Box<ApprovalRequest>,
    ) -> impl Future<Output = JobOutcome<Decision>> + Send;

    /// Checks a call that is about to run: see [`CallGate`](crate::executor::CallGate).
    fn enter(
        &self,
        call: Box<ReadyCall>,
    ) -> impl Future<Output = JobOutcome<Option<ToolOutput>>> + Send;

    /// Sends a notification to the application code, without waiting until the code has handled it.
    fn notify(&self, notification: CallNotification);

    /// Resolves when the peer no longer runs any job whose caller has stopped waiting. By default,
    /// resolves at once.
    fn wait_until_idle(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// The kinds of jobs that a peer handles, besides runs of tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct HandledJobs {
    /// Whether the peer decides on approvals.
    pub approvals: bool,
    /// Whether the peer checks calls before they run.
    pub gate: bool,
    /// Whether the peer is notified of calls.
    pub notifications: bool,
}

/// A run of a tool by a peer.
#[derive(Debug, Clone)]
pub struct ToolRun<T> {
    /// The identifier of the tool for the peer.
    pub tool: T,
    /// The registered name of the tool. The name in the call can be an alias.
    pub name: String,
    /// The arguments of the call, validated and with defaults filled in.
    pub arguments: JsonObject,
    /// The ID of the call.
    pub call_id: String,
}

/// The start or the end of a call. Contains no arguments and no result.
#[derive(Debug, Clone)]
pub struct CallNotification {
    /// The name of the tool in the call.
    pub tool: String,
    /// The ID of the call.
    pub call_id: String,
    /// The label of the tool's MCP server, or its URL if it has no label.
    pub server: Option<String>,
    /// How the call ended; `None` for the start.
    pub end: Option<CallEnd>,
}

/// How a call ended, and how long it took.
#[derive(Debug, Clone, Copy)]
pub struct CallEnd {
    /// Why the call failed; `None` if it succeeded.
    pub error_code: Option<ErrorCode>,
    /// The duration of the call.
    pub elapsed: Duration,
}

/// A call of an execution, and whether the peer runs the tool of the call.
#[derive(Debug)]
pub struct PeerCall {
    /// The call to run.
    pub call: ToolCall,
    /// Whether the peer runs the tool of the call. If so, the call waits until the peer is free,
    /// and the timeout of the call begins when it is the call's turn.
    pub is_by_peer: bool,
}

/// The channel to the peer of one execution.
pub struct JobChannel<P> {
    peer: P,
    /// Locked by the call whose turn it is. The peer is free for that call, so that the timeout of
    /// the call's tool does not elapse while the peer runs other code.
    turn: Arc<AsyncMutex<()>>,
}

/// The link from the context of a call to the channel of its execution.
struct ChannelLink<P> {
    channel: Arc<JobChannel<P>>,
    has_turn: bool,
}

impl<P: JobPeer> JobChannel<P> {
    /// Opens a channel to `peer`.
    pub fn new(peer: P) -> Arc<Self> {
        Arc::new(Self {
            peer,
            turn: Arc::default(),
        })
    }

    /// Returns the peer.
    pub fn peer(&self) -> &P {
        &self.peer
    }

    /// Returns the channel of a call with this context.
    pub fn find(context: &CallContext) -> Option<&Arc<Self>> {
        find_link(context).map(|link| &link.channel)
    }

    /// Returns a context for calls that use this channel. `has_turn` is whether the caller holds
    /// the [turn](Self::acquire_turn) while the calls run.
    pub fn context(self: &Arc<Self>, context: &CallContext, has_turn: bool) -> CallContext {
        CallContext {
            link: Some(Link::new(ChannelLink {
                channel: Arc::clone(self),
                has_turn,
            })),
            ..context.clone()
        }
    }

    /// Waits until no other call has the turn and the peer is free.
    pub async fn acquire_turn(&self) -> OwnedMutexGuard<()> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        self.peer.wait_until_idle().await;
        turn
    }

    async fn acquire_turn_unless_held(&self, context: &CallContext) -> Option<OwnedMutexGuard<()>> {
        if find_link::<P>(context).is_some_and(|link| link.has_turn) {
            return None;
        }
        Some(self.acquire_turn().await)
    }

    /// Runs calls, and passes the index and the result of each call that has ended to
    /// `on_finished`. Calls of the peer's tools run one after the other. All other calls run
    /// concurrently with each other and with the peer's calls.
    pub async fn run<F>(
        self: &Arc<Self>,
        executor: &Executor,
        calls: Vec<PeerCall>,
        context: &CallContext,
        on_finished: impl Fn(usize, ToolResult) -> F,
    ) where
        F: Future<Output = ()>,
    {
        let calls = calls.into_iter().enumerate();
        let (peer_calls, other_calls): (Vec<_>, Vec<_>) =
            calls.partition(|(_, call)| call.is_by_peer);
        let peer_run = async {
            let context = self.context(context, true);
            for (index, PeerCall { call, .. }) in peer_calls {
                let turn = self.acquire_turn().await;
                let result = executor.execute_one(call, &context).await;
                drop(turn);
                on_finished(index, result).await;
            }
        };
        let (indexes, parallel_calls): (Vec<_>, Vec<_>) = other_calls
            .into_iter()
            .map(|(index, PeerCall { call, .. })| (index, call))
            .unzip();
        let context = self.context(context, false);
        let on_ended = |index: usize, result| on_finished(indexes[index], result);
        let parallel_run = executor.execute_parallel_each(parallel_calls, &context, on_ended);
        Box::pin(join(peer_run, parallel_run)).await;
    }
}

fn find_link<P: JobPeer>(context: &CallContext) -> Option<&ChannelLink<P>> {
    context.link.as_ref()?.get()
}

/// Returns the failure of a job that has no outcome; `job` names the job.
fn cancelled_failure(job: &str) -> ToolFailure {
    ToolFailure::new(ErrorCode::Cancelled, format!("{job} was cancelled"))
}

#[cfg(test)]
mod tests;
