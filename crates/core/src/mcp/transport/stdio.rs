//! A server that we start ourselves, spoken to over its standard streams: one message a
//! line (MCP specification, transports, stdio).

mod lines;
mod process;
mod restarts;
mod spawn;
mod stderr;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::lines::{Line, Lines};
use self::process::{ServerProcess, Streams};
use self::restarts::Restarts;
use self::stderr::{LastWords, StderrLog};
use super::duplex::{Departure, Duplex, Inbox, Outbox, duplex};
use super::{Outgoing, Transport, TransportFuture};
use crate::mcp::jsonrpc::RpcOutcome;
use crate::mcp::peer::Peer;
use crate::mcp::{Limits, McpErrorKind, ProtocolVersion, StdioCommand};

/// What is written at once when many messages wait.
const WRITE_AT_ONCE: usize = 64 * 1024;

/// How long the output may still come of a process that has ended, or that reads no more.
const LINGER: Duration = Duration::from_millis(500);

/// How long a server that has closed its output may take to end, too.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// How one server is started, and how often that went wrong. Cheap to clone.
#[derive(Clone)]
pub(in crate::mcp) struct StdioLink {
    command: Arc<StdioCommand>,
    label: Arc<str>,
    limits: Limits,
    restarts: Arc<Restarts>,
}

/// A running server.
pub(in crate::mcp) struct StdioTransport {
    duplex: Duplex,
    process: Arc<ServerProcess>,
    _connection: AbortOnDropHandle<()>,
}

impl StdioLink {
    pub(in crate::mcp) fn new(command: StdioCommand, label: &str, limits: Limits) -> Self {
        Self {
            command: Arc::new(command),
            label: label.into(),
            limits,
            restarts: Arc::default(),
        }
    }

    /// Returns whether a program whose start failed should be started again at once.
    pub(in crate::mcp) fn may_start_again(&self) -> bool {
        self.restarts.may_start_again()
    }

    /// The last crash does not count: it came of being asked before the handshake.
    pub(in crate::mcp) fn forgive(&self) {
        self.restarts.forgive();
    }
}

impl StdioTransport {
    /// Starts the server, later if it has crashed lately.
    ///
    /// # Errors
    /// [`McpErrorKind::Spawn`]; [`McpErrorKind::KnownDown`] at once while the server is known
    /// to crash.
    pub(in crate::mcp) async fn open(
        link: &StdioLink,
        peer: Arc<Peer>,
    ) -> Result<Self, McpErrorKind> {
        link.restarts.wait().await?;
        let (process, streams) = ServerProcess::start(&link.command).await?;
        let process = Arc::new(process);
        let Streams {
            input,
            output,
            errors,
        } = streams;
        let last_words = LastWords::default();
        let secrets = secrets(&link.command);
        let log = StderrLog::new(link.label.to_string(), secrets, last_words.clone());
        let (duplex, outbox, inbox) = duplex(peer);
        let connection = Connection {
            inbox,
            process: Arc::clone(&process),
            restarts: Arc::clone(&link.restarts),
            last_words,
            log: AbortOnDropHandle::new(tokio::spawn(log.copy(errors))),
            started: Instant::now(),
            limit: link.limits.max_event_bytes,
        };
        let connection = tokio::spawn(connection.run(output, write(input, outbox)));
        Ok(Self {
            duplex,
            process,
            _connection: AbortOnDropHandle::new(connection),
        })
    }
}

/// What may be a credential in the server's environment: all that is configured, and what
/// it inherits unless that is a path.
fn secrets(command: &StdioCommand) -> Vec<SecretString> {
    let inherited = command.inherit_env.iter();
    let inherited = inherited.filter_map(|name| std::env::var(name).ok());
    let inherited = inherited.filter(|value| !value.starts_with('/'));
    let configured = command.env.values().cloned();
    configured
        .chain(inherited.map(SecretString::from))
        .collect()
}

/// Writes what comes, until the server does not read any more; then gives the outbox back.
async fn write(mut input: pipe::Sender, mut outbox: Outbox) -> Outbox {
    let mut batch = Batch::default();
    while let Some((message, departure)) = outbox.next().await {
        batch.add(&message, departure);
        while batch.lines.len() < WRITE_AT_ONCE
            && let Some((message, departure)) = outbox.next_waiting()
        {
            batch.add(&message, departure);
        }
        if let Err(error) = batch.write(&mut input).await {
            tracing::debug!(%error, "The server does not read any more");
            return outbox;
        }
    }
    // The end of its input asks the server to end; what it still says is read.
    drop(input);
    std::future::pending().await
}

/// Messages that are written together.
#[derive(Default)]
struct Batch {
    lines: Vec<u8>,
    /// Where in `lines` each message begins.
    departures: Vec<(usize, Departure)>,
}

impl Batch {
    /// A message is one line: line ends in JSON are white space, for those in strings are
    /// escaped.
    fn add(&mut self, message: &[u8], departure: Departure) {
        let from = self.lines.len();
        self.departures.push((from, departure));
        self.lines.extend_from_slice(message);
        for byte in &mut self.lines[from..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        self.lines.push(b'\n');
    }

    /// Writes all of it and is empty again. Messages of which not a byte was taken have
    /// not left.
    async fn write(&mut self, input: &mut pipe::Sender) -> std::io::Result<()> {
        let mut written = 0;
        while written < self.lines.len() {
            match input.write(&self.lines[written..]).await {
                Ok(count) => written += count,
                Err(error) => {
                    let whole = self.departures.iter().filter(|(from, _)| *from >= written);
                    whole.for_each(|(_, departure)| departure.undo());
                    return Err(error);
                }
            }
        }
        self.lines.clear();
        self.lines.shrink_to(WRITE_AT_ONCE);
        self.departures.clear();
        Ok(())
    }
}

/// The task that speaks with the server, and sees it end.
struct Connection {
    inbox: Inbox,
    process: Arc<ServerProcess>,
    restarts: Arc<Restarts>,
    last_words: LastWords,
    /// Copies what it writes to its standard error.
    log: AbortOnDropHandle<()>,
    started: Instant,
    limit: usize,
}

impl Connection {
    async fn run(mut self, output: pipe::Receiver, writing: impl Future<Output = Outbox>) {
        // Its outbox is kept, whose end would tell the callers less than we can.
        tokio::pin!(writing);
        let mut deaf = None;
        let process = Arc::clone(&self.process);
        let ended = async {
            process.ended().await;
            // Somebody who left the group may hold the output open for ever.
            tokio::time::sleep(LINGER).await;
        };
        tokio::select! {
            () = self.read(output) => {}
            () = ended => {}
            () = async {
                deaf = Some((&mut writing).await);
                // It may still answer what it has read.
                tokio::time::sleep(LINGER).await;
            } => {}
        }
        // The server may live on, deaf or mute: it is of no use any more.
        let ended = tokio::time::timeout(END_PATIENCE, self.process.ended()).await;
        self.process.end();
        let (lived, has_answered) = (self.started.elapsed(), self.inbox.has_answered());
        match ended {
            Ok(ended) if ended.asked => {}
            Ok(ended) => {
                // What it said last may not have been read yet.
                let _ = tokio::time::timeout(LINGER, &mut self.log).await;
                let (status, last_words) = (ended.status, self.last_words.get());
                tracing::debug!(?status, last_words, "The server's process has ended");
                self.restarts.crashed(lived, has_answered);
                self.inbox.close(move || McpErrorKind::ProcessEnded {
                    status,
                    last_words: last_words.clone(),
                });
            }
            Err(_) => self.restarts.crashed(lived, has_answered),
        }
        drop(deaf);
    }

    async fn read(&mut self, output: pipe::Receiver) {
        let mut lines = Lines::new(output, self.limit);
        loop {
            match lines.next().await {
                Ok(Some(Line::Whole(line))) => self.inbox.take(&line),
                Ok(Some(Line::TooLong(id))) => self.inbox.take_too_large(id, self.limit),
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "The server's output broke");
                    break;
                }
            }
        }
    }
}

impl Drop for Connection {
    /// A runtime that shuts down drops its tasks, and leaves a server that nobody speaks to.
    fn drop(&mut self) {
        self.process.end();
    }
}

impl Transport for StdioTransport {
    fn exchange(&self, request: Outgoing) -> TransportFuture<'_, Result<RpcOutcome, McpErrorKind>> {
        Box::pin(self.duplex.exchange(request))
    }

    fn notify(&self, message: Bytes) -> TransportFuture<'_, Result<(), McpErrorKind>> {
        Box::pin(self.duplex.notify(message))
    }

    fn is_open(&self) -> bool {
        self.process.is_running() && self.duplex.is_open()
    }

    /// Messages say their revision themselves, where they say it at all.
    fn negotiated(&self, _version: ProtocolVersion) {}

    /// Lets the server end on its own, else ends it, and waits until it is gone.
    fn close(&self) -> TransportFuture<'_, ()> {
        Box::pin(async {
            self.process.end();
            self.duplex.end().await;
            self.process.ended().await;
        })
    }
}

impl Drop for StdioTransport {
    /// The tasks hold on to the process until their runtime drops them, which may be never.
    fn drop(&mut self) {
        self.process.end();
    }
}
