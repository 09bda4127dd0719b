//! The engine's handle of the PHP thread that waits for an execution.

use pillion_core::executor::{ApprovalRequest, Decision, ReadyCall};
use pillion_core::job_channel::{
    CallNotification, HandledJobs, JobOutcome, JobPeer, PeerGone, ToolRun,
};
use pillion_core::tool::{ToolFailure, ToolOutput};

use crate::mcp::ServerJob;
use crate::wait::{Job, JobSender};

/// A job that the engine passes to the PHP thread.
pub enum ExecutionJob {
    /// Run a PHP tool. The number distinguishes the tool from a later one with the same name.
    Run(Job<ToolRun<u64>, Result<ToolOutput, ToolFailure>>),
    /// Call the `approve` callable to decide on a call.
    Approve(Job<Box<ApprovalRequest>, Result<Decision, ToolFailure>>),
    /// Call the `before` callable before a call runs.
    Enter(Job<Box<ReadyCall>, Result<Option<ToolOutput>, ToolFailure>>),
    /// Notify the application about the start or end of a call.
    Notice(CallNotification),
    /// Handle a job of an MCP client. The number is the index of the client among the participants.
    Mcp(usize, ServerJob),
}

/// The PHP thread that waits for an execution.
pub struct PhpThread {
    /// Sends jobs to the thread. If the thread no longer waits, a job is dropped, and with it the
    /// sender of its response.
    pub jobs: JobSender<ExecutionJob>,
    /// The jobs that the application handles.
    pub handled_jobs: HandledJobs,
}

impl PhpThread {
    async fn request<Q, A>(
        &self,
        to_job: impl FnOnce(Job<Q, Result<A, ToolFailure>>) -> ExecutionJob,
        request: Q,
    ) -> JobOutcome<A> {
        let (job, response) = Job::new(request);
        (self.jobs)(to_job(job));
        response.await.map_err(|_| PeerGone)
    }
}

impl JobPeer for PhpThread {
    type Tool = u64;

    const NAME: &'static str = "PHP thread";

    fn handled_jobs(&self) -> HandledJobs {
        self.handled_jobs
    }

    async fn run_tool(&self, run: ToolRun<u64>) -> JobOutcome<ToolOutput> {
        self.request(ExecutionJob::Run, run).await
    }

    async fn approve(&self, request: Box<ApprovalRequest>) -> JobOutcome<Decision> {
        self.request(ExecutionJob::Approve, request).await
    }

    async fn enter(&self, call: Box<ReadyCall>) -> JobOutcome<Option<ToolOutput>> {
        self.request(ExecutionJob::Enter, call).await
    }

    fn notify(&self, notification: CallNotification) {
        (self.jobs)(ExecutionJob::Notice(notification));
    }
}
