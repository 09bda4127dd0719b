//! The MCP server over stdio or an upgraded connection, for one client. Each message is one line.

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
use super::source::{MessageListener, MessageSource};
use super::{Caller, stateful, stateless};
use crate::McpServer;
use crate::lines::{read_line, trim_message, write_lines};
use crate::outbox::Outbox;
use pillion_gateway::accounts::values_memory;
use pillion_gateway::calling_client::message::{
    self, INVALID_REQUEST, Inbound, Request, UnreadableMessage,
};
use pillion_gateway::visibility::Visibility;

/// The protocol name in the `Upgrade` header of an HTTP connection that then carries MCP messages,
/// one per line.
pub const PROTOCOL: &str = "pillion-mcp";

/// The notification that the sidecar is shutting down and accepts no more connections. New requests
/// must be sent over a new connection; responses to earlier requests still arrive. Only Pillion's
/// stdio bridge receives this notification, never an MCP client.
pub(crate) const DRAINING_METHOD: &str = "notifications/pillion/draining";

/// Maximum size of all messages that wait to be written, in bytes.
const MAX_WAITING_BYTES: u32 = 32 * 1024 * 1024;

/// Maximum number of concurrent requests of one client. At the maximum, further input is read only
/// when a request has finished.
const MAX_RUNNING_REQUESTS: usize = 1_000;

/// Maximum size of the concurrent requests and subscriptions of one client, in KiB. Further
/// requests are rejected instead of delayed: a running request may wait for the client's response
/// to a server-initiated request, such as an elicitation, so Pillion must continue to read the
/// client's input.
const MAX_RUNNING_KIB: usize = 64 * 1024;

/// Maximum number of concurrent subscriptions of one client.
const MAX_STREAMS: usize = 1_000;

/// Maximum time for finishing the requests of a client whose connection is no longer allowed.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(30);

/// Controls when and how the streams of a client end.
pub struct StdioShutdown<A, U> {
    /// Maximum time to finish running requests after the client has closed its input.
    pub grace: Duration,
    /// A future that resolves to a message for the client, which is then sent at once.
    pub announcement: A,
    /// A future that resolves when the client is no longer allowed to send requests. Running
    /// requests can still finish within a timeout.
    pub access_ended: U,
}

/// One client with its own pair of streams.
pub struct Client {
    current_server: Box<dyn Fn() -> McpServer + Send + Sync>,
    context: CallContext,
    visibility: Visibility,
    model: Option<String>,
}

impl Client {
    /// Creates a client whose calls run in `context`, restricted to what `model` may see of
    /// `visibility`. `current_server` returns the server of the current configuration.
    ///
    /// # Errors
    /// `model` does not exist.
    pub fn new(
        current_server: impl Fn() -> McpServer + Send + Sync + 'static,
        context: CallContext,
        visibility: Visibility,
        model: Option<String>,
    ) -> Result<Self, RpcError> {
        let client = Self {
            current_server: Box::new(current_server),
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
        let server = (self.current_server)();
        Caller::new(server, context, visibility, self.model.as_deref())
    }

    /// Serves the client until it closes `input` and its requests have finished or timed out.
    ///
    /// # Errors
    /// `input` cannot be read, or `output` cannot be written.
    pub async fn serve(
        self,
        input: impl AsyncBufRead + Unpin,
        output: impl AsyncWrite + Unpin,
        shutdown: StdioShutdown<impl Future<Output = Bytes>, impl Future<Output = ()>>,
    ) -> std::io::Result<()> {
        let StdioShutdown {
            mut grace,
            announcement,
            access_ended,
        } = shutdown;
        let (outbox, messages) = Outbox::new(MAX_WAITING_BYTES);
        let state: Arc<Mutex<ConnectionState>> = Arc::default();
        let weak_outbox = outbox.downgrade();
        let conversation = StdioConversation {
            client: self,
            outbox,
            state: Arc::clone(&state),
            running_kib: Arc::new(Semaphore::new(MAX_RUNNING_KIB)),
        };
        let write_finished = Notify::new();
        let write_loop = async {
            let outcome = write_lines(output, messages).await;
            write_finished.notify_one();
            outcome
        };
        let read_loop = Box::pin(async {
            let mut has_access_ended = false;
            let mut tasks = JoinSet::new();
            let mut streams = JoinSet::new();
            let outcome = tokio::select! {
                outcome = conversation.read_messages(input, &mut tasks, &mut streams) => outcome,
                () = access_ended => {
                    (has_access_ended, grace) = (true, LAST_CALLS_TIMEOUT);
                    // Queues the notification without waiting, because the client may not be
                    // reading.
                    conversation.outbox.send_now(draining_notification());
                    Ok(())
                }
            };
            let join_all_tasks = async { while tasks.join_next().await.is_some() {} };
            // Dropping the tasks below aborts the requests that are still running after the grace
            // period.
            drop(timeout(grace, join_all_tasks).await);
            // Drops all senders, because the writer ends only after the last sender is dropped.
            drop((conversation, tasks, streams));
            let last_write = timeout(LAST_CALLS_TIMEOUT, write_finished.notified());
            if has_access_ended && last_write.await.is_err() {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            outcome
        });
        let announce_future = async {
            let message = announcement.await;
            if let Some(outbox) = weak_outbox.upgrade() {
                drop(outbox.send(message.into()).await);
            }
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            outcome = async { tokio::try_join!(read_loop, write_loop) } => outcome,
            () = announce_future => Ok(((), ())),
        };
        // Ends requests and subscriptions of the session that are still running.
        let session = state.lock().session.take();
        if let Some(session) = session {
            session.end();
        }
        outcome.map(drop)
    }
}

/// Returns the serialized notification that the sidecar is shutting down.
pub fn draining_notification() -> Bytes {
    message::outgoing(None, DRAINING_METHOD, &json!({}))
}

/// The state of one client's connection while it is served.
struct StdioConversation {
    client: Client,
    outbox: Outbox,
    state: Arc<Mutex<ConnectionState>>,
    /// The permits that are left of [`MAX_RUNNING_KIB`].
    running_kib: Arc<Semaphore>,
}

#[derive(Default)]
struct ConnectionState {
    /// The session, in revisions with a handshake.
    session: Option<Arc<Session>>,
    /// Requests of revision 2026-07-28 in progress, by ID as the client wrote it.
    running_tasks: HashMap<String, AbortHandle>,
}

impl StdioConversation {
    /// Reads to the end of the input. Requests run in `tasks`, subscriptions in `streams`.
    async fn read_messages(
        &self,
        mut input: impl AsyncBufRead + Unpin,
        tasks: &mut JoinSet<()>,
        streams: &mut JoinSet<()>,
    ) -> std::io::Result<()> {
        let mut line = Vec::new();
        loop {
            while tasks.try_join_next().is_some() {}
            while streams.try_join_next().is_some() {}
            // Yields to other tasks from time to time, because reading from the buffer does not
            // yield, and one read may buffer many short lines.
            consume_budget().await;
            if !read_line(&mut input, &mut line).await? {
                return Ok(());
            }
            let decoded_line = String::from_utf8_lossy(&line);
            let text = trim_message(&decoded_line);
            if text.is_empty() {
                continue;
            }
            match Inbound::parse(text) {
                Ok(inbound) => {
                    if matches!(inbound, Inbound::Request(_)) {
                        // Stops reading while the client does not read its responses.
                        while tasks.len() >= MAX_RUNNING_REQUESTS
                            && tasks.join_next().await.is_some()
                        {}
                        self.outbox.wait_for_room().await;
                    }
                    self.handle_message(inbound, count_request_bytes(&line), tasks, streams)
                        .await;
                }
                Err(UnreadableMessage { id, error }) => {
                    self.outbox.respond(id.as_deref(), &Err(error)).await;
                }
            }
        }
    }

    /// Handles a message of `request_bytes` bytes. Requests run concurrently.
    async fn handle_message(
        &self,
        inbound: Inbound,
        request_bytes: usize,
        tasks: &mut JoinSet<()>,
        streams: &mut JoinSet<()>,
    ) {
        let session = self.state.lock().session.clone();
        let request = match inbound {
            Inbound::Request(request) => request,
            Inbound::Notification { method, params }
                if method == "notifications/cancelled" && session.is_none() =>
            {
                let id = params.get("requestId");
                let running_task =
                    id.and_then(|id| self.state.lock().running_tasks.remove(id.get()));
                if let Some(running_task) = running_task {
                    running_task.abort();
                }
                return;
            }
            message => {
                if let Some(session) = session {
                    stateful::handle_message(&session, message);
                }
                return;
            }
        };
        let caller = match self.client.as_caller() {
            Ok(caller) => caller,
            Err(error) => return self.respond(&request, &Err(error)).await,
        };
        if is_stateless(&request) {
            let id = request.id.get().to_owned();
            let is_subscription = request.method == "subscriptions/listen";
            if is_subscription && streams.len() >= MAX_STREAMS {
                let reason =
                    format!("The connection already has {MAX_STREAMS} subscriptions, the maximum");
                let error = RpcError::new(INVALID_REQUEST, reason);
                return self.respond(&request, &Err(error)).await;
            }
            let Some(permit) = self.acquire_permit(request_bytes) else {
                return self.respond(&request, &Err(too_large_error())).await;
            };
            let respond_future = respond_stateless(caller, self.outbox.clone(), request);
            let task_set = if is_subscription { streams } else { tasks };
            let handle = task_set.spawn(async move {
                let _permit = permit;
                respond_future.await;
            });
            let mut state = self.state.lock();
            state.running_tasks.retain(|_, task| !task.is_finished());
            state.running_tasks.insert(id, handle);
            return;
        }
        match (session, request.method.as_str()) {
            (None, "initialize") => self.initialize(&caller, &request, streams).await,
            (None, "ping") => self.respond(&request, &message::raw(&json!({}))).await,
            (None, _) => {
                let reason = "The session is not initialized: send initialize first";
                let error = RpcError::new(INVALID_REQUEST, reason);
                self.respond(&request, &Err(error)).await;
            }
            (Some(session), _) => {
                let Some(permit) = self.acquire_permit(request_bytes) else {
                    return self.respond(&request, &Err(too_large_error())).await;
                };
                let outbox = self.outbox.clone();
                tasks.spawn(async move {
                    let _permit = permit;
                    if stateful::concerns_session(&request.method) {
                        let outcome =
                            stateful::handle_session_request(&caller, &session, &request).await;
                        return outbox.respond(Some(&request.id), &outcome).await;
                    }
                    let id = request.id.clone();
                    let responses = Responses::SharedStream;
                    match stateful::RunningSessionRequest::start(
                        &caller, &session, request, responses, true,
                    ) {
                        Ok(running_request) => forward_messages(running_request, &outbox).await,
                        Err(error) => outbox.respond(Some(&id), &Err(error)).await,
                    }
                });
            }
        }
    }

    /// Returns the permit for a request of `request_bytes` bytes, or `None` if the running requests
    /// and this request together would exceed [`MAX_RUNNING_KIB`].
    fn acquire_permit(&self, request_bytes: usize) -> Option<OwnedSemaphorePermit> {
        // Limits the size to the maximum, so that a single request always fits.
        let needed_kib =
            u32::try_from((request_bytes / 1024).clamp(1, MAX_RUNNING_KIB)).unwrap_or(u32::MAX);
        let running_kib = Arc::clone(&self.running_kib);
        running_kib.try_acquire_many_owned(needed_kib).ok()
    }

    async fn respond(&self, request: &Request, outcome: &Result<Box<RawValue>, RpcError>) {
        self.outbox.respond(Some(&request.id), outcome).await;
    }

    async fn initialize(&self, caller: &Caller, request: &Request, streams: &mut JoinSet<()>) {
        let (session, result) = match stateful::initialize(caller, request) {
            Ok(session_and_result) => session_and_result,
            Err(error) => return self.respond(request, &Err(error)).await,
        };
        self.respond(request, &Ok(result)).await;
        let listener = MessageListener::for_session(caller, &session);
        self.state.lock().session = Some(session);
        let outbox = self.outbox.clone();
        streams.spawn(async move { forward_messages(listener, &outbox).await });
    }
}

/// Returns the size that a request with this text counts for, in bytes. This is the size of the
/// parsed JSON values or the size of the text, whichever is larger.
fn count_request_bytes(line: &[u8]) -> usize {
    let value_bytes = values_memory(count_with_texts(line));
    usize::try_from(value_bytes).map_or(usize::MAX, |value_bytes| value_bytes.max(line.len()))
}

/// Returns the error for a request that exceeds the maximum size of concurrent requests.
fn too_large_error() -> RpcError {
    let reason = format!(
        "Request rejected: the running requests of a connection must not exceed {MAX_RUNNING_KIB} \
         KiB together"
    );
    RpcError::new(INVALID_REQUEST, reason)
}

/// Returns whether a request belongs to a revision without handshake.
fn is_stateless(request: &Request) -> bool {
    if request.method == "server/discover" {
        return true;
    }
    let meta = request.meta();
    let version = meta
        .get(message::PROTOCOL_VERSION_KEY)
        .and_then(|json| serde_json::from_str::<String>(json.get()).ok());
    version.is_some_and(|text| {
        text.parse::<ProtocolVersion>()
            .map_or(true, |version| version.supports(Feature::RequestMetadata))
    })
}

async fn respond_stateless(caller: Caller, outbox: Outbox, request: Request) {
    let request = Arc::new(request);
    let response = async {
        let requester =
            stateless::parse_requester(&caller.mcp.gateway, &request, true, |_, _| Ok(()))?;
        if request.method == "subscriptions/listen" {
            let (first_message, listener) = Box::pin(stateless::listen(&caller, &request)).await?;
            drop(outbox.send(first_message).await);
            forward_messages(listener, &outbox).await;
        } else {
            let running_request =
                stateless::RunningStatelessRequest::start(&caller, &request, requester)?;
            forward_messages(running_request, &outbox).await;
        }
        Ok(())
    };
    if let Err(error) = response.await {
        outbox.respond(Some(&request.id), &Err(error)).await;
    }
}

async fn forward_messages(mut source: impl MessageSource, outbox: &Outbox) {
    while let Some(message) = source.next().await {
        if outbox.send(message).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
