use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

use super::PhpExecutor;
use super::execution::Execution;
use super::message::{self, ExecuteParams, PhpMessage};
use super::php_process::PhpProcess;
use pillion_gateway::process::AdmissionWatch;

/// Maximum number of executions of one connection at a time; executions may nest.
const MAX_EXECUTIONS: usize = 1_000;

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

/// The running executions of a connection. Dropping this value cancels them.
#[derive(Default)]
struct Executions {
    tasks: JoinSet<u64>,
    running: HashMap<u64, AbortHandle>,
}

impl PhpExecutor {
    /// Runs the calls of the PHP process until its connection ends, `died` resolves or `welcome`
    /// ends; or, between executions, until `stopping` resolves.
    pub(crate) async fn serve<S>(
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
        let (outbox, outgoing) = mpsc::unbounded_channel();
        let php = Arc::new(PhpProcess::new(outbox));
        let mut executions = Executions::default();
        let mut writing = std::pin::pin!(write(writer, outgoing));
        let mut stopping = std::pin::pin!(stopping);
        let mut died = std::pin::pin!(died);
        let mut is_stopping = false;
        let end = loop {
            if is_stopping && executions.running.is_empty() {
                break End::Stopping;
            }
            let handled = tokio::select! {
                biased;
                () = welcome.ended() => Err(End::Unwelcome),
                written = &mut writing => Err(written.map_or_else(End::Broke, |()| End::Closed)),
                Some(ended) = executions.tasks.join_next_with_id() => {
                    executions.forget(ended.ok().map(|(_, id)| id));
                    Ok(())
                }
                line = lines.next() => match line {
                    None => Err(End::Closed),
                    Some(Ok(line)) => self.handle(&php, &mut executions, &line),
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
        // Canceled executions drop their clones of `php`, so that `writing` ends.
        executions.tasks.shutdown().await;
        drop(php);
        if matches!(end, End::Stopping) {
            drop(tokio::time::timeout(FAREWELL, writing).await);
        }
    }

    fn handle(
        &self,
        php: &Arc<PhpProcess>,
        executions: &mut Executions,
        line: &str,
    ) -> Result<(), End> {
        match message::read(line)? {
            PhpMessage::Execute(id, Ok(params)) => self.execute(php, executions, id, *params),
            PhpMessage::Execute(id, Err(error)) => {
                php.send(message::error(
                    &json!(id),
                    message::INVALID_PARAMS,
                    &error.to_string(),
                ));
            }
            PhpMessage::Cancelled(id) => {
                if let Some(task) = executions.running.remove(&id) {
                    task.abort();
                }
            }
            PhpMessage::Response(id, response) => {
                if !php.respond(id, response) {
                    return Err(End::UnknownRequest);
                }
            }
            PhpMessage::UnknownRequest(id) => {
                let id: Value = serde_json::from_str(id.get())?;
                php.send(message::error(
                    &id,
                    message::METHOD_NOT_FOUND,
                    "Method not found",
                ));
            }
            PhpMessage::Other => {}
        }
        Ok(())
    }

    /// Starts an execution, or rejects the request.
    fn execute(
        &self,
        php: &Arc<PhpProcess>,
        executions: &mut Executions,
        id: u64,
        mut params: ExecuteParams,
    ) {
        let reject = |reason: &str| {
            php.send(message::error(&json!(id), message::INVALID_PARAMS, reason));
        };
        if executions.running.len() >= MAX_EXECUTIONS {
            return reject("Too many executions run on this connection");
        }
        if let Some(changes) = params.definitions.take()
            && let Err(error) = self.apply(changes)
        {
            return reject(&error.to_string());
        }
        let execution = Arc::new(Execution::new(id, Arc::clone(php), &mut params));
        let (executor, php) = (self.executor.clone(), Arc::clone(php));
        let task = executions.tasks.spawn(async move {
            let results = Box::pin(execution.run(executor, params)).await;
            for (index, result) in results.into_iter().enumerate() {
                let params = json!({"execution": id, "index": index, "result": result});
                php.notify("notifications/result", &params);
            }
            php.send(message::executed(id));
            id
        });
        executions.running.insert(id, task);
    }
}

impl Executions {
    /// Forgets an execution that has ended; `None` for a canceled one, which is forgotten already.
    fn forget(&mut self, id: Option<u64>) {
        if let Some(id) = id {
            self.running.remove(&id);
        }
    }
}

async fn write<S>(
    mut writer: WriteHalf<S>,
    mut outgoing: mpsc::UnboundedReceiver<String>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite,
{
    while let Some(line) = outgoing.recv().await {
        writer.write_all(line.as_bytes()).await?;
        writer.flush().await?;
    }
    Ok(())
}
