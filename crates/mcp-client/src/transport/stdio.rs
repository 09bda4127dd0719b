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
use super::duplex::{Duplex, DuplexInbox, DuplexOutbox, WriteMarker, duplex};
use super::{SerializedRequest, Transport};
use crate::jsonrpc::RpcOutcome;
use crate::peer::Peer;
use crate::repeat::Repeat;
use crate::secrets::Secrets;
use crate::{Limits, McpErrorKind, StdioCommand};

/// Size at which a batch of waiting messages is written, in bytes.
const BATCH_BYTES: usize = 64 * 1024;

/// How long the server's output is still read after its process has ended or stopped reading.
const LINGER_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a server that has closed its output may take to exit.
const END_TIMEOUT: Duration = Duration::from_secs(2);

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
    _connection: AbortOnDropHandle<()>,
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
    pub(crate) fn may_start_again(&self) -> bool {
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
    /// [`McpErrorKind::Spawn`]; [`McpErrorKind::KnownDown`] at once while the server keeps
    /// crashing.
    pub(crate) async fn open(link: &StdioLink, peer: Arc<Peer>) -> Result<Self, McpErrorKind> {
        link.restarts.wait().await?;
        let (process, streams) = ServerProcess::start(&link.command).await?;
        let process = Arc::new(process);
        let ServerStreams {
            input,
            output,
            errors,
        } = streams;
        let last_line = LastStderrLine::default();
        let secrets = Secrets::for_environment(&link.command);
        let log = StderrLog::new(link.label.to_string(), secrets, last_line.clone());
        let (duplex, outbox, inbox) = duplex(peer, &link.label);
        let connection = StdioConnection {
            inbox,
            process: Arc::clone(&process),
            restarts: Arc::clone(&link.restarts),
            last_line,
            log: AbortOnDropHandle::new(tokio::spawn(log.copy(errors))),
            started: Instant::now(),
            limit: link.limits.max_event_bytes,
        };
        let task = tokio::spawn(connection.run(output, write(input, outbox)));
        Ok(Self {
            duplex,
            process,
            _connection: AbortOnDropHandle::new(task),
        })
    }
}

/// Writes messages until the server stops reading; then returns the outbox.
async fn write(mut input: pipe::Sender, mut outbox: DuplexOutbox) -> DuplexOutbox {
    let mut batch = WriteBatch::default();
    while let Some((message, marker)) = outbox.next().await {
        batch.add(&message, marker);
        while batch.lines.len() < BATCH_BYTES
            && let Some((message, marker)) = outbox.next_waiting()
        {
            batch.add(&message, marker);
        }
        if let Err(error) = batch.write(&mut input).await {
            tracing::debug!(%error, "The server process closed its standard input");
            return outbox;
        }
    }
    // Closing its input asks the server to exit; the server's remaining output is still read.
    drop(input);
    std::future::pending().await
}

/// Messages that are written in one system call.
#[derive(Default)]
struct WriteBatch {
    lines: Vec<u8>,
    /// The position in `lines` at which each message starts, with the message's marker.
    markers: Vec<(usize, WriteMarker)>,
}

impl WriteBatch {
    /// Adds a message as one line. Line breaks between JSON tokens become spaces; line breaks in
    /// strings are escaped.
    fn add(&mut self, message: &[u8], marker: WriteMarker) {
        let from = self.lines.len();
        self.markers.push((from, marker));
        self.lines.extend_from_slice(message);
        for byte in &mut self.lines[from..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        self.lines.push(b'\n');
    }

    /// Writes and clears the batch. Messages of which no byte was written are marked as not
    /// written.
    async fn write(&mut self, input: &mut pipe::Sender) -> std::io::Result<()> {
        let mut written = 0;
        while written < self.lines.len() {
            match input.write(&self.lines[written..]).await {
                Ok(count) => written += count,
                Err(error) => {
                    let unwritten = self.markers.iter().filter(|(from, _)| *from >= written);
                    unwritten.for_each(|(_, marker)| marker.undo());
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
    last_line: LastStderrLine,
    /// The task that copies the server's standard error to the log.
    log: AbortOnDropHandle<()>,
    started: Instant,
    limit: usize,
}

impl StdioConnection {
    async fn run(mut self, output: pipe::Receiver, writing: impl Future<Output = DuplexOutbox>) {
        // The future is pinned, so that the outbox lives on: dropping it would fail callers with a
        // less specific error.
        tokio::pin!(writing);
        let mut stopped_outbox = None;
        let process = Arc::clone(&self.process);
        let lingered = async {
            process.ended().await;
            // A process that has left the process group may keep the output open forever.
            tokio::time::sleep(LINGER_TIMEOUT).await;
        };
        tokio::select! {
            () = self.read(output) => {}
            () = lingered => {}
            () = async {
                stopped_outbox = Some((&mut writing).await);
                // The server may still respond to requests that it has read.
                tokio::time::sleep(LINGER_TIMEOUT).await;
            } => {}
        }
        // Without reading or writing, a server is useless even if it still runs.
        let outcome = tokio::time::timeout(END_TIMEOUT, self.process.ended()).await;
        self.process.end();
        let (run_time, has_answered) = (self.started.elapsed(), self.inbox.has_answered());
        match outcome {
            Ok(ended) if ended.is_requested => {}
            Ok(ended) => {
                // The last line of the server's standard error may not have been read yet.
                let _ = tokio::time::timeout(LINGER_TIMEOUT, &mut self.log).await;
                let (status, last_line) = (ended.status, self.last_line.get());
                tracing::debug!(?status, last_words = last_line, "The server process ended");
                self.restarts.record_crash(run_time, has_answered);
                self.inbox.close(move || McpErrorKind::ProcessEnded {
                    status,
                    last_words: last_line.clone(),
                });
            }
            Err(_) => self.restarts.record_crash(run_time, has_answered),
        }
        drop(stopped_outbox);
    }

    async fn read(&mut self, output: pipe::Receiver) {
        let mut lines = LineReader::new(output, self.limit);
        loop {
            match lines.next().await {
                Ok(Some(OutputLine::Whole(line))) => self.inbox.take(&line),
                Ok(Some(OutputLine::TooLong(id))) => self.inbox.handle_too_large(id, self.limit),
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
    /// Asks the process to end. A runtime that shuts down drops its tasks, and the server would run
    /// on.
    fn drop(&mut self) {
        self.process.end();
    }
}

#[async_trait]
impl Transport for StdioTransport {
    async fn exchange(&self, request: SerializedRequest) -> Result<RpcOutcome, McpErrorKind> {
        self.duplex.exchange(request).await
    }

    async fn notify(&self, message: Bytes, _repeat: Repeat) -> Result<(), McpErrorKind> {
        self.duplex.notify(message).await
    }

    fn is_open(&self) -> bool {
        self.process.is_running() && self.duplex.is_open()
    }

    /// Lets the server exit by itself, otherwise terminates its process; waits for the end of the
    /// process.
    async fn close(&self) {
        self.process.end();
        self.duplex.end().await;
        self.process.ended().await;
    }
}

impl Drop for StdioTransport {
    /// Asks the process to end. The task would keep the process until its runtime drops it,
    /// possibly never.
    fn drop(&mut self) {
        self.process.end();
    }
}
