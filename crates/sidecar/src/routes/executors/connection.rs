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
    /// Runs the calls of the PHP process until its connection ends, `process_end` resolves or
    /// `admission` is revoked. Once `shutdown` has resolved, also ends when no execution is
    /// running.
    pub(super) async fn serve<S>(
        self,
        stream: S,
        shutdown: impl Future<Output = ()>,
        process_end: impl Future<Output = ()>,
        mut admission: AdmissionWatch,
    ) where
        S: AsyncRead + AsyncWrite,
    {
        let (mut lines, writer) = rpc_connection::split(stream, self.max_message_bytes);
        let php = Arc::new(PhpProcess::default());
        let mut executions = Executions::new(self.max_message_bytes);
        // A response that waits for room in the outbox. No further message is read until the
        // response is queued, so a process that sends requests and reads no responses fills only
        // its own buffers.
        let mut reply = None;
        let mut write_future = std::pin::pin!(write_outbox(writer, php.outbox()));
        let mut shutdown = std::pin::pin!(shutdown);
        let mut process_end = std::pin::pin!(process_end);
        let mut is_stopping = false;
        let end = loop {
            if is_stopping && executions.is_empty() && reply.is_none() {
                break ConnectionEnd::Stopping;
            }
            // Yields to other tasks at intervals, because one read may buffer many short lines.
            consume_budget().await;
            let outcome = tokio::select! {
                biased;
                () = admission.wait_until_revoked() => Err(ConnectionEnd::NotAllowed),
                end = &mut write_future => Err(end),
                Some(execution_end) = executions.join_next() => {
                    if let Err(id) = execution_end {
                        tracing::error!(execution = id, "An execution of a PHP process panicked");
                        let error = "The execution failed unexpectedly: see the sidecar's log";
                        // The message is queued even if the outbox is full, because each admitted
                        // execution causes at most one error response.
                        php.send_now(rpc_connection::error_response(&json!(id), rpc_connection::INTERNAL_ERROR, error));
                    }
                    Ok(())
                }
                () = php.outbox().wait_for_room(), if reply.is_some() => {
                    reply.take().into_iter().for_each(|reply| php.send_now(reply));
                    Ok(())
                }
                line = lines.next(), if reply.is_none() => match line {
                    Ok(line) => {
                        let outcome = self.handle(&php, &mut executions, &line).await;
                        outcome.map(|immediate_reply| reply = immediate_reply)
                    }
                    Err(end) => Err(end),
                },
                () = &mut process_end => Err(ConnectionEnd::ProcessEnded),
                () = &mut shutdown, if !is_stopping => {
                    is_stopping = true;
                    Ok(())
                }
            };
            if let Err(end) = outcome {
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
            drop(tokio::time::timeout(CLOSE_TIMEOUT, write_future).await);
        }
    }

    /// Handles a message of the PHP process. Returns the response if one must be sent at once.
    async fn handle(
        &self,
        php: &Arc<PhpProcess>,
        executions: &mut Executions,
        line: &str,
    ) -> Result<Option<String>, ConnectionEnd> {
        match message::parse_message(line)? {
            PhpMessage::Execute(id, params) => {
                let start_outcome = match params {
                    Ok(params) => self.execute(php, executions, id, *params, line.len()).await,
                    Err(error) => Err(error.to_string()),
                };
                let code = rpc_connection::INVALID_PARAMS;
                let reject =
                    |reason: String| rpc_connection::error_response(&json!(id), code, &reason);
                return Ok(start_outcome.err().map(reject));
            }
            PhpMessage::Cancelled(id) => executions.cancel(id),
            PhpMessage::Response(id, response) => {
                if !php.deliver_response(id, response) {
                    return Err(ConnectionEnd::UnknownRequest);
                }
            }
            PhpMessage::UnknownRequest(id) => {
                let code = rpc_connection::METHOD_NOT_FOUND;
                let error = rpc_connection::error_response(&id, code, "Method not found");
                return Ok(Some(error));
            }
            PhpMessage::UnknownNotification => {}
        }
        Ok(None)
    }

    /// Starts an execution.
    ///
    /// # Errors
    /// Returns why the execution is rejected; none of its calls has run.
    async fn execute(
        &self,
        php: &Arc<PhpProcess>,
        executions: &mut Executions,
        id: u64,
        mut params: ExecuteParams,
        message_bytes: usize,
    ) -> Result<(), String> {
        // The size of the context counts once per call, because each call has its own copy of the
        // context.
        let context_bytes = params.calls.len().saturating_mul(params.context_bytes());
        let size = ExecutionSize {
            calls: params.calls.len(),
            bytes: message_bytes.saturating_add(context_bytes),
        };
        executions
            .admit(id, size)
            .map_err(|rejection| rejection.to_string())?;
        if let Some(changes) = params.definitions.take() {
            let apply_outcome = self.apply(changes).await;
            apply_outcome.map_err(|error| error.to_string())?;
        }
        let (php, current_app) = (Arc::clone(php), self.current_app.clone());
        let execution = Execution::new(id, php, current_app, self.peer, &mut params);
        let run = execution.run(self.executor.clone(), params);
        executions.start(id, size, Box::pin(run));
        Ok(())
    }
}

/// Sends the lines of the outbox until the outbox is closed and empty, or a write fails.
async fn write_outbox<S>(mut writer: LineWriter<S>, outbox: &Outbox<String>) -> ConnectionEnd
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
