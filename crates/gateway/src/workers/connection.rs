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

/// Both directions of a worker's connection.
struct WorkerStream<S> {
    lines: LineReader<S>,
    writer: LineWriter<S>,
}

impl<S: AsyncRead + AsyncWrite> WorkerStream<S> {
    async fn read(&mut self) -> Result<WorkerMessage, ConnectionEnd> {
        // One read may buffer many short lines. The budget is consumed before reading, so that no
        // line is lost if the future is dropped.
        consume_budget().await;
        Ok(message::read(&self.lines.next().await?)?)
    }
}

impl WorkerRegistration {
    /// Sends calls to the worker until its connection ends or `died` resolves, or, between calls,
    /// until `stopping` resolves or `admission` ends.
    pub async fn work<S>(
        mut self,
        stream: S,
        stopping: impl Future<Output = ()>,
        died: impl Future<Output = ()>,
        mut admission: AdmissionWatch,
    ) where
        S: AsyncRead + AsyncWrite,
    {
        let (lines, writer) = rpc_connection::split(stream, self.workers.max_message_bytes());
        let mut connection = WorkerStream { lines, writer };
        let died = std::pin::pin!(died);
        let end = self
            .serve(&mut connection, stopping, died, &mut admission)
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
        stopping: impl Future<Output = ()>,
        mut died: Pin<&mut impl Future<Output = ()>>,
        admission: &mut AdmissionWatch,
    ) -> ConnectionEnd
    where
        S: AsyncRead + AsyncWrite,
    {
        let mut stopping = std::pin::pin!(stopping);
        self.workers.mark_idle(self.id);
        for number in 1.. {
            let (tool, job) = loop {
                tokio::select! {
                    biased;
                    () = admission.ended() => return ConnectionEnd::NotAllowed,
                    Some(call) = self.calls.recv() => break call,
                    received = connection.read() => {
                        if let Err(end) = self.handle(connection, received).await {
                            return end;
                        }
                    }
                    () = &mut stopping => return ConnectionEnd::Stopping,
                    () = &mut died => return ConnectionEnd::Died,
                }
            };
            let run = self.run(connection, number, &tool, job, died.as_mut(), admission);
            if let Err(end) = run.await {
                return end;
            }
            self.workers.mark_idle(self.id);
        }
        ConnectionEnd::Closed
    }

    /// Handles a message of a worker outside of a call.
    async fn handle<S>(
        &self,
        connection: &mut WorkerStream<S>,
        received: Result<WorkerMessage, ConnectionEnd>,
    ) -> Result<(), ConnectionEnd>
    where
        S: AsyncRead + AsyncWrite,
    {
        match received? {
            WorkerMessage::Ping(id) => {
                connection
                    .writer
                    .send(&rpc_connection::empty_response(&id))
                    .await
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
        mut died: Pin<&mut impl Future<Output = ()>>,
        admission: &mut AdmissionWatch,
    ) -> Result<(), ConnectionEnd>
    where
        S: AsyncRead + AsyncWrite,
    {
        if job.reply.is_closed() {
            // The caller gave up before the worker received the call.
            return Ok(());
        }
        let call = message::call(id, tool.name().as_str(), &job);
        let outcome = tokio::select! {
            biased;
            written = connection.writer.send(&call) => written,
            // A partially sent call cannot be withdrawn.
            () = job.reply.closed() => return Err(ConnectionEnd::Unread),
            () = &mut died => Err(ConnectionEnd::Died),
        };
        let mut is_cancelled = false;
        let mut outcome = outcome.map(|()| None);
        while let Ok(None) = outcome {
            let received = tokio::select! {
                biased;
                received = connection.read() => received,
                () = &mut died => Err(ConnectionEnd::Died),
                // The worker need not respond to a cancelled call, so the connection ends now.
                () = admission.ended(), if is_cancelled => Err(ConnectionEnd::NotAllowed),
                () = job.reply.closed(), if !is_cancelled => {
                    is_cancelled = true;
                    outcome = connection.writer.send(&message::cancelled(id)).await.map(|()| None);
                    continue;
                }
            };
            outcome = match received {
                Ok(WorkerMessage::Response(to, response)) if to == id => Ok(Some(response)),
                Ok(WorkerMessage::Progress(of, progress)) => {
                    if let Some(link) = job.link.as_ref().filter(|_| of == id) {
                        link.progress(&progress);
                    }
                    Ok(None)
                }
                received => self.handle(connection, received).await.map(|()| None),
            };
        }
        match outcome {
            Ok(response) => {
                if let Some(response) = response {
                    let bytes = response.as_ref().map_or(0, |raw| raw.get().len());
                    let account = format!("results of {}", tool.name());
                    compute::run(&account, bytes, || finish(job, response)).await;
                }
                Ok(())
            }
            Err(end) => {
                let (name, text) = (tool.name(), end.text("worker"));
                let message =
                    format!("The worker disconnected during the call to tool '{name}': {text}");
                let failure = ToolFailure::new(ErrorCode::Unavailable, message);
                // The caller may have given up.
                drop(job.reply.send(Err(failure)));
                Err(end)
            }
        }
    }
}

/// Sends the worker's response to the caller.
fn finish(job: Box<WorkerJob>, response: Result<Box<RawValue>, Value>) {
    let outcome = match response {
        Err(error) => Err(rpc_connection::failure_of(
            &error,
            "The worker reported an error",
        )),
        Ok(raw) => match serde_json::from_str::<Value>(raw.get()) {
            Ok(result) => {
                let outcome = message::outcome(&result);
                let link = job.link.filter(|_| result.get("content").is_some());
                let readable = link
                    .and_then(|link| as_call_tool_result(raw, result, link.requester.version).ok());
                match readable {
                    Some(readable) => ServerResponse::Result(readable).add_to(outcome),
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

/// Resolves a moment after the process with this id has ended; never resolves if the process cannot
/// be observed.
///
/// The connection alone does not show the end: programs that the process has started may have
/// inherited the connection and keep it open.
pub fn ended(pid: Option<i32>) -> impl Future<Output = ()> + Send + 'static {
    let pid = pid.and_then(Pid::from_raw);
    let watched = pid.map(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK));
    async move {
        let is_over = match watched {
            Some(Ok(process)) => end_of(process).await.is_ok(),
            // The process has already ended.
            Some(Err(error)) => error == Errno::SRCH,
            None => false,
        };
        if !is_over {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(LAST_OUTPUT_TIMEOUT).await;
    }
}

async fn end_of(process: OwnedFd) -> io::Result<()> {
    // A pidfd is not a pipe, but becomes readable like one; nothing is read from it.
    Receiver::from_owned_fd_unchecked(process)?.readable().await
}
