use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::connect::Connection;
use super::{Event, MOST_EVENTS, greeting};
use crate::calling_client::message::Request;
use crate::mcp_server::stdio::{DRAINING, write};

/// One connection to a sidecar, and what is open on it.
pub(super) struct Leg {
    pub(super) number: u64,
    pub(super) phase: Phase,
    /// Questions of the sidecar that the client has not answered, by their ids as written.
    pub(super) asked: HashSet<String>,
    /// Requests that have no answer yet, by their ids as the client wrote them.
    pending: HashMap<String, Pending>,
    lines: mpsc::Sender<Bytes>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The sidecar hears what the one before it was told.
    Opening,
    Open,
    /// The sidecar answers what it was asked, and ends.
    Draining,
}

struct Pending {
    id: Box<RawValue>,
    /// It is answered when somebody ends it.
    is_endless: bool,
}

/// What a sidecar said.
pub(super) enum Said {
    /// Something for the client that is no answer.
    ToClient,
    /// The answer to a request of the client, and the error if it is one.
    Answer { id: String, error: Option<String> },
    /// It answers nothing any more but what it was asked.
    Draining,
    /// It has heard what was said before.
    Greeted,
    /// It did not take it, for this reason.
    NotGreeted(String),
    /// The answer to something else that was said again.
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

impl Leg {
    pub(super) fn new(number: u64, connection: Connection, events: mpsc::Sender<Event>) -> Self {
        let (input, output) = tokio::io::split(connection);
        let (lines, messages) = mpsc::channel(MOST_EVENTS);
        let reading = tokio::spawn(read(number, input, events));
        let writing = tokio::spawn(write_all(output, messages));
        Self {
            number,
            phase: Phase::Opening,
            asked: HashSet::new(),
            pending: HashMap::new(),
            lines,
            _tasks: [
                AbortOnDropHandle::new(reading),
                AbortOnDropHandle::new(writing),
            ],
        }
    }

    /// Waits until a line can be passed on at once, or never can.
    pub(super) async fn has_room(&self) {
        drop(self.lines.reserve().await);
    }

    /// Passes a line on. Where that fails the connection is gone, which its reader finds out.
    pub(super) async fn send(&self, line: Bytes) {
        drop(self.lines.send(line).await);
    }

    /// Passes a request on, which is open from now on.
    pub(super) async fn ask(&mut self, request: &Request, line: Bytes) {
        let pending = Pending {
            id: request.id.clone(),
            is_endless: request.method == "subscriptions/listen",
        };
        self.pending.insert(request.id.get().to_owned(), pending);
        self.send(line).await;
    }

    /// Whether a request was open; it is not any more.
    pub(super) fn forget(&mut self, id: &str) -> bool {
        self.pending.remove(id).is_some()
    }

    /// The ids of all requests that have no answer.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &RawValue> {
        self.pending.values().map(|pending| &*pending.id)
    }

    /// Whether no answer is to be waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.values().all(|pending| pending.is_endless)
    }

    /// Whether every request has its answer.
    pub(super) fn is_done(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes note of what the sidecar says, and tells whom it is for.
    pub(super) fn hear(&mut self, line: &[u8]) -> Said {
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(line) else {
            return Said::ToClient;
        };
        match (envelope.method.as_deref(), envelope.id) {
            (Some(DRAINING), None) => Said::Draining,
            (Some(_), Some(id)) => {
                self.asked.insert(id.get().to_owned());
                Said::ToClient
            }
            (Some(_), None) => Said::ToClient,
            (None, id) => {
                let id = id.map_or_else(String::new, |id| id.get().to_owned());
                let error = envelope.error.map(|error| error.get().to_owned());
                if !greeting::is_ours(&id) {
                    self.pending.remove(&id);
                    return Said::Answer { id, error };
                }
                match (self.phase, error) {
                    (Phase::Opening, None) => Said::Greeted,
                    (Phase::Opening, Some(error)) => Said::NotGreeted(error),
                    _ => Said::ToBridge,
                }
            }
        }
    }
}

/// Reads the sidecar's lines to the end.
async fn read(number: u64, input: ReadHalf<Connection>, events: mpsc::Sender<Event>) {
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        match input.read_until(b'\n', &mut line).await {
            Ok(1..) if line.ends_with(b"\n") => {
                line.pop();
            }
            // Half a line says nothing.
            _ => break,
        }
        if events.send(Event::Sidecar(number, line)).await.is_err() {
            return;
        }
    }
    drop(events.send(Event::Gone(number)).await);
}

async fn write_all(output: WriteHalf<Connection>, messages: mpsc::Receiver<Bytes>) {
    if let Err(error) = write(output, messages).await {
        tracing::debug!(%error, "Cannot write to the sidecar");
    }
}
