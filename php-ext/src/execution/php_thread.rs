//! The engine's handle to the PHP thread that waits for the results of an execution.

use pillion_core::executor::{ApprovalRequest, Decision, ReadyCall};
use pillion_core::job_channel::{
    CallNotification, HandledJobs, JobOutcome, JobPeer, PeerGone, ToolRun,
};
use pillion_core::tool::{ToolFailure, ToolOutput};

use crate::mcp::ServerJob;
use crate::wait::{Job, JobSender};

/// A job that the engine passes to the PHP thread.
pub enum ExecutionJob {
    /// Run a PHP tool. The `u64` is the registration number, which distinguishes the tool from a
    /// later tool with the same name.
    RunTool(Job<ToolRun<u64>, Result<ToolOutput, ToolFailure>>),
    /// Call the `approve` callable to decide on a call.
    CallApprove(Job<Box<ApprovalRequest>, Result<Decision, ToolFailure>>),
    /// Call the `before` callable before a call runs.
    CallBefore(Job<Box<ReadyCall>, Result<Option<ToolOutput>, ToolFailure>>),
    /// Notify the application about the start or end of a call.
    NotifyApplication(CallNotification),
    /// Handle a job of an MCP client. The number is the index of the client among the clients that
    /// take part in the execution.
    Mcp(usize, ServerJob),
}

/// The PHP thread that waits for an execution.
pub struct PhpThread {
    /// Sends jobs to the PHP thread. If the PHP thread has stopped waiting, the job and the sender
    /// of its response are dropped.
    pub job_sender: JobSender<ExecutionJob>,
    /// The kinds of jobs that the application handles.
    pub handled_jobs: HandledJobs,
}

impl PhpThread {
    async fn request<Request, Response>(
        &self,
        to_job: impl FnOnce(Job<Request, Result<Response, ToolFailure>>) -> ExecutionJob,
        request: Request,
    ) -> JobOutcome<Response> {
        let (job, response) = Job::new(request);
        (self.job_sender)(to_job(job));
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
        self.request(ExecutionJob::RunTool, run).await
    }

    async fn approve(&self, request: Box<ApprovalRequest>) -> JobOutcome<Decision> {
        self.request(ExecutionJob::CallApprove, request).await
    }

    async fn enter(&self, call: Box<ReadyCall>) -> JobOutcome<Option<ToolOutput>> {
        self.request(ExecutionJob::CallBefore, call).await
    }

    fn notify(&self, notification: CallNotification) {
        (self.job_sender)(ExecutionJob::NotifyApplication(notification));
    }
}
