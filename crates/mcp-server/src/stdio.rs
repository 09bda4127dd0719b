//! The MCP server over stdio or an upgraded connection, for one client: one message per line.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use parking_lot::Mutex;
use pillion_core::json_values::count_with_texts;
use pillion_core::tool::CallContext;
use pillion_mcp_client::{Feature, ProtocolVersion, RpcError};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet, consume_budget};
use tokio::time::timeout;

use super::sessions::{Responses, Session};
use super::source::{MessageListener, Source};
use super::{Caller, stateful, stateless};
use crate::McpServer;
use crate::lines::{read_line, trim_message, write_lines};
use crate::outbox::Outbox;
use pillion_gateway::accounts::values_memory;
use pillion_gateway::calling_client::message::{
    self, INVALID_REQUEST, Inbound, Request, Unreadable,
};
use pillion_gateway::visibility::Visibility;

/// The protocol name of an HTTP connection that is upgraded to these messages.
pub const PROTOCOL: &str = "pillion-mcp";

/// The notification that the sidecar is shutting down and accepts no more connections. New requests
/// must be sent over a new connection; responses to earlier requests still arrive. Only Pillion's
/// stdio bridge receives this notification, never an MCP client.
pub(crate) const DRAINING: &str = "notifications/pillion/draining";

/// Maximum size of all messages that wait to be written, in bytes.
const MAX_WAITING_BYTES: u32 = 32 * 1024 * 1024;

/// Maximum number of concurrent requests of one client. Further input is read only when a request
/// has finished.
const MAX_RUNNING: usize = 1_000;

/// Maximum size of the concurrent requests and subscriptions of one client, in KiB. Further
/// requests are rejected instead of delayed: finishing a request may require the client's response
/// to a question, so the input must still be read.
const MAX_RUNNING_KIB: usize = 64 * 1024;

/// Maximum number of concurrent subscriptions of one client.
const MAX_STREAMS: usize = 1_000;

/// Maximum time for finishing the requests of a client whose connection is no longer allowed.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(30);

/// Controls when and how the streams of a client end.
pub struct StdioShutdown<A, U> {
    /// Maximum time to finish running requests after the client has closed its input.
    pub grace: Duration,
    /// Resolves to a message for the client, which is sent at once.
    pub announcement: A,
    /// Resolves when the client may send no more requests. Running requests may finish within a
    /// timeout.
    pub unwelcome: U,
}

/// One client with its own pair of streams.
pub struct Client {
    current: Box<dyn Fn() -> McpServer + Send + Sync>,
    context: CallContext,
    visibility: Visibility,
    model: Option<String>,
}

impl Client {
    /// Creates a client whose calls run in `context`, restricted to what `model` may see of
    /// `visibility`. `current` returns the server of the current configuration.
    ///
    /// # Errors
    /// `visibility` names a model that does not exist.
    pub fn new(
        current: impl Fn() -> McpServer + Send + Sync + 'static,
        context: CallContext,
        visibility: Visibility,
        model: Option<String>,
    ) -> Result<Self, RpcError> {
        let client = Self {
            current: Box::new(current),
            context,
            visibility,
            model,
        };
        client.as_caller()?;
        Ok(client)
    }

    /// Returns the client as a caller of the current [`McpServer`].
    fn as_caller(&self) -> Result<Caller, RpcError> {
        let (context, visibility) = (self.context.clone(), self.visibility.clone());
        Caller::new((self.current)(), context, visibility, self.model.as_deref())
    }

    /// Serves the client until it closes `input` and its requests have finished or timed out.
    ///
    /// # Errors
    /// `input` cannot be read, or `output` cannot be written.
    pub async fn serve(
        self,
        input: impl AsyncBufRead + Unpin,
        output: impl AsyncWrite + Unpin,
        endings: StdioShutdown<impl Future<Output = Bytes>, impl Future<Output = ()>>,
    ) -> std::io::Result<()> {
        let StdioShutdown {
            mut grace,
            announcement,
            unwelcome,
        } = endings;
        let (outbox, messages) = Outbox::new(MAX_WAITING_BYTES);
        let state: Arc<Mutex<State>> = Arc::default();
        let weak = outbox.downgrade();
        let conversation = Conversation {
            client: self,
            out: outbox,
            state: Arc::clone(&state),
            running_kib: Arc::new(Semaphore::new(MAX_RUNNING_KIB)),
        };
        let written = Notify::new();
        let writing = async {
            let outcome = write_lines(output, messages).await;
            written.notify_one();
            outcome
        };
        let reading = Box::pin(async {
            let mut is_unwelcome = false;
            let mut tasks = JoinSet::new();
            let mut streams = JoinSet::new();
            let outcome = tokio::select! {
                outcome = conversation.read(input, &mut tasks, &mut streams) => outcome,
                () = unwelcome => {
                    (is_unwelcome, grace) = (true, LAST_CALLS_TIMEOUT);
                    // Queued without waiting, because the client may not be reading.
                    conversation.out.send_now(draining());
                    Ok(())
                }
            };
            let answered = async { while tasks.join_next().await.is_some() {} };
            // Requests that are still running after the grace period are aborted.
            drop(timeout(grace, answered).await);
            // The writer ends when the last sender is dropped.
            drop((conversation, tasks, streams));
            if is_unwelcome
                && timeout(LAST_CALLS_TIMEOUT, written.notified())
                    .await
                    .is_err()
            {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            outcome
        });
        let announcing = async {
            let announcement = announcement.await;
            if let Some(out) = weak.upgrade() {
                drop(out.send(announcement.into()).await);
            }
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            outcome = async { tokio::try_join!(reading, writing) } => outcome,
            () = announcing => Ok(((), ())),
        };
        // Ends requests and subscriptions of the session that are still running.
        let session = state.lock().session.take();
        if let Some(session) = session {
            session.end();
        }
        outcome.map(drop)
    }
}

/// Returns the notification that the sidecar is shutting down.
pub fn draining() -> Bytes {
    message::outgoing(None, DRAINING, &json!({}))
}

/// The state of a client's connection.
struct Conversation {
    client: Client,
    out: Outbox,
    state: Arc<Mutex<State>>,
    /// The permits that are left of [`MAX_RUNNING_KIB`].
    running_kib: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    /// The session, in revisions with a handshake.
    session: Option<Arc<Session>>,
    /// Requests of revision 2026-07-28 in progress, by id as the client wrote it.
    running: HashMap<String, AbortHandle>,
}

impl Conversation {
    /// Reads to the end of the input. Requests run in `tasks`, subscriptions in `streams`.
    async fn read(
        &self,
        mut input: impl AsyncBufRead + Unpin,
        tasks: &mut JoinSet<()>,
        streams: &mut JoinSet<()>,
    ) -> std::io::Result<()> {
        let mut line = Vec::new();
        loop {
            // Finished tasks are removed.
            while tasks.try_join_next().is_some() {}
            while streams.try_join_next().is_some() {}
            // One read may buffer many short lines.
            consume_budget().await;
            if !read_line(&mut input, &mut line).await? {
                return Ok(());
            }
            let decoded = String::from_utf8_lossy(&line);
            let text = trim_message(&decoded);
            if text.is_empty() {
                continue;
            }
            match Inbound::parse(text) {
                Ok(inbound) => {
                    if matches!(inbound, Inbound::Request(_)) {
                        // No further input is read from a client that does not read its responses.
                        while tasks.len() >= MAX_RUNNING && tasks.join_next().await.is_some() {}
                        self.out.wait_for_room().await;
                    }
                    self.take(inbound, held_bytes(&line), tasks, streams).await;
                }
                Err(Unreadable { id, error }) => {
                    self.out.respond(id.as_deref(), &Err(error)).await;
                }
            }
        }
    }

    /// Handles a message of `bytes` bytes. Requests run concurrently.
    async fn take(
        &self,
        inbound: Inbound,
        bytes: usize,
        tasks: &mut JoinSet<()>,
        streams: &mut JoinSet<()>,
    ) {
        let session = self.state.lock().session.clone();
        let request = match inbound {
            Inbound::Request(request) => request,
            Inbound::Notification { method, params }
                if method == "notifications/cancelled" && session.is_none() =>
            {
                let running = params
                    .get("requestId")
                    .and_then(|id| self.state.lock().running.remove(id.get()));
                if let Some(running) = running {
                    running.abort();
                }
                return;
            }
            other => {
                if let Some(session) = session {
                    stateful::handle_message(&session, other);
                }
                return;
            }
        };
        let caller = match self.client.as_caller() {
            Ok(caller) => caller,
            Err(error) => return self.say(&request, &Err(error)).await,
        };
        if is_stateless(&request) {
            let id = request.id.get().to_owned();
            let is_stream = request.method == "subscriptions/listen";
            if is_stream && streams.len() >= MAX_STREAMS {
                let reason =
                    format!("The connection already has {MAX_STREAMS} subscriptions, the maximum");
                let error = RpcError::new(INVALID_REQUEST, reason);
                return self.say(&request, &Err(error)).await;
            }
            let Some(held) = self.hold(bytes) else {
                return self.say(&request, &Err(too_large_together())).await;
            };
            let task = respond_stateless(caller, self.out.clone(), request);
            let set = if is_stream { streams } else { tasks };
            let handle = set.spawn(async move {
                let _held = held;
                task.await;
            });
            let mut state = self.state.lock();
            state.running.retain(|_, running| !running.is_finished());
            state.running.insert(id, handle);
            return;
        }
        match (session, request.method.as_str()) {
            (None, "initialize") => self.initialize(&caller, &request, streams).await,
            (None, "ping") => self.say(&request, &message::raw(&json!({}))).await,
            (None, _) => {
                let error = RpcError::new(
                    INVALID_REQUEST,
                    "The session is not initialized: send initialize first",
                );
                self.say(&request, &Err(error)).await;
            }
            (Some(session), _) => {
                let Some(held) = self.hold(bytes) else {
                    return self.say(&request, &Err(too_large_together())).await;
                };
                let out = self.out.clone();
                tasks.spawn(async move {
                    let _held = held;
                    if stateful::concerns_session(&request.method) {
                        let outcome =
                            stateful::handle_session_request(&caller, &session, &request).await;
                        return out.respond(Some(&request.id), &outcome).await;
                    }
                    let id = request.id.clone();
                    let responses = Responses::OneStream;
                    match stateful::Answering::start(&caller, &session, request, responses, true) {
                        Ok(answering) => pour(answering, &out).await,
                        Err(error) => out.respond(Some(&id), &Err(error)).await,
                    }
                });
            }
        }
    }

    /// Returns the permit of a request of this size, or `None` if the running requests are too
    /// large.
    fn hold(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        // A single request always fits.
        let kib = u32::try_from((bytes / 1024).clamp(1, MAX_RUNNING_KIB)).unwrap_or(u32::MAX);
        Arc::clone(&self.running_kib)
            .try_acquire_many_owned(kib)
            .ok()
    }

    async fn say(&self, request: &Request, outcome: &Result<Box<RawValue>, RpcError>) {
        self.out.respond(Some(&request.id), outcome).await;
    }

    async fn initialize(&self, caller: &Caller, request: &Request, streams: &mut JoinSet<()>) {
        let (session, result) = match stateful::initialize(caller, request) {
            Ok(opened) => opened,
            Err(error) => return self.say(request, &Err(error)).await,
        };
        self.say(request, &Ok(result)).await;
        let listener = MessageListener::for_session(caller, &session);
        self.state.lock().session = Some(session);
        let out = self.out.clone();
        streams.spawn(async move { pour(listener, &out).await });
    }
}

/// Returns the size of a request with this text, in bytes: the size of its JSON values or of the
/// text, whichever is larger.
fn held_bytes(line: &[u8]) -> usize {
    let values = values_memory(count_with_texts(line));
    usize::try_from(values).map_or(usize::MAX, |values| values.max(line.len()))
}

/// Returns the error for a request that exceeds the maximum size of concurrent requests.
fn too_large_together() -> RpcError {
    let reason =
        format!("The running requests of the connection have {MAX_RUNNING_KIB} KiB, the maximum");
    RpcError::new(INVALID_REQUEST, reason)
}

/// Returns whether a request belongs to a revision without handshake.
fn is_stateless(request: &Request) -> bool {
    if request.method == "server/discover" {
        return true;
    }
    let meta = request.meta();
    let version = meta
        .get(message::PROTOCOL_VERSION)
        .and_then(|it| serde_json::from_str::<String>(it.get()).ok());
    version.is_some_and(|version| {
        let known = version.parse::<ProtocolVersion>();
        known.map_or(true, |known| known.supports(Feature::RequestMetadata))
    })
}

async fn respond_stateless(caller: Caller, out: Outbox, request: Request) {
    let request = Arc::new(request);
    let respond = async {
        let requester = stateless::requester(&caller.mcp.gateway, &request, true, |_, _| Ok(()))?;
        if request.method == "subscriptions/listen" {
            let (first, listener) = Box::pin(stateless::listen(&caller, &request)).await?;
            drop(out.send(first).await);
            pour(listener, &out).await;
        } else {
            let answering = stateless::Answering::start(&caller, &request, requester)?;
            pour(answering, &out).await;
        }
        Ok(())
    };
    if let Err(error) = respond.await {
        out.respond(Some(&request.id), &Err(error)).await;
    }
}

async fn pour(mut source: impl Source, out: &Outbox) {
    while let Some(message) = source.next().await {
        if out.send(message).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
