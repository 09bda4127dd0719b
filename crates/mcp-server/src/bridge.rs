//! Bridges one MCP client's stdio to the sidecar.
//!
//! The sidecar handles the messages like those of any other client, with its servers, workers,
//! limits, approvals and call log. The bridge only tracks which requests are unanswered, and which
//! messages to repeat to the next sidecar after a restart.
//!
//! A sidecar that shuts down gracefully announces it
//! (`DRAINING`): the bridge sends further requests to the
//! next sidecar, and still receives the responses to earlier requests. If a sidecar dies, the
//! client gets errors for its unanswered requests.

mod connect;
mod input;
mod reconnecting;
mod session_replay;
mod sidecar_connection;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use pillion_mcp_client::RpcError;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::lines::write_lines;
use crate::listening::sleep_until_some;
use crate::outbox::MAX_WAITING;
pub use connect::{BridgeConnectError, Connection, Target};
use pillion_gateway::calling_client::message::{self, Inbound, Request};
use reconnecting::Reconnecting;
use session_replay::SessionReplay;
use sidecar_connection::{Phase, SidecarConnection, SidecarMessage};

/// The JSON-RPC error code for a missing connection (`ConnectionClosed` of the MCP SDKs).
const CONNECTION_CLOSED: i64 = -32000;

/// Maximum time that requests wait for the next sidecar.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of requests that wait for the next sidecar.
const MAX_REQUESTS: usize = 1_000;

/// Maximum number of messages that wait to be forwarded.
const MAX_EVENTS: usize = 16;

/// The notifications that the client gets after reconnecting, because lists may have changed.
const LIST_CHANGED_NOTIFICATIONS: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// Forwards messages until the client has closed `input` and its requests have finished or `grace`
/// has passed, or until `shutdown` resolves.
///
/// # Errors
/// The client's streams cannot be read or written.
pub async fn serve(
    target: Target,
    first: Connection,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
    grace: Duration,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (out, messages) = mpsc::channel(MAX_WAITING);
    let (events, event_receiver) = mpsc::channel(MAX_EVENTS);
    let (client_sender, client_receiver) = mpsc::channel(MAX_EVENTS);
    let bridge = Bridge {
        target: Arc::new(target),
        out,
        events,
        legs: Vec::new(),
        last_leg: 0,
        session_replay: SessionReplay::default(),
        waiting: VecDeque::new(),
        away: None,
    };
    let passing = async {
        bridge
            .pass(first, event_receiver, client_receiver, grace)
            .await;
        Ok(())
    };
    tokio::select! {
        outcome = async { tokio::try_join!(input::read(input, client_sender), passing, write_lines(output, messages)) } => {
            outcome.map(drop)
        }
        () = shutdown => Ok(()),
    }
}

/// An event that the bridge handles.
enum Event {
    /// A message from the client, parsed and as the received line.
    Client(Inbound, Bytes),
    /// The error response to an invalid message from the client.
    InvalidMessage(Bytes),
    /// The client has closed its input.
    ClientClosed,
    /// The connection with this number has received a line from its sidecar.
    Sidecar(u64, Vec<u8>),
    /// The connection with this number was closed.
    Gone(u64),
    Connected(Connection),
    NotConnected(BridgeConnectError),
}

struct Bridge {
    target: Arc<Target>,
    out: mpsc::Sender<Bytes>,
    events: mpsc::Sender<Event>,
    /// The connections: one to the current sidecar, and those to sidecars that are shutting down.
    legs: Vec<SidecarConnection>,
    last_leg: u64,
    session_replay: SessionReplay,
    /// Requests of the client that wait for a connection to the next sidecar.
    waiting: VecDeque<(Request, Bytes)>,
    away: Option<Reconnecting>,
}

impl Bridge {
    /// Handles events until the bridge ends. Reads from the client only while all connections have
    /// room, but always reads from the sidecars: a sidecar may read nothing until its own lines are
    /// read.
    async fn pass(
        mut self,
        first: Connection,
        mut event_receiver: mpsc::Receiver<Event>,
        mut client_receiver: mpsc::Receiver<Event>,
        grace: Duration,
    ) {
        self.begin(first).await;
        let mut end = None;
        while !(end.is_some() && self.is_idle()) {
            let give_up_at = match &self.away {
                Some(away) if !self.waiting.is_empty() => Some(away.since + RECONNECT_TIMEOUT),
                _ => None,
            };
            let event = tokio::select! {
                event = event_receiver.recv() => event,
                event = async {
                    for leg in &self.legs {
                        leg.wait_for_room().await;
                    }
                    client_receiver.recv().await
                }, if end.is_none() => event,
                () = sleep_until_some(give_up_at) => {
                    self.give_up().await;
                    continue;
                }
                () = sleep_until_some(end) => return,
            };
            match event {
                Some(Event::ClientClosed) => end = Some(Instant::now() + grace),
                Some(event) => self.take(event).await,
                None => return,
            }
        }
    }

    /// Returns whether all requests of the client are answered.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.legs.iter().all(SidecarConnection::is_idle)
    }

    async fn take(&mut self, event: Event) {
        match event {
            Event::Client(inbound, line) => self.take_from_client(inbound, line).await,
            Event::InvalidMessage(response) => self.send_to_client(response).await,
            Event::Sidecar(leg, line) => self.take_from_sidecar(leg, line).await,
            Event::Gone(leg) => self.lose(leg).await,
            Event::Connected(connection) => self.begin(connection).await,
            Event::NotConnected(error) => {
                tracing::debug!(%error, "Cannot connect to a sidecar; retrying");
                if let Some(away) = &mut self.away {
                    away.problem = error.to_string();
                }
            }
            Event::ClientClosed => {}
        }
    }

    async fn take_from_client(&mut self, inbound: Inbound, line: Bytes) {
        match inbound {
            Inbound::Request(request) => {
                self.session_replay.record_request(&request);
                self.ask(request, line).await;
            }
            Inbound::Notification { method, params } if method == "notifications/cancelled" => {
                let Some(id) = params.get("requestId").map(|id| id.get()) else {
                    return;
                };
                // A cancelled request needs no response.
                self.waiting.retain(|(request, _)| request.id.get() != id);
                for leg in &mut self.legs {
                    if leg.forget(id) {
                        leg.send(line).await;
                        return;
                    }
                }
            }
            Inbound::Notification { method, .. } => {
                if method == "notifications/initialized" {
                    self.session_replay.mark_initialized();
                }
                if let Some(leg) = self.open_connection() {
                    leg.send(line).await;
                }
            }
            Inbound::Response { id, .. } => {
                for leg in &mut self.legs {
                    if leg.pending_requests.remove(id.get()) {
                        leg.send(line).await;
                        return;
                    }
                }
            }
        }
    }

    /// Forwards a request to the current sidecar, or queues the request for the next sidecar.
    async fn ask(&mut self, request: Request, line: Bytes) {
        if let Some(leg) = self.open_connection() {
            leg.ask(&request, line).await;
        } else if self.waiting.len() < MAX_REQUESTS {
            self.waiting.push_back((request, line));
        } else {
            self.reject(
                &request.id,
                "Not connected to a sidecar, and too many requests are already waiting for one"
                    .to_owned(),
            )
            .await;
        }
    }

    async fn take_from_sidecar(&mut self, number: u64, line: Vec<u8>) {
        let Some(leg) = self.legs.iter_mut().find(|leg| leg.number == number) else {
            return;
        };
        match leg.track(&line) {
            SidecarMessage::ToClient => self.send_to_client(line.into()).await,
            SidecarMessage::Response { id, error } => {
                self.session_replay.record_response(&id, error.is_none());
                self.send_to_client(line.into()).await;
            }
            SidecarMessage::Draining => {
                tracing::info!("The sidecar is shutting down; connecting to its successor");
                leg.phase = Phase::Draining;
                self.connect_to_next("The sidecar is shutting down".to_owned());
            }
            SidecarMessage::Greeted => self.open(number).await,
            SidecarMessage::NotGreeted(error) => {
                tracing::warn!(%error, "The new sidecar rejected this client's session");
                self.legs.retain(|leg| leg.number != number);
                self.continue_connecting(Some(error));
            }
            SidecarMessage::ToBridge => {}
        }
        // A sidecar that is shutting down closes the connection after its last response.
        self.legs
            .retain(|leg| leg.phase != Phase::Draining || !leg.is_done());
    }

    /// Starts using a new connection, and repeats the client's handshake on it.
    async fn begin(&mut self, connection: Connection) {
        self.last_leg += 1;
        let leg = SidecarConnection::new(self.last_leg, connection, self.events.clone());
        match self.session_replay.initialize_request() {
            Some(hello) => {
                leg.send(hello).await;
                self.legs.push(leg);
            }
            None => {
                self.legs.push(leg);
                self.open(self.last_leg).await;
            }
        }
    }

    /// Marks a connection as ready, restores the rest of the session's state, and sends the waiting
    /// requests.
    async fn open(&mut self, number: u64) {
        let was_away = self.away.take().is_some();
        if was_away {
            tracing::info!("Reconnected to a sidecar");
            for change in LIST_CHANGED_NOTIFICATIONS
                .into_iter()
                .filter(|_| self.session_replay.has_handshake())
            {
                self.send_to_client(message::outgoing(None, change, &json!({})))
                    .await;
            }
        }
        let Some(leg) = self.legs.iter_mut().find(|leg| leg.number == number) else {
            return;
        };
        leg.phase = Phase::Open;
        for line in self.session_replay.remaining_messages() {
            leg.send(line).await;
        }
        for (request, line) in self.waiting.drain(..) {
            leg.ask(&request, line).await;
        }
    }

    /// Handles the end of a connection: rejects the connection's unanswered requests.
    async fn lose(&mut self, number: u64) {
        let Some(index) = self.legs.iter().position(|leg| leg.number == number) else {
            return;
        };
        let leg = self.legs.remove(index);
        for id in leg.unanswered() {
            let reason = "The sidecar stopped before it answered; a tool that was called may have \
                          run anyway";
            self.reject(id, reason.to_owned()).await;
        }
        for id in &leg.pending_requests {
            let Ok(id) = RawValue::from_string(id.clone()) else {
                continue;
            };
            let params =
                json!({"requestId": id, "reason": "The connection to the sidecar was lost"});
            let notice = message::outgoing(None, "notifications/cancelled", &params);
            self.send_to_client(notice).await;
        }
        match leg.phase {
            Phase::Draining => {}
            Phase::Open => {
                tracing::warn!("Lost the connection to the sidecar; reconnecting");
                self.connect_to_next("The connection to the sidecar was lost".to_owned());
            }
            Phase::Opening => self.continue_connecting(None),
        }
    }

    /// Starts to connect to the next sidecar.
    fn connect_to_next(&mut self, problem: String) {
        self.away = Some(Reconnecting::new(&self.target, &self.events, problem));
    }

    /// Continues to connect to the next sidecar, after a new connection has ended before it was
    /// ready.
    fn continue_connecting(&mut self, problem: Option<String>) {
        if let Some(away) = &mut self.away {
            away.go_on(&self.target, &self.events, problem);
        }
    }

    /// Rejects the waiting requests because there is no sidecar.
    async fn give_up(&mut self) {
        let problem = match &self.away {
            Some(away) => away.problem.clone(),
            None => return,
        };
        for (request, _) in std::mem::take(&mut self.waiting) {
            self.reject(&request.id, problem.clone()).await;
        }
    }

    fn open_connection(&mut self) -> Option<&mut SidecarConnection> {
        self.legs.iter_mut().find(|leg| leg.phase == Phase::Open)
    }

    async fn reject(&self, id: &RawValue, reason: String) {
        let error = RpcError::new(CONNECTION_CLOSED, reason);
        self.send_to_client(message::response(Some(id), &Err(error)))
            .await;
    }

    /// Sends a message to the client. If the client has disconnected, another task ends the bridge.
    async fn send_to_client(&self, message: Bytes) {
        drop(self.out.send(message).await);
    }
}
