use axum::body::Bytes;
use indexmap::IndexMap;
use serde_json::json;

use crate::calling_client::message::{self, Members, Request};

/// Before the numbers of the bridge's own requests, in quotes as they are written.
const OURS: &str = "\"pillion-bridge-";

/// Resources that are watched anew; a session has no more.
const MOST_RESOURCES: usize = 1_000;

/// What a client has said that the next sidecar has to hear: of revisions with a handshake, the
/// handshake and what holds for the session. Later revisions have nothing of the kind.
#[derive(Default)]
pub(super) struct Greeting {
    /// `initialize`, which has no answer yet.
    offered: Option<(String, Members)>,
    initialize: Option<Members>,
    is_over: bool,
    level: Option<Members>,
    /// By URI.
    watched: IndexMap<String, Members>,
}

/// Whether an answer is one to a request of the bridge's own.
pub(super) fn is_ours(id: &str) -> bool {
    id.starts_with(OURS)
}

impl Greeting {
    /// Takes note of what a client asks for.
    pub(super) fn note(&mut self, request: &Request) {
        let uri = || request.text("uri").unwrap_or_default();
        match request.method.as_str() {
            "initialize" if self.initialize.is_none() => {
                let id = request.id.get().to_owned();
                self.offered = Some((id, request.params.clone()));
            }
            "logging/setLevel" => self.level = Some(request.params.clone()),
            "resources/subscribe" if self.watched.len() < MOST_RESOURCES => {
                self.watched.insert(uri(), request.params.clone());
            }
            "resources/unsubscribe" => drop(self.watched.shift_remove(&uri())),
            _ => {}
        }
    }

    /// Takes note of an answer: a handshake counts once the sidecar has taken it.
    pub(super) fn answered(&mut self, id: &str, is_success: bool) {
        if let Some((_, params)) = self.offered.take_if(|(offered, _)| offered == id) {
            self.initialize = Some(params).filter(|_| is_success);
        }
    }

    /// The client has `notifications/initialized` said.
    pub(super) fn is_over(&mut self) {
        self.is_over = true;
    }

    /// Whether there was a handshake.
    pub(super) fn was_said(&self) -> bool {
        self.initialize.is_some()
    }

    /// The handshake, where there was one.
    pub(super) fn hello(&self) -> Option<Bytes> {
        let params = self.initialize.as_ref()?;
        Some(message::outgoing(Some(&id(0)), "initialize", params))
    }

    /// What comes after it.
    pub(super) fn rest(&self) -> Vec<Bytes> {
        let mut lines = Vec::new();
        if !self.was_said() {
            return lines;
        }
        if self.is_over {
            let none = json!({});
            lines.push(message::outgoing(None, "notifications/initialized", &none));
        }
        let level = self.level.iter().map(|params| ("logging/setLevel", params));
        let watched = self.watched.values();
        let watched = watched.map(|params| ("resources/subscribe", params));
        for (number, (method, params)) in level.chain(watched).enumerate() {
            lines.push(message::outgoing(Some(&id(number + 1)), method, params));
        }
        lines
    }
}

fn id(number: usize) -> String {
    format!("{}{number}", &OURS[1..])
}
