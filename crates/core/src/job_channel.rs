//! Calls of application code, such as PHP, that another thread or process runs: its tools, its
//! decisions on approvals, its checks before calls, and its notifications of calls.
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

/// The outcome of a job: what the application code returned, or that the peer ended first.
pub type JobOutcome<T> = Result<Result<T, ToolFailure>, PeerGone>;

/// The error of a job whose peer no longer waits for the execution: the job has no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer no longer waits for the execution")]
pub struct PeerGone;

/// The thread or process that runs application code for the calls of one execution. A job whose
/// caller has given up may still run, because application code cannot be interrupted.
pub trait JobPeer: Send + Sync + 'static {
    /// How the peer identifies a tool.
    type Tool: Clone + Send + Sync + 'static;

    /// The name of the peer in errors, such as `PHP thread`.
    const NAME: &'static str;

    /// Returns the kinds of jobs that the peer handles, besides runs of tools.
    fn handled_jobs(&self) -> HandledJobs;

    /// Runs a tool.
    fn run_tool(
        &self,
        run: ToolRun<Self::Tool>,
    ) -> impl Future<Output = JobOutcome<ToolOutput>> + Send;

    /// Decides on an approval.
    fn approve(
        &self,
        request: Box<ApprovalRequest>,
    ) -> impl Future<Output = JobOutcome<Decision>> + Send;

    /// Checks a call that is about to run: see [`CallGate`](crate::executor::CallGate).
    fn enter(
        &self,
        call: Box<ReadyCall>,
    ) -> impl Future<Output = JobOutcome<Option<ToolOutput>>> + Send;

    /// Receives a notification, without waiting for the peer.
    fn notify(&self, notification: CallNotification);

    /// Resolves when the peer runs no job of the execution whose caller has given up. By default,
    /// resolves at once.
    fn idle(&self) -> impl Future<Output = ()> + Send {
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
    /// How the peer identifies the tool.
    pub tool: T,
    /// The tool's own name, which may differ from the name in the call.
    pub name: String,
    /// The arguments of the call, validated and with defaults filled in.
    pub arguments: JsonObject,
    /// The id of the call.
    pub call_id: String,
}

/// The start or the end of a call. Contains no arguments and no result.
#[derive(Debug, Clone)]
pub struct CallNotification {
    /// The name of the tool in the call.
    pub tool: String,
    /// The id of the call.
    pub call_id: String,
    /// The label of the tool's MCP server, or its URL if it has no label.
    pub server: Option<String>,
    /// How the call ended; `None` for the start.
    pub end: Option<CallEnd>,
}

/// How a call ended, and after what time.
#[derive(Debug, Clone, Copy)]
pub struct CallEnd {
    /// Why the call failed; `None` if it succeeded.
    pub error_code: Option<ErrorCode>,
    /// The duration of the call.
    pub elapsed: Duration,
}

/// A call of an execution, with whether the peer runs the call's tool.
#[derive(Debug)]
pub struct PeerCall {
    /// The call to run.
    pub call: ToolCall,
    /// Whether the call waits until the peer is free. The timeout of the call then begins when it is
    /// the call's turn.
    pub is_by_peer: bool,
}

/// The channel to the peer of one execution.
pub struct JobChannel<P> {
    peer: P,
    /// A call that holds the turn can expect that the peer is free, so that the timeout of a tool
    /// does not elapse while the peer runs other code.
    turn: Arc<AsyncMutex<()>>,
}

/// The link from the context of a call to the channel of its execution.
struct ChannelLink<P> {
    channel: Arc<JobChannel<P>>,
    holds_turn: bool,
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
        link_of(context).map(|link| &link.channel)
    }

    /// Returns a context for calls that use this channel. `holds_turn` is whether the calls run
    /// while their caller holds the [turn](Self::acquire_turn).
    pub fn context(self: &Arc<Self>, context: &CallContext, holds_turn: bool) -> CallContext {
        CallContext {
            link: Some(Link::new(ChannelLink {
                channel: Arc::clone(self),
                holds_turn,
            })),
            ..context.clone()
        }
    }

    /// Waits until no other call has the turn and the peer is free.
    pub async fn acquire_turn(&self) -> OwnedMutexGuard<()> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        self.peer.idle().await;
        turn
    }

    async fn acquire_turn_unless_held(&self, context: &CallContext) -> Option<OwnedMutexGuard<()>> {
        if link_of::<P>(context).is_some_and(|link| link.holds_turn) {
            return None;
        }
        Some(self.acquire_turn().await)
    }

    /// Runs calls, and passes the index and the result of each call that has ended to `finished`.
    /// The calls whose tools the peer runs run one after the other; all other calls run
    /// concurrently with each other and with the peer's calls.
    pub async fn run<F>(
        self: &Arc<Self>,
        executor: &Executor,
        calls: Vec<PeerCall>,
        context: &CallContext,
        finished: impl Fn(usize, ToolResult) -> F,
    ) where
        F: Future<Output = ()>,
    {
        let calls = calls.into_iter().enumerate();
        let (by_peer, others): (Vec<_>, Vec<_>) = calls.partition(|(_, call)| call.is_by_peer);
        let by_peer = async {
            let context = self.context(context, true);
            for (index, PeerCall { call, .. }) in by_peer {
                let turn = self.acquire_turn().await;
                let result = executor.execute_one(call, &context).await;
                drop(turn);
                finished(index, result).await;
            }
        };
        let (indexes, others): (Vec<_>, Vec<_>) = others
            .into_iter()
            .map(|(index, PeerCall { call, .. })| (index, call))
            .unzip();
        let context = self.context(context, false);
        let others = executor.execute_parallel_each(others, &context, |index, result| {
            finished(indexes[index], result)
        });
        Box::pin(join(by_peer, others)).await;
    }
}

fn link_of<P: JobPeer>(context: &CallContext) -> Option<&ChannelLink<P>> {
    context.link.as_ref()?.get()
}

/// Returns the failure of a job that has no outcome; `what` is the job.
fn cancelled(what: &str) -> ToolFailure {
    ToolFailure::new(ErrorCode::Cancelled, format!("{what} was cancelled"))
}

#[cfg(test)]
mod tests;
