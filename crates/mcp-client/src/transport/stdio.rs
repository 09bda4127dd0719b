//! Servers that are local programs, with one message per line on their standard streams (MCP
//! specification, transports, stdio).

mod lines;
mod process;
mod spawn;
mod stderr;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::task::consume_budget;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use pillion_egress::{RestartPace, Restarts};

use self::lines::{LineReader, OutputLine};
use self::process::{ServerProcess, ServerStreams};
use self::stderr::{LastStderrLine, StderrLog};
use super::duplex::{Duplex, DuplexInbox, DuplexOutbox, WriteMarker, create_duplex};
use super::{SerializedRequest, Transport};
use crate::message::RpcOutcome;
use crate::peer::Peer;
use crate::repeat::RepeatSafety;
use crate::secrets::Secrets;
use crate::{Limits, McpErrorKind, StdioCommand};

/// Size at which a batch of waiting messages is written, in bytes.
const BATCH_BYTES: usize = 64 * 1024;

/// Maximum time for which the server's output is still read after its process has ended or stopped
/// reading.
const LINGER_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum time that a server may take to exit after it has closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// How to start one server, with the server's crash history. Cheap to clone.
#[derive(Clone)]
pub(crate) struct StdioLink {
    command: Arc<StdioCommand>,
    label: Arc<str>,
    limits: Limits,
    restarts: Arc<Restarts>,
}

/// A connection to a running server.
pub(crate) struct StdioTransport {
    duplex: Duplex,
    process: Arc<ServerProcess>,
    _connection_task: AbortOnDropHandle<()>,
}

impl StdioLink {
    pub(crate) fn new(command: StdioCommand, label: &str, limits: Limits) -> Self {
        Self {
            command: Arc::new(command),
            label: label.into(),
            limits,
            restarts: Arc::new(Restarts::new(RestartPace::STDIO)),
        }
    }

    /// Returns whether a program that ended during the handshake should be started again at once.
    pub(crate) fn can_start_again(&self) -> bool {
        self.restarts.may_start_again()
    }

    /// Removes the last crash from the history, because a request before the handshake caused the
    /// crash.
    pub(crate) fn undo_crash(&self) {
        self.restarts.undo_crash();
    }
}

impl StdioTransport {
    /// Starts the server, after a backoff if it has crashed recently.
    ///
    /// # Errors
    /// [`McpErrorKind::Spawn`] if the server cannot be started. While the server keeps crashing,
    /// [`McpErrorKind::KnownDown`] without a start.
    pub(crate) async fn open(link: &StdioLink, peer: Arc<Peer>) -> Result<Self, McpErrorKind> {
        link.restarts.wait().await?;
        let (server_process, streams) = ServerProcess::start(&link.command).await?;
        let process = Arc::new(server_process);
        let ServerStreams {
            input,
            output,
            error_output,
        } = streams;
        let last_stderr_line = LastStderrLine::default();
        let secrets = Secrets::for_environment(&link.command);
        let stderr_log = StderrLog::new(link.label.to_string(), secrets, last_stderr_line.clone());
        let (duplex, outbox, inbox) = create_duplex(peer, &link.label);
        let connection = StdioConnection {
            inbox,
            process: Arc::clone(&process),
            restarts: Arc::clone(&link.restarts),
            last_stderr_line,
            log_task: AbortOnDropHandle::new(tokio::spawn(stderr_log.copy_lines(error_output))),
            started_at: Instant::now(),
            max_line_bytes: link.limits.max_event_bytes,
        };
        let task = tokio::spawn(connection.run(output, write_messages(input, outbox)));
        Ok(Self {
            duplex,
            process,
            _connection_task: AbortOnDropHandle::new(task),
        })
    }
}

/// Writes messages until the server stops reading; then returns the outbox.
async fn write_messages(mut input: pipe::Sender, mut outbox: DuplexOutbox) -> DuplexOutbox {
    let mut batch = WriteBatch::default();
    while let Some((message, marker)) = outbox.next_message().await {
        batch.add(&message, marker);
        while batch.lines.len() < BATCH_BYTES
            && let Some((message, marker)) = outbox.try_next_message()
        {
            batch.add(&message, marker);
        }
        if let Err(error) = batch.write(&mut input).await {
            tracing::debug!(%error, "The server process closed its standard input");
            return outbox;
        }
    }
    // The server's input is closed to ask the server to exit. The remaining output is still read.
    drop(input);
    std::future::pending().await
}

/// Messages that are written in one system call.
#[derive(Default)]
struct WriteBatch {
    lines: Vec<u8>,
    /// The index in `lines` at which each message starts, with the marker that records whether the
    /// message was written.
    markers: Vec<(usize, WriteMarker)>,
}

impl WriteBatch {
    /// Adds a message as one line. Line breaks between JSON tokens become spaces; line breaks in
    /// strings are escaped.
    fn add(&mut self, message: &[u8], marker: WriteMarker) {
        let start = self.lines.len();
        self.markers.push((start, marker));
        self.lines.extend_from_slice(message);
        for byte in &mut self.lines[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        self.lines.push(b'\n');
    }

    /// Writes and clears the batch. Messages of which no byte was written are marked as not
    /// written.
    async fn write(&mut self, input: &mut pipe::Sender) -> std::io::Result<()> {
        let mut written_bytes = 0;
        while written_bytes < self.lines.len() {
            match input.write(&self.lines[written_bytes..]).await {
                Ok(count) => written_bytes += count,
                Err(error) => {
                    let markers = self.markers.iter();
                    let unwritten_messages = markers.filter(|(start, _)| *start >= written_bytes);
                    unwritten_messages.for_each(|(_, marker)| marker.mark_unwritten());
                    return Err(error);
                }
            }
        }
        self.lines.clear();
        self.lines.shrink_to(BATCH_BYTES);
        self.markers.clear();
        Ok(())
    }
}

/// The task that communicates with the server and waits for the end of its process.
struct StdioConnection {
    inbox: DuplexInbox,
    process: Arc<ServerProcess>,
    restarts: Arc<Restarts>,
    last_stderr_line: LastStderrLine,
    /// The task that copies the server's standard error to the log.
    log_task: AbortOnDropHandle<()>,
    started_at: Instant,
    max_line_bytes: usize,
}

impl StdioConnection {
    async fn run(
        mut self,
        output: pipe::Receiver,
        write_future: impl Future<Output = DuplexOutbox>,
    ) {
        // The future that writes messages is pinned, so that its outbox is not dropped when the
        // future is no longer polled. Callers would otherwise fail with a less specific error.
        tokio::pin!(write_future);
        let mut stopped_outbox = None;
        let process = Arc::clone(&self.process);
        let output_timeout = async {
            process.wait_for_end().await;
            // Reading ends soon after the server's process, because a process that has left the
            // process group may keep the output open forever.
            tokio::time::sleep(LINGER_TIMEOUT).await;
        };
        tokio::select! {
            () = self.read_output(output) => {}
            () = output_timeout => {}
            () = async {
                stopped_outbox = Some((&mut write_future).await);
                // Reading continues for a while, because the server may still respond to requests
                // that it has read.
                tokio::time::sleep(LINGER_TIMEOUT).await;
            } => {}
        }
        // If the server does not exit in time, it is terminated, because a server that no longer
        // reads or writes is useless.
        let outcome = tokio::time::timeout(EXIT_TIMEOUT, self.process.wait_for_end()).await;
        self.process.request_end();
        let (uptime, has_responded) = (self.started_at.elapsed(), self.inbox.has_responded());
        match outcome {
            Ok(end) if end.was_requested => {}
            Ok(end) => {
                // Waits for the log task, which may not have read the last line of the server's
                // standard error yet.
                let _ = tokio::time::timeout(LINGER_TIMEOUT, &mut self.log_task).await;
                let (status, last_line) = (end.status, self.last_stderr_line.get());
                tracing::debug!(?status, last_line, "The server process ended");
                self.restarts.record_crash(uptime, has_responded);
                self.inbox.close(move || McpErrorKind::ProcessEnded {
                    status,
                    last_stderr_line: last_line.clone(),
                });
            }
            Err(_) => self.restarts.record_crash(uptime, has_responded),
        }
        drop(stopped_outbox);
    }

    async fn read_output(&mut self, output: pipe::Receiver) {
        let mut lines = LineReader::new(output, self.max_line_bytes);
        loop {
            match lines.next_line().await {
                Ok(Some(OutputLine::Whole(line))) => self.inbox.handle_output(&line),
                Ok(Some(OutputLine::TooLong(id))) => {
                    self.inbox.handle_too_large(id, self.max_line_bytes);
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "Reading the server's standard output failed");
                    break;
                }
            }
            // One read may contain many short lines, so the task yields after each.
            consume_budget().await;
        }
    }
}

impl Drop for StdioConnection {
    /// Asks the process to end. Otherwise, the server would continue to run after a runtime has
    /// shut down and dropped this task.
    fn drop(&mut self) {
        self.process.request_end();
    }
}

#[async_trait]
impl Transport for StdioTransport {
    async fn exchange(&self, request: SerializedRequest) -> Result<RpcOutcome, McpErrorKind> {
        self.duplex.exchange(request).await
    }

    async fn notify(&self, message: Bytes, _safety: RepeatSafety) -> Result<(), McpErrorKind> {
        self.duplex.notify(message).await
    }

    fn is_open(&self) -> bool {
        self.process.is_running() && self.duplex.is_open()
    }

    /// Lets the server exit by itself, otherwise terminates its process; waits for the end of the
    /// process.
    async fn close(&self) {
        self.process.request_end();
        self.duplex.end_writing().await;
        self.process.wait_for_end().await;
    }
}

impl Drop for StdioTransport {
    /// Asks the process to end. Otherwise, the process would run until the runtime drops the task
    /// that owns it, possibly never.
    fn drop(&mut self) {
        self.process.request_end();
    }
}
