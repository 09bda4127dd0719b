use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, WriteHalf};
use tokio::task::consume_budget;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

use super::PhpExecutor;
use super::execution::{Execution, HeaderLimits};
use super::executions::{ExecutionSize, Executions};
use super::message::{self, ExecuteParams, PhpMessage};
use super::php_process::PhpProcess;
use crate::outbox::Outbox;
use pillion_gateway::process::AdmissionWatch;

/// Time in which the last messages are sent before the connection closes.
const FAREWELL: Duration = Duration::from_secs(5);

/// Why the connection of an executor ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the PHP process closed its connection")]
    Closed,
    #[error("the sidecar is stopping")]
    Stopping,
    #[error("the PHP process has ended")]
    Died,
    #[error("the socket rules no longer allow the PHP process")]
    Unwelcome,
    #[error("the PHP process sent an invalid message: {0}")]
    InvalidMessage(#[from] serde_json::Error),
    #[error("the PHP process sent a message longer than workers.max_message_bytes")]
    TooLong,
    #[error("the PHP process sent a response to an unknown request")]
    UnknownRequest,
    #[error("the connection of the PHP process broke: {0}")]
    Broke(#[from] io::Error),
}

impl PhpExecutor {
    /// Runs the calls of the PHP process until its connection ends, `died` resolves or `welcome`
    /// ends; or, between executions, until `stopping` resolves.
    pub(super) async fn serve<S>(
        self,
        stream: S,
        stopping: impl Future<Output = ()>,
        died: impl Future<Output = ()>,
        mut welcome: AdmissionWatch,
    ) where
        S: AsyncRead + AsyncWrite,
    {
        let (reader, writer) = tokio::io::split(stream);
        let codec = LinesCodec::new_with_max_length(self.max_message_bytes);
        let mut lines = FramedRead::new(reader, codec);
        let php = Arc::new(PhpProcess::default());
        let mut executions = Executions::new(self.max_message_bytes);
        // A reply that waits for room in the outbox. Nothing more is read before it is queued, so
        // that a process that sends requests and reads no responses fills only its own buffers.
        let mut reply = None;
        let mut writing = std::pin::pin!(write(writer, php.outbox()));
        let mut stopping = std::pin::pin!(stopping);
        let mut died = std::pin::pin!(died);
        let mut is_stopping = false;
        let end = loop {
            if is_stopping && executions.is_empty() && reply.is_none() {
                break End::Stopping;
            }
            // A read contains many lines if they are short.
            consume_budget().await;
            let handled = tokio::select! {
                biased;
                () = welcome.ended() => Err(End::Unwelcome),
                written = &mut writing => Err(written.map_or_else(End::Broke, |()| End::Closed)),
                Some(ended) = executions.next_ended() => {
                    if let Err(id) = ended {
                        tracing::error!(execution = id, "An execution of a PHP process panicked");
                        let error = "The execution failed unexpectedly";
                        // At most one for each admitted execution.
                        php.send_now(message::error(&json!(id), message::INTERNAL_ERROR, error));
                    }
                    Ok(())
                }
                () = php.outbox().has_room(), if reply.is_some() => {
                    reply.take().into_iter().for_each(|reply| php.send_now(reply));
                    Ok(())
                }
                line = lines.next(), if reply.is_none() => match line {
                    None => Err(End::Closed),
                    Some(Ok(line)) => {
                        let handled = self.handle(&php, &mut executions, &line).await;
                        handled.map(|answer| reply = answer)
                    }
                    Some(Err(LinesCodecError::MaxLineLengthExceeded)) => Err(End::TooLong),
                    Some(Err(LinesCodecError::Io(error))) => Err(End::Broke(error)),
                },
                () = &mut died => Err(End::Died),
                () = &mut stopping, if !is_stopping => {
                    is_stopping = true;
                    Ok(())
                }
            };
            if let Err(end) = handled {
                break end;
            }
        };
        tracing::debug!(reason = %end, "The connection of an executor ended");
        executions.shutdown().await;
        php.outbox().close();
        if matches!(end, End::Stopping) {
            drop(tokio::time::timeout(FAREWELL, writing).await);
        }
    }

    /// Handles a message. Returns the reply, if the message needs one at once.
    async fn handle(
        &self,
        php: &Arc<PhpProcess>,
        executions: &mut Executions,
        line: &str,
    ) -> Result<Option<String>, End> {
        match message::read(line)? {
            PhpMessage::Execute(id, params) => {
                let started = match params {
                    Ok(params) => self.execute(php, executions, id, *params, line.len()).await,
                    Err(error) => Err(error.to_string()),
                };
                let reject =
                    |reason: String| message::error(&json!(id), message::INVALID_PARAMS, &reason);
                return Ok(started.err().map(reject));
            }
            PhpMessage::Cancelled(id) => executions.cancel(id),
            PhpMessage::Response(id, response) => {
                if !php.respond(id, response) {
                    return Err(End::UnknownRequest);
                }
            }
            PhpMessage::UnknownRequest(id) => {
                let id: Value = serde_json::from_str(id.get())?;
                let error = message::error(&id, message::METHOD_NOT_FOUND, "Method not found");
                return Ok(Some(error));
            }
            PhpMessage::Other => {}
        }
        Ok(None)
    }

    /// Starts an execution.
    ///
    /// # Errors
    /// Why the execution is rejected; then no call has run.
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
            .map_err(|refusal| refusal.to_string())?;
        if let Some(changes) = params.definitions.take() {
            let applied = self.apply(changes).await;
            applied.map_err(|error| error.to_string())?;
        }
        let limits = HeaderLimits::of(self.current_app.app().http());
        let execution = Execution::new(id, Arc::clone(php), &mut params, limits);
        let run = execution.run(self.executor.clone(), params);
        executions.start(id, size, Box::pin(run));
        Ok(())
    }
}

async fn write<S>(mut writer: WriteHalf<S>, outbox: &Outbox<String>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite,
{
    while let Some(line) = outbox.next().await {
        writer.write_all(line.as_bytes()).await?;
        writer.flush().await?;
    }
    Ok(())
}
