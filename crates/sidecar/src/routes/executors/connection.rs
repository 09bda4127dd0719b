use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::consume_budget;

use super::PhpExecutor;
use super::execution::Execution;
use super::executions::{ExecutionSize, Executions};
use super::message::{self, ExecuteParams, PhpMessage};
use super::php_process::PhpProcess;
use crate::outbox::Outbox;
use pillion_gateway::process::AdmissionWatch;
use pillion_gateway::rpc_connection::{self, ConnectionEnd, LineWriter};

/// Maximum time for sending the last messages before the connection closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

impl PhpExecutor {
    /// Runs the calls of the PHP process until its connection ends, `died` resolves or `admission`
    /// ends; or, between executions, until `stopping` resolves.
    pub(super) async fn serve<S>(
        self,
        stream: S,
        stopping: impl Future<Output = ()>,
        died: impl Future<Output = ()>,
        mut admission: AdmissionWatch,
    ) where
        S: AsyncRead + AsyncWrite,
    {
        let (mut lines, writer) = rpc_connection::split(stream, self.max_message_bytes);
        let php = Arc::new(PhpProcess::default());
        let mut executions = Executions::new(self.max_message_bytes);
        // A reply that waits for room in the outbox. No message is read until the reply is queued,
        // so a process that sends requests and reads no responses fills only its own buffers.
        let mut reply = None;
        let mut writing = std::pin::pin!(write(writer, php.outbox()));
        let mut stopping = std::pin::pin!(stopping);
        let mut died = std::pin::pin!(died);
        let mut is_stopping = false;
        let end = loop {
            if is_stopping && executions.is_empty() && reply.is_none() {
                break ConnectionEnd::Stopping;
            }
            // One read may buffer many short lines.
            consume_budget().await;
            let handled = tokio::select! {
                biased;
                () = admission.ended() => Err(ConnectionEnd::NotAllowed),
                end = &mut writing => Err(end),
                Some(ended) = executions.next_ended() => {
                    if let Err(id) = ended {
                        tracing::error!(execution = id, "An execution of a PHP process panicked");
                        let error = "The execution failed unexpectedly";
                        // At most one such message is queued for each admitted execution.
                        php.send_now(rpc_connection::error(&json!(id), rpc_connection::INTERNAL_ERROR, error));
                    }
                    Ok(())
                }
                () = php.outbox().has_room(), if reply.is_some() => {
                    reply.take().into_iter().for_each(|reply| php.send_now(reply));
                    Ok(())
                }
                line = lines.next(), if reply.is_none() => match line {
                    Ok(line) => {
                        let handled = self.handle(&php, &mut executions, &line).await;
                        handled.map(|immediate| reply = immediate)
                    }
                    Err(end) => Err(end),
                },
                () = &mut died => Err(ConnectionEnd::Died),
                () = &mut stopping, if !is_stopping => {
                    is_stopping = true;
                    Ok(())
                }
            };
            if let Err(end) = handled {
                break end;
            }
        };
        tracing::debug!(
            reason = end.text("executor"),
            "The connection of an executor ended"
        );
        executions.shutdown().await;
        php.outbox().close();
        if matches!(end, ConnectionEnd::Stopping) {
            drop(tokio::time::timeout(CLOSE_TIMEOUT, writing).await);
        }
    }

    /// Handles a message. Returns the reply if one must be sent at once.
    async fn handle(
        &self,
        php: &Arc<PhpProcess>,
        executions: &mut Executions,
        line: &str,
    ) -> Result<Option<String>, ConnectionEnd> {
        match message::read(line)? {
            PhpMessage::Execute(id, params) => {
                let started = match params {
                    Ok(params) => self.execute(php, executions, id, *params, line.len()).await,
                    Err(error) => Err(error.to_string()),
                };
                let reject = |reason: String| {
                    rpc_connection::error(&json!(id), rpc_connection::INVALID_PARAMS, &reason)
                };
                return Ok(started.err().map(reject));
            }
            PhpMessage::Cancelled(id) => executions.cancel(id),
            PhpMessage::Response(id, response) => {
                if !php.respond(id, response) {
                    return Err(ConnectionEnd::UnknownRequest);
                }
            }
            PhpMessage::UnknownRequest(id) => {
                let error = rpc_connection::error(
                    &id,
                    rpc_connection::METHOD_NOT_FOUND,
                    "Method not found",
                );
                return Ok(Some(error));
            }
            PhpMessage::Other => {}
        }
        Ok(None)
    }

    /// Starts an execution.
    ///
    /// # Errors
    /// Returns why the execution is rejected; no call has run then.
    async fn execute(
        &self,
        php: &Arc<PhpProcess>,
        executions: &mut Executions,
        id: u64,
        mut params: ExecuteParams,
        message_bytes: usize,
    ) -> Result<(), String> {
        // Each call has its own copy of the context.
        let copies = params.calls.len().saturating_mul(params.context_bytes());
        let size = ExecutionSize {
            calls: params.calls.len(),
            bytes: message_bytes.saturating_add(copies),
        };
        executions
            .admit(id, size)
            .map_err(|rejection| rejection.to_string())?;
        if let Some(changes) = params.definitions.take() {
            let applied = self.apply(changes).await;
            applied.map_err(|error| error.to_string())?;
        }
        let (php, current_app) = (Arc::clone(php), self.current_app.clone());
        let execution = Execution::new(id, php, current_app, self.peer, &mut params);
        let run = execution.run(self.executor.clone(), params);
        executions.start(id, size, Box::pin(run));
        Ok(())
    }
}

/// Sends the lines of the outbox until it is closed and empty, or the connection breaks.
async fn write<S>(mut writer: LineWriter<S>, outbox: &Outbox<String>) -> ConnectionEnd
where
    S: AsyncRead + AsyncWrite,
{
    while let Some(line) = outbox.next().await {
        if let Err(end) = writer.send(&line).await {
            return end;
        }
    }
    ConnectionEnd::Closed
}
