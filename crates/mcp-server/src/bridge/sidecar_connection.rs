use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::connect::Connection;
use super::{Event, MAX_EVENTS, session_replay};
use crate::lines::write_lines;
use crate::stdio::DRAINING;
use pillion_gateway::calling_client::message::Request;

/// A connection to a sidecar, with its unanswered requests.
pub(super) struct SidecarConnection {
    pub(super) number: u64,
    pub(super) phase: Phase,
    /// Requests of the sidecar that the client has not answered, by id as JSON text.
    pub(super) pending_requests: HashSet<String>,
    /// Requests of the client that the sidecar has not answered, by id as the client wrote it.
    pending: HashMap<String, Pending>,
    lines: mpsc::Sender<Bytes>,
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

struct Pending {
    id: Box<RawValue>,
    /// Whether the request ends only when it is cancelled, like a subscription.
    is_endless: bool,
}

/// The kind of a message from a sidecar.
pub(super) enum SidecarMessage {
    /// A message for the client that is not a response.
    ToClient,
    /// The response to a request of the client, with the error if it has failed.
    Response { id: String, error: Option<String> },
    /// The sidecar is shutting down, and accepts no more requests.
    Draining,
    /// The sidecar has accepted the repeated handshake.
    Greeted,
    /// The sidecar has rejected the repeated handshake, with this error.
    NotGreeted(String),
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
    pub(super) fn new(number: u64, connection: Connection, events: mpsc::Sender<Event>) -> Self {
        let (input, output) = tokio::io::split(connection);
        let (lines, messages) = mpsc::channel(MAX_EVENTS);
        let reading = tokio::spawn(read(number, input, events));
        let writing = tokio::spawn(write_all(output, messages));
        Self {
            number,
            phase: Phase::Opening,
            pending_requests: HashSet::new(),
            pending: HashMap::new(),
            lines,
            _tasks: [
                AbortOnDropHandle::new(reading),
                AbortOnDropHandle::new(writing),
            ],
        }
    }

    /// Waits until a line can be sent at once, or the connection is closed.
    pub(super) async fn wait_for_room(&self) {
        drop(self.lines.reserve().await);
    }

    /// Sends a line. If the connection is closed, the task that reads from it reports the end.
    pub(super) async fn send(&self, line: Bytes) {
        drop(self.lines.send(line).await);
    }

    /// Forwards a request, and tracks the request until the sidecar responds.
    pub(super) async fn ask(&mut self, request: &Request, line: Bytes) {
        let pending = Pending {
            id: request.id.clone(),
            is_endless: request.method == "subscriptions/listen",
        };
        self.pending.insert(request.id.get().to_owned(), pending);
        self.send(line).await;
    }

    /// Stops tracking a request. Returns whether it was unanswered.
    pub(super) fn forget(&mut self, id: &str) -> bool {
        self.pending.remove(id).is_some()
    }

    /// Returns the ids of all unanswered requests.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &RawValue> {
        self.pending.values().map(|pending| &*pending.id)
    }

    /// Returns whether all requests are answered, except subscriptions.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.values().all(|pending| pending.is_endless)
    }

    /// Returns whether all requests are answered.
    pub(super) fn is_done(&self) -> bool {
        self.pending.is_empty()
    }

    /// Tracks a message from the sidecar, and returns its kind.
    pub(super) fn track(&mut self, line: &[u8]) -> SidecarMessage {
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(line) else {
            return SidecarMessage::ToClient;
        };
        match (envelope.method.as_deref(), envelope.id) {
            (Some(DRAINING), None) => SidecarMessage::Draining,
            (Some(_), Some(id)) => {
                self.pending_requests.insert(id.get().to_owned());
                SidecarMessage::ToClient
            }
            (Some(_), None) => SidecarMessage::ToClient,
            (None, id) => {
                let id = id.map_or_else(String::new, |id| id.get().to_owned());
                let error = envelope.error.map(|error| error.get().to_owned());
                if !session_replay::is_ours(&id) {
                    self.pending.remove(&id);
                    return SidecarMessage::Response { id, error };
                }
                match (self.phase, error) {
                    (Phase::Opening, None) => SidecarMessage::Greeted,
                    (Phase::Opening, Some(error)) => SidecarMessage::NotGreeted(error),
                    _ => SidecarMessage::ToBridge,
                }
            }
        }
    }
}

/// Reads the sidecar's lines until the connection ends.
async fn read(number: u64, input: ReadHalf<Connection>, events: mpsc::Sender<Event>) {
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        match input.read_until(b'\n', &mut line).await {
            Ok(1..) if line.ends_with(b"\n") => {
                line.pop();
            }
            // An incomplete line is dropped.
            _ => break,
        }
        if events.send(Event::Sidecar(number, line)).await.is_err() {
            return;
        }
    }
    drop(events.send(Event::Gone(number)).await);
}

async fn write_all(output: WriteHalf<Connection>, messages: mpsc::Receiver<Bytes>) {
    if let Err(error) = write_lines(output, messages).await {
        tracing::debug!(%error, "Cannot write to the sidecar");
    }
}
