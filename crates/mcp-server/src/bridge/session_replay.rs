use axum::body::Bytes;
use indexmap::IndexMap;
use serde_json::json;

use pillion_gateway::calling_client::message::{self, Members, Request};

/// The prefix of the IDs of the bridge's own requests, with the opening quote of JSON.
const BRIDGE_ID_PREFIX: &str = "\"pillion-bridge-";

/// Maximum number of resource subscriptions that are repeated, which is the limit of a session.
const MAX_RESOURCES: usize = 1_000;

/// The state of a client's session that the next sidecar needs: the handshake, the log level and
/// resource subscriptions. Stateless revisions have no such state.
#[derive(Default)]
pub(super) struct SessionReplay {
    /// The ID and parameters of an `initialize` request to which the sidecar has not responded.
    pending_initialize: Option<(String, Members)>,
    initialize_params: Option<Members>,
    is_initialized: bool,
    log_level_params: Option<Members>,
    /// The parameters of resource subscriptions, by URI.
    subscription_params: IndexMap<String, Members>,
}

/// Returns whether `id` is the ID of one of the bridge's own requests.
pub(super) fn is_bridge_id(id: &str) -> bool {
    id.starts_with(BRIDGE_ID_PREFIX)
}

impl SessionReplay {
    /// Records a request that changes the state of the session.
    pub(super) fn record_request(&mut self, request: &Request) {
        let read_uri = || request.text("uri").unwrap_or_default();
        match request.method.as_str() {
            "initialize" if self.initialize_params.is_none() => {
                let id = request.id.get().to_owned();
                self.pending_initialize = Some((id, request.params.clone()));
            }
            "logging/setLevel" => self.log_level_params = Some(request.params.clone()),
            "resources/subscribe" if self.subscription_params.len() < MAX_RESOURCES => {
                self.subscription_params
                    .insert(read_uri(), request.params.clone());
            }
            "resources/unsubscribe" => drop(self.subscription_params.shift_remove(&read_uri())),
            _ => {}
        }
    }

    /// Records the response to a request. A handshake is only replayed to the next sidecar if a
    /// sidecar has accepted it.
    pub(super) fn record_response(&mut self, id: &str, is_success: bool) {
        let pending_initialize = &mut self.pending_initialize;
        if let Some((_, params)) = pending_initialize.take_if(|(request_id, _)| request_id == id) {
            self.initialize_params = Some(params).filter(|_| is_success);
        }
    }

    /// Records that the client has sent `notifications/initialized`.
    pub(super) fn mark_initialized(&mut self) {
        self.is_initialized = true;
    }

    /// Returns whether the handshake was successful.
    pub(super) fn has_handshake(&self) -> bool {
        self.initialize_params.is_some()
    }

    /// Returns the `initialize` request to repeat, if there was a handshake.
    pub(super) fn initialize_request(&self) -> Option<Bytes> {
        let params = self.initialize_params.as_ref()?;
        let id = format_bridge_id(0);
        Some(message::outgoing(Some(&id), "initialize", params))
    }

    /// Returns the messages to repeat after `initialize`.
    pub(super) fn create_replay_messages(&self) -> Vec<Bytes> {
        let mut messages = Vec::new();
        if !self.has_handshake() {
            return messages;
        }
        if self.is_initialized {
            let notice = message::outgoing(None, "notifications/initialized", &json!({}));
            messages.push(notice);
        }
        let log_level_request = self
            .log_level_params
            .iter()
            .map(|params| ("logging/setLevel", params));
        let subscribe_requests = self
            .subscription_params
            .values()
            .map(|params| ("resources/subscribe", params));
        for (number, (method, params)) in log_level_request.chain(subscribe_requests).enumerate() {
            let id = format_bridge_id(number + 1);
            messages.push(message::outgoing(Some(&id), method, params));
        }
        messages
    }
}

fn format_bridge_id(number: usize) -> String {
    format!("{}{number}", &BRIDGE_ID_PREFIX[1..])
}
