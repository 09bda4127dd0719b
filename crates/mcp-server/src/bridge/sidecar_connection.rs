use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::connect::Connection;
use super::{BridgeEvent, MAX_WAITING_EVENTS, session_replay};
use crate::lines::write_lines;
use crate::stdio::DRAINING_METHOD;
use pillion_gateway::calling_client::message::Request;

/// A connection to a sidecar, with its unanswered requests.
pub(super) struct SidecarConnection {
    pub(super) number: u64,
    pub(super) phase: Phase,
    /// Requests of the sidecar to which the client has not responded, by ID as JSON text.
    pub(super) sidecar_requests: HashSet<String>,
    /// Requests of the client to which the sidecar has not responded, by ID as the client wrote it.
    client_requests: HashMap<String, PendingRequest>,
    line_sender: mpsc::Sender<Bytes>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The bridge is repeating the client's handshake.
    Opening,
    Open,
    /// The sidecar is responding to earlier requests before it shuts down.
    Draining,
}

struct PendingRequest {
    id: Box<RawValue>,
    /// Whether the request ends only when it is cancelled, like a subscription.
    is_endless: bool,
}

/// The kind of a message from a sidecar.
pub(super) enum SidecarMessage {
    /// A message for the client that is not a response.
    ToClient,
    /// The response to a request of the client, with the error if the request has failed.
    Response { id: String, error: Option<String> },
    /// The sidecar is shutting down, and accepts no more requests.
    Draining,
    /// The sidecar has accepted the repeated handshake.
    HandshakeAccepted,
    /// The sidecar has rejected the repeated handshake, with this error.
    HandshakeRejected(String),
    /// The response to a request that the bridge has repeated, which the client does not get.
    ToBridge,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl SidecarConnection {
    pub(super) fn new(
        number: u64,
        connection: Connection,
        events: mpsc::Sender<BridgeEvent>,
    ) -> Self {
        let (input, output) = tokio::io::split(connection);
        let (line_sender, messages) = mpsc::channel(MAX_WAITING_EVENTS);
        let read_task = tokio::spawn(read_lines(number, input, events));
        let write_task = tokio::spawn(write_all(output, messages));
        Self {
            number,
            phase: Phase::Opening,
            sidecar_requests: HashSet::new(),
            client_requests: HashMap::new(),
            line_sender,
            _tasks: [read_task, write_task].map(AbortOnDropHandle::new),
        }
    }

    /// Waits until a line can be sent at once, or the connection is closed.
    pub(super) async fn wait_for_room(&self) {
        drop(self.line_sender.reserve().await);
    }

    /// Sends a line. If the connection is closed, the task that reads from the connection reports
    /// the end.
    pub(super) async fn send(&self, line: Bytes) {
        drop(self.line_sender.send(line).await);
    }

    /// Forwards a request, and tracks the request until the sidecar responds.
    pub(super) async fn send_request(&mut self, request: &Request, line: Bytes) {
        let pending_request = PendingRequest {
            id: request.id.clone(),
            is_endless: request.method == "subscriptions/listen",
        };
        self.client_requests
            .insert(request.id.get().to_owned(), pending_request);
        self.send(line).await;
    }

    /// Stops tracking a request. Returns whether the request was unanswered.
    pub(super) fn forget_request(&mut self, id: &str) -> bool {
        self.client_requests.remove(id).is_some()
    }

    /// Returns the IDs of all unanswered requests.
    pub(super) fn unanswered_ids(&self) -> impl Iterator<Item = &RawValue> {
        self.client_requests.values().map(|request| &*request.id)
    }

    /// Returns whether the sidecar has responded to all requests of the client except
    /// subscriptions.
    pub(super) fn is_idle(&self) -> bool {
        let mut requests = self.client_requests.values();
        requests.all(|request| request.is_endless)
    }

    /// Returns whether the sidecar has responded to all requests of the client, including
    /// subscriptions.
    pub(super) fn is_done(&self) -> bool {
        self.client_requests.is_empty()
    }

    /// Tracks a message from the sidecar, and returns its kind.
    pub(super) fn track(&mut self, line: &[u8]) -> SidecarMessage {
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(line) else {
            return SidecarMessage::ToClient;
        };
        match (envelope.method.as_deref(), envelope.id) {
            (Some(DRAINING_METHOD), None) => SidecarMessage::Draining,
            (Some(_), Some(id)) => {
                self.sidecar_requests.insert(id.get().to_owned());
                SidecarMessage::ToClient
            }
            (Some(_), None) => SidecarMessage::ToClient,
            (None, id) => {
                let id_text = id.map_or_else(String::new, |id| id.get().to_owned());
                let error = envelope.error.map(|error| error.get().to_owned());
                if !session_replay::is_bridge_id(&id_text) {
                    self.client_requests.remove(&id_text);
                    return SidecarMessage::Response { id: id_text, error };
                }
                match (self.phase, error) {
                    (Phase::Opening, None) => SidecarMessage::HandshakeAccepted,
                    (Phase::Opening, Some(error)) => SidecarMessage::HandshakeRejected(error),
                    _ => SidecarMessage::ToBridge,
                }
            }
        }
    }
}

/// Reads the sidecar's lines until the connection ends.
async fn read_lines(number: u64, input: ReadHalf<Connection>, events: mpsc::Sender<BridgeEvent>) {
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        match input.read_until(b'\n', &mut line).await {
            Ok(1..) if line.ends_with(b"\n") => {
                line.pop();
            }
            // Drops an incomplete line at the end of the connection.
            _ => break,
        }
        let event = BridgeEvent::Sidecar(number, line);
        if events.send(event).await.is_err() {
            return;
        }
    }
    drop(events.send(BridgeEvent::SidecarClosed(number)).await);
}

async fn write_all(output: WriteHalf<Connection>, messages: mpsc::Receiver<Bytes>) {
    if let Err(error) = write_lines(output, messages).await {
        tracing::debug!(%error, "Cannot write to the sidecar");
    }
}
