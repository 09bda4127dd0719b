use axum::body::Bytes;
use indexmap::IndexMap;
use serde_json::json;

use pillion_gateway::calling_client::message::{self, Members, Request};

/// The prefix of the ids of the bridge's own requests, with the opening quote of JSON.
const BRIDGE_ID_PREFIX: &str = "\"pillion-bridge-";

/// Maximum number of resource subscriptions that are repeated, which is the limit of a session.
const MAX_RESOURCES: usize = 1_000;

/// The state of a client's session that the next sidecar needs: the handshake, the log level and
/// resource subscriptions. Stateless revisions have no such state.
#[derive(Default)]
pub(super) struct SessionReplay {
    /// The id and parameters of an `initialize` request that the sidecar has not answered.
    offered: Option<(String, Members)>,
    initialize: Option<Members>,
    is_initialized: bool,
    level: Option<Members>,
    /// The parameters of resource subscriptions, by URI.
    watched: IndexMap<String, Members>,
}

/// Returns whether this is the id of one of the bridge's own requests.
pub(super) fn is_ours(id: &str) -> bool {
    id.starts_with(BRIDGE_ID_PREFIX)
}

impl SessionReplay {
    /// Records a request if it changes the session.
    pub(super) fn record_request(&mut self, request: &Request) {
        let uri = || request.text("uri").unwrap_or_default();
        match request.method.as_str() {
            "initialize" if self.initialize.is_none() => {
                let id = request.id.get().to_owned();
                self.offered = Some((id, request.params.clone()));
            }
            "logging/setLevel" => self.level = Some(request.params.clone()),
            "resources/subscribe" if self.watched.len() < MAX_RESOURCES => {
                self.watched.insert(uri(), request.params.clone());
            }
            "resources/unsubscribe" => drop(self.watched.shift_remove(&uri())),
            _ => {}
        }
    }

    /// Records the response to a request: a handshake counts after the sidecar has accepted it.
    pub(super) fn record_response(&mut self, id: &str, is_success: bool) {
        if let Some((_, params)) = self.offered.take_if(|(offered, _)| offered == id) {
            self.initialize = Some(params).filter(|_| is_success);
        }
    }

    /// Records that the client has sent `notifications/initialized`.
    pub(super) fn mark_initialized(&mut self) {
        self.is_initialized = true;
    }

    /// Returns whether the handshake was successful.
    pub(super) fn has_handshake(&self) -> bool {
        self.initialize.is_some()
    }

    /// Returns the `initialize` request to repeat, if there was a handshake.
    pub(super) fn initialize_request(&self) -> Option<Bytes> {
        let params = self.initialize.as_ref()?;
        Some(message::outgoing(Some(&id(0)), "initialize", params))
    }

    /// Returns the messages to repeat after `initialize`.
    pub(super) fn remaining_messages(&self) -> Vec<Bytes> {
        let mut lines = Vec::new();
        if !self.has_handshake() {
            return lines;
        }
        if self.is_initialized {
            let none = json!({});
            lines.push(message::outgoing(None, "notifications/initialized", &none));
        }
        let level = self.level.iter().map(|params| ("logging/setLevel", params));
        let subscriptions = self
            .watched
            .values()
            .map(|params| ("resources/subscribe", params));
        for (number, (method, params)) in level.chain(subscriptions).enumerate() {
            lines.push(message::outgoing(Some(&id(number + 1)), method, params));
        }
        lines
    }
}

fn id(number: usize) -> String {
    format!("{}{number}", &BRIDGE_ID_PREFIX[1..])
}
