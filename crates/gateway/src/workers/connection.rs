use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::time::Duration;

use pillion_core::compute;
use pillion_core::tool::{ErrorCode, ServerResponse, ToolFailure};
use pillion_mcp_client::as_call_tool_result;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe::Receiver;
use tokio::task::consume_budget;

use super::message::{self, WorkerMessage};
use super::{WorkerJob, WorkerRegistration, WorkerTool};
use crate::process::AdmissionWatch;
use crate::rpc_connection::{self, ConnectionEnd, LineReader, LineWriter};

/// The receiving and the sending side of a worker's connection.
struct WorkerStream<S> {
    lines: LineReader<S>,
    writer: LineWriter<S>,
}

impl<S: AsyncRead + AsyncWrite> WorkerStream<S> {
    async fn read(&mut self) -> Result<WorkerMessage, ConnectionEnd> {
        // The task yields to other tasks regularly, because one read may buffer many short lines.
        // The task's budget is consumed before reading, so that no line is lost if the future is
        // dropped.
        consume_budget().await;
        Ok(message::parse(&self.lines.next().await?)?)
    }
}

impl WorkerRegistration {
    /// Sends calls to the worker until its connection ends or `process_end` resolves. Between
    /// calls, also stops when `stop_signal` resolves or `admission` is revoked.
    pub async fn serve_calls<S>(
        mut self,
        stream: S,
        stop_signal: impl Future<Output = ()>,
        process_end: impl Future<Output = ()>,
        mut admission: AdmissionWatch,
    ) where
        S: AsyncRead + AsyncWrite,
    {
        let (lines, writer) = rpc_connection::split(stream, self.workers.max_message_bytes());
        let mut connection = WorkerStream { lines, writer };
        let process_end = std::pin::pin!(process_end);
        let end = self
            .serve(&mut connection, stop_signal, process_end, &mut admission)
            .await;
        let reason = end.text("worker");
        tracing::debug!(
            worker.id = self.id,
            reason,
            "The connection of a worker ended"
        );
    }

    async fn serve<S>(
        &mut self,
        connection: &mut WorkerStream<S>,
        stop_signal: impl Future<Output = ()>,
        mut process_end: Pin<&mut impl Future<Output = ()>>,
        admission: &mut AdmissionWatch,
    ) -> ConnectionEnd
    where
        S: AsyncRead + AsyncWrite,
    {
        let mut stop_signal = std::pin::pin!(stop_signal);
        self.workers.mark_idle(self.id);
        for number in 1.. {
            let (tool, job) = loop {
                tokio::select! {
                    biased;
                    () = admission.wait_until_revoked() => return ConnectionEnd::NotAllowed,
                    Some(call) = self.calls.recv() => break call,
                    result = connection.read() => {
                        if let Err(end) = self.handle(connection, result).await {
                            return end;
                        }
                    }
                    () = &mut stop_signal => return ConnectionEnd::Stopping,
                    () = &mut process_end => return ConnectionEnd::ProcessEnded,
                }
            };
            let end_signal = process_end.as_mut();
            let call = self.run(connection, number, &tool, job, end_signal, admission);
            if let Err(end) = call.await {
                return end;
            }
            self.workers.mark_idle(self.id);
        }
        ConnectionEnd::Closed
    }

    /// Handles a message that a worker sends while it runs no call.
    async fn handle<S>(
        &self,
        connection: &mut WorkerStream<S>,
        result: Result<WorkerMessage, ConnectionEnd>,
    ) -> Result<(), ConnectionEnd>
    where
        S: AsyncRead + AsyncWrite,
    {
        match result? {
            WorkerMessage::Ping(id) => {
                let response = rpc_connection::empty_response(&id);
                connection.writer.send(&response).await
            }
            WorkerMessage::Draining => {
                self.workers.mark_draining(self.id);
                Ok(())
            }
            WorkerMessage::Response(..) => Err(ConnectionEnd::UnknownRequest),
            WorkerMessage::Progress(..) | WorkerMessage::Other => Ok(()),
        }
    }

    /// Runs one call on the worker.
    async fn run<S>(
        &self,
        connection: &mut WorkerStream<S>,
        id: u64,
        tool: &WorkerTool,
        mut job: Box<WorkerJob>,
        mut process_end: Pin<&mut impl Future<Output = ()>>,
        admission: &mut AdmissionWatch,
    ) -> Result<(), ConnectionEnd>
    where
        S: AsyncRead + AsyncWrite,
    {
        if job.reply.is_closed() {
            // The call is dropped, because the caller stopped waiting before the worker received
            // the call.
            return Ok(());
        }
        let call = message::call_request(id, tool.name().as_str(), &job);
        let send_result = tokio::select! {
            biased;
            result = connection.writer.send(&call) => result,
            // The connection ends, because a partially sent call cannot be withdrawn.
            () = job.reply.closed() => return Err(ConnectionEnd::CallNotRead),
            () = &mut process_end => Err(ConnectionEnd::ProcessEnded),
        };
        let mut is_cancelled = false;
        let mut outcome = send_result.map(|()| None);
        while let Ok(None) = outcome {
            let next_message = tokio::select! {
                biased;
                message = connection.read() => message,
                () = &mut process_end => Err(ConnectionEnd::ProcessEnded),
                // After a cancellation, the connection may end before a response arrives, because
                // the worker need not respond to a cancelled call.
                () = admission.wait_until_revoked(), if is_cancelled => Err(ConnectionEnd::NotAllowed),
                () = job.reply.closed(), if !is_cancelled => {
                    is_cancelled = true;
                    outcome = connection.writer.send(&message::cancelled_notification(id)).await.map(|()| None);
                    continue;
                }
            };
            outcome = match next_message {
                Ok(WorkerMessage::Response(response_id, response)) if response_id == id => {
                    Ok(Some(response))
                }
                Ok(WorkerMessage::Progress(progress_id, progress)) => {
                    if let Some(link) = job.link.as_ref().filter(|_| progress_id == id) {
                        link.forward_progress(&progress);
                    }
                    Ok(None)
                }
                message => self.handle(connection, message).await.map(|()| None),
            };
        }
        match outcome {
            Ok(None) => Ok(()),
            Ok(Some(response)) => {
                let bytes = response.as_ref().map_or(0, |raw| raw.get().len());
                let account = format!("results of {}", tool.name());
                compute::run(&account, bytes, || finish(job, response)).await;
                Ok(())
            }
            Err(end) => {
                let (name, text) = (tool.name(), end.text("worker"));
                let message =
                    format!("The worker disconnected during the call to tool '{name}': {text}");
                let failure = ToolFailure::new(ErrorCode::Unavailable, message);
                // An error is ignored, because the caller may have stopped waiting.
                drop(job.reply.send(Err(failure)));
                Err(end)
            }
        }
    }
}

/// Sends the worker's response to the caller.
fn finish(job: Box<WorkerJob>, response: Result<Box<RawValue>, Value>) {
    let outcome = match response {
        Err(error) => Err(rpc_connection::parse_failure(
            &error,
            "The worker reported an error",
        )),
        Ok(raw) => match serde_json::from_str::<Value>(raw.get()) {
            Ok(result) => {
                let outcome = message::to_output(&result);
                let link = job.link.filter(|_| result.get("content").is_some());
                let checked_result = link
                    .and_then(|link| as_call_tool_result(raw, result, link.requester.version).ok());
                match checked_result {
                    Some(checked_result) => ServerResponse::Result(checked_result).add_to(outcome),
                    None => outcome,
                }
            }
            Err(error) => Err(ToolFailure::internal(format!(
                "The worker's result cannot be read: {error}"
            ))),
        },
    };
    drop(job.reply.send(outcome));
}

/// Maximum time for reading the last output of an ended process.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(200);

/// Resolves shortly after the process with this ID has ended; never resolves if the process cannot
/// be observed.
///
/// The connection alone does not show that the process has ended: programs that the process has
/// started may have inherited the connection and keep it open.
pub fn wait_for_process_end(pid: Option<i32>) -> impl Future<Output = ()> + Send + 'static {
    let pid = pid.and_then(Pid::from_raw);
    let process_fd = pid.map(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK));
    async move {
        let has_ended = match process_fd {
            Some(Ok(process)) => wait_until_readable(process).await.is_ok(),
            // The process has already ended.
            Some(Err(error)) => error == Errno::SRCH,
            None => false,
        };
        if !has_ended {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(LAST_OUTPUT_TIMEOUT).await;
    }
}

async fn wait_until_readable(process: OwnedFd) -> io::Result<()> {
    // The process file descriptor is treated like a pipe, because it becomes readable when the
    // process ends. Nothing is read from it.
    Receiver::from_owned_fd_unchecked(process)?.readable().await
}
