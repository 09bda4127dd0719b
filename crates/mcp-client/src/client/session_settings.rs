use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::log_level::McpLogLevel;

/// The log level and the resource subscriptions, which a client must request again in every new
/// session of a revision before 2026-07-28.
#[derive(Default)]
pub(super) struct SessionSettings {
    log_level: Mutex<Option<McpLogLevel>>,
    /// The subscribed resources, and the number of their subscribers.
    resources: Mutex<HashMap<String, usize>>,
}

impl SessionSettings {
    pub(super) fn set_log_level(&self, level: McpLogLevel) {
        *self.log_level.lock() = Some(level);
    }

    pub(super) fn log_level(&self) -> Option<McpLogLevel> {
        *self.log_level.lock()
    }

    pub(super) fn add(&self, uri: &str) {
        *self.resources.lock().entry(uri.to_owned()).or_default() += 1;
    }

    /// Removes a subscriber of a resource. Returns whether it was the resource's last subscriber.
    pub(super) fn remove(&self, uri: &str) -> bool {
        let mut resources = self.resources.lock();
        let Some(count) = resources.get_mut(uri) else {
            return false;
        };
        *count -= 1;
        let was_last = *count == 0;
        if was_last {
            resources.remove(uri);
        }
        was_last
    }

    /// Returns whether a resource has subscribers.
    pub(super) fn has(&self, uri: &str) -> bool {
        self.resources.lock().contains_key(uri)
    }

    /// Returns the requests to send in a new session, as methods and parameters.
    pub(super) fn requests(&self) -> Vec<(&'static str, Value)> {
        let level = self
            .log_level()
            .map(|level| ("logging/setLevel", json!({ "level": level })));
        let resources = self.resources.lock();
        let subscriptions = resources
            .keys()
            .map(|uri| ("resources/subscribe", json!({ "uri": uri })));
        level.into_iter().chain(subscriptions).collect()
    }
}
