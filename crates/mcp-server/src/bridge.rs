//! Bridges one MCP client's stdio to the sidecar.
//!
//! The sidecar handles the messages like those of any other client, with its servers, workers,
//! limits, approvals and call log. The bridge only tracks which requests are unanswered, and which
//! messages to repeat to the next sidecar after a restart.
//!
//! A sidecar that shuts down gracefully announces the shutdown (`DRAINING_METHOD`). The bridge then
//! sends further requests to the next sidecar, and still receives the responses to earlier
//! requests. If a sidecar dies, the client gets errors for its unanswered requests.

mod connect;
mod input;
mod reconnection;
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
use crate::list_changes::sleep_until_some;
use crate::outbox::MAX_WAITING_MESSAGES;
pub use connect::{BridgeConnectError, Connection, Target};
use pillion_gateway::calling_client::message::{self, Inbound, Request};
use reconnection::Reconnection;
use session_replay::SessionReplay;
use sidecar_connection::{Phase, SidecarConnection, SidecarMessage};

/// The JSON-RPC error code for a missing connection (`ConnectionClosed` of the MCP SDKs).
const CONNECTION_CLOSED_CODE: i64 = -32000;

/// Maximum time that requests wait for the next sidecar.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of requests that wait for the next sidecar.
const MAX_WAITING_REQUESTS: usize = 1_000;

/// Maximum number of messages that wait to be forwarded.
const MAX_WAITING_EVENTS: usize = 16;

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
    first_connection: Connection,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
    grace: Duration,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (output_sender, output_messages) = mpsc::channel(MAX_WAITING_MESSAGES);
    let (events, event_receiver) = mpsc::channel(MAX_WAITING_EVENTS);
    let (client_sender, client_receiver) = mpsc::channel(MAX_WAITING_EVENTS);
    let bridge = Bridge {
        target: Arc::new(target),
        output_sender,
        events,
        sidecars: Vec::new(),
        last_number: 0,
        session_replay: SessionReplay::default(),
        waiting_requests: VecDeque::new(),
        reconnection: None,
    };
    let event_loop = async {
        bridge
            .handle_events(first_connection, event_receiver, client_receiver, grace)
            .await;
        Ok(())
    };
    tokio::select! {
        outcome = async { tokio::try_join!(input::read_messages(input, client_sender), event_loop, write_lines(output, output_messages)) } => {
            outcome.map(drop)
        }
        () = shutdown => Ok(()),
    }
}

/// An event that the bridge handles.
enum BridgeEvent {
    /// A message from the client, both parsed and as the line that was received.
    Client(Inbound, Bytes),
    /// The error response to an invalid message from the client.
    InvalidMessage(Bytes),
    /// The client has closed its input.
    ClientClosed,
    /// A line from a sidecar, with the [`SidecarConnection::number`] of the connection that
    /// received the line.
    Sidecar(u64, Vec<u8>),
    /// The [`SidecarConnection::number`] of a connection that was closed.
    SidecarClosed(u64),
    Connected(Connection),
    ConnectFailed(BridgeConnectError),
}

struct Bridge {
    target: Arc<Target>,
    output_sender: mpsc::Sender<Bytes>,
    events: mpsc::Sender<BridgeEvent>,
    /// The connections to the current sidecar and to sidecars that are shutting down.
    sidecars: Vec<SidecarConnection>,
    last_number: u64,
    session_replay: SessionReplay,
    /// Requests of the client that wait for a connection to the next sidecar.
    waiting_requests: VecDeque<(Request, Bytes)>,
    reconnection: Option<Reconnection>,
}

impl Bridge {
    /// Handles events until the bridge ends. Reads from the client only while every connection has
    /// room. Always reads from the sidecars, because a sidecar may not read from the bridge until
    /// the bridge has read the sidecar's lines.
    async fn handle_events(
        mut self,
        first_connection: Connection,
        mut event_receiver: mpsc::Receiver<BridgeEvent>,
        mut client_receiver: mpsc::Receiver<BridgeEvent>,
        grace: Duration,
    ) {
        self.add_connection(first_connection).await;
        let mut close_deadline = None;
        while !(close_deadline.is_some() && self.is_idle()) {
            let give_up_at = match &self.reconnection {
                Some(reconnection) if !self.waiting_requests.is_empty() => {
                    Some(reconnection.started_at + RECONNECT_TIMEOUT)
                }
                _ => None,
            };
            let event = tokio::select! {
                event = event_receiver.recv() => event,
                event = async {
                    for sidecar in &self.sidecars {
                        sidecar.wait_for_room().await;
                    }
                    client_receiver.recv().await
                }, if close_deadline.is_none() => event,
                () = sleep_until_some(give_up_at) => {
                    self.reject_waiting_requests().await;
                    continue;
                }
                () = sleep_until_some(close_deadline) => return,
            };
            match event {
                Some(BridgeEvent::ClientClosed) => close_deadline = Some(Instant::now() + grace),
                Some(event) => self.handle_event(event).await,
                None => return,
            }
        }
    }

    /// Returns whether the client has received the responses to all its requests except
    /// subscriptions.
    fn is_idle(&self) -> bool {
        self.waiting_requests.is_empty() && self.sidecars.iter().all(SidecarConnection::is_idle)
    }

    async fn handle_event(&mut self, event: BridgeEvent) {
        match event {
            BridgeEvent::Client(inbound, line) => self.handle_client_message(inbound, line).await,
            BridgeEvent::InvalidMessage(response) => self.send_to_client(response).await,
            BridgeEvent::Sidecar(number, line) => self.handle_sidecar_line(number, line).await,
            BridgeEvent::SidecarClosed(number) => self.remove_connection(number).await,
            BridgeEvent::Connected(connection) => self.add_connection(connection).await,
            BridgeEvent::ConnectFailed(error) => {
                tracing::debug!(%error, "Cannot connect to a sidecar; retrying");
                if let Some(reconnection) = &mut self.reconnection {
                    reconnection.problem = error.to_string();
                }
            }
            BridgeEvent::ClientClosed => {}
        }
    }

    async fn handle_client_message(&mut self, inbound: Inbound, line: Bytes) {
        match inbound {
            Inbound::Request(request) => {
                self.session_replay.record_request(&request);
                self.forward_request(request, line).await;
            }
            Inbound::Notification { method, params } if method == "notifications/cancelled" => {
                let Some(id) = params.get("requestId").map(|id| id.get()) else {
                    return;
                };
                // Removes a waiting request without a response, because a cancelled request needs
                // none.
                self.waiting_requests
                    .retain(|(request, _)| request.id.get() != id);
                for sidecar in &mut self.sidecars {
                    if sidecar.forget_request(id) {
                        sidecar.send(line).await;
                        return;
                    }
                }
            }
            Inbound::Notification { method, .. } => {
                if method == "notifications/initialized" {
                    self.session_replay.mark_initialized();
                }
                if let Some(sidecar) = self.find_open_connection() {
                    sidecar.send(line).await;
                }
            }
            Inbound::Response { id, .. } => {
                for sidecar in &mut self.sidecars {
                    if sidecar.sidecar_requests.remove(id.get()) {
                        sidecar.send(line).await;
                        return;
                    }
                }
            }
        }
    }

    /// Forwards a request to the current sidecar, or queues the request for the next sidecar.
    async fn forward_request(&mut self, request: Request, line: Bytes) {
        if let Some(sidecar) = self.find_open_connection() {
            sidecar.send_request(&request, line).await;
        } else if self.waiting_requests.len() < MAX_WAITING_REQUESTS {
            self.waiting_requests.push_back((request, line));
        } else {
            let reason = format!(
                "Not connected to a sidecar, and the maximum of {MAX_WAITING_REQUESTS} requests \
                 are already waiting for a connection"
            );
            self.reject_request(&request.id, reason).await;
        }
    }

    async fn handle_sidecar_line(&mut self, number: u64, line: Vec<u8>) {
        let mut sidecars = self.sidecars.iter_mut();
        let Some(sidecar) = sidecars.find(|sidecar| sidecar.number == number) else {
            return;
        };
        match sidecar.track(&line) {
            SidecarMessage::ToClient => self.send_to_client(line.into()).await,
            SidecarMessage::Response { id, error } => {
                self.session_replay.record_response(&id, error.is_none());
                self.send_to_client(line.into()).await;
            }
            SidecarMessage::Draining => {
                tracing::info!("The sidecar is shutting down; connecting to the next sidecar");
                sidecar.phase = Phase::Draining;
                self.connect_to_next("The sidecar is shutting down".to_owned());
            }
            SidecarMessage::HandshakeAccepted => self.activate_connection(number).await,
            SidecarMessage::HandshakeRejected(error) => {
                tracing::warn!(%error, "The new sidecar rejected this client's session");
                self.sidecars.retain(|sidecar| sidecar.number != number);
                self.continue_connecting(Some(error));
            }
            SidecarMessage::ToBridge => {}
        }
        // Drops the connection to a sidecar that is shutting down once that sidecar has responded
        // to all requests.
        self.sidecars
            .retain(|sidecar| sidecar.phase != Phase::Draining || !sidecar.is_done());
    }

    /// Starts using a new connection, and repeats the client's handshake on the connection.
    async fn add_connection(&mut self, connection: Connection) {
        self.last_number += 1;
        let sidecar = SidecarConnection::new(self.last_number, connection, self.events.clone());
        match self.session_replay.initialize_request() {
            Some(initialize_request) => {
                sidecar.send(initialize_request).await;
                self.sidecars.push(sidecar);
            }
            None => {
                self.sidecars.push(sidecar);
                self.activate_connection(self.last_number).await;
            }
        }
    }

    /// Marks a connection as ready, restores the rest of the session's state, and sends the waiting
    /// requests.
    async fn activate_connection(&mut self, number: u64) {
        if self.reconnection.take().is_some() {
            tracing::info!("Reconnected to a sidecar");
            if self.session_replay.has_handshake() {
                for change in LIST_CHANGED_NOTIFICATIONS {
                    let notice = message::outgoing(None, change, &json!({}));
                    self.send_to_client(notice).await;
                }
            }
        }
        let mut sidecars = self.sidecars.iter_mut();
        let Some(sidecar) = sidecars.find(|sidecar| sidecar.number == number) else {
            return;
        };
        sidecar.phase = Phase::Open;
        for line in self.session_replay.create_replay_messages() {
            sidecar.send(line).await;
        }
        for (request, line) in self.waiting_requests.drain(..) {
            sidecar.send_request(&request, line).await;
        }
    }

    /// Handles the end of a connection by rejecting the connection's unanswered requests.
    async fn remove_connection(&mut self, number: u64) {
        let mut sidecars = self.sidecars.iter();
        let Some(index) = sidecars.position(|sidecar| sidecar.number == number) else {
            return;
        };
        let sidecar = self.sidecars.remove(index);
        for id in sidecar.unanswered_ids() {
            let reason = "The sidecar stopped before sending a response; the called tool may have \
                          run anyway";
            self.reject_request(id, reason.to_owned()).await;
        }
        for id in &sidecar.sidecar_requests {
            let Ok(id) = RawValue::from_string(id.clone()) else {
                continue;
            };
            let params =
                json!({"requestId": id, "reason": "The connection to the sidecar was lost"});
            let notice = message::outgoing(None, "notifications/cancelled", &params);
            self.send_to_client(notice).await;
        }
        match sidecar.phase {
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
        self.reconnection = Some(Reconnection::new(&self.target, &self.events, problem));
    }

    /// Continues to connect to the next sidecar, after a new connection has ended before it was
    /// ready.
    fn continue_connecting(&mut self, problem: Option<String>) {
        if let Some(reconnection) = &mut self.reconnection {
            reconnection.restart(&self.target, &self.events, problem);
        }
    }

    /// Rejects the waiting requests because no sidecar is connected.
    async fn reject_waiting_requests(&mut self) {
        let problem = match &self.reconnection {
            Some(reconnection) => reconnection.problem.clone(),
            None => return,
        };
        for (request, _) in std::mem::take(&mut self.waiting_requests) {
            self.reject_request(&request.id, problem.clone()).await;
        }
    }

    fn find_open_connection(&mut self) -> Option<&mut SidecarConnection> {
        let mut sidecars = self.sidecars.iter_mut();
        sidecars.find(|sidecar| sidecar.phase == Phase::Open)
    }

    async fn reject_request(&self, id: &RawValue, reason: String) {
        let error = RpcError::new(CONNECTION_CLOSED_CODE, reason);
        self.send_to_client(message::response(Some(id), &Err(error)))
            .await;
    }

    /// Sends a message to the client. If the client has disconnected, another task ends the bridge.
    async fn send_to_client(&self, message: Bytes) {
        drop(self.output_sender.send(message).await);
    }
}
