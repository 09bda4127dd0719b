use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::log_level::McpLogLevel;

/// The log level and the resource subscriptions, which a client must request again in every new
/// session of a revision before 2026-07-28.
#[derive(Default)]
pub(super) struct SessionSettings {
    log_level: Mutex<Option<McpLogLevel>>,
    /// The number of subscribers of each subscribed resource, by its URI.
    subscriber_counts: Mutex<HashMap<String, usize>>,
}

impl SessionSettings {
    pub(super) fn set_log_level(&self, level: McpLogLevel) {
        *self.log_level.lock() = Some(level);
    }

    pub(super) fn log_level(&self) -> Option<McpLogLevel> {
        *self.log_level.lock()
    }

    pub(super) fn add_subscriber(&self, uri: &str) {
        let mut subscriber_counts = self.subscriber_counts.lock();
        *subscriber_counts.entry(uri.to_owned()).or_default() += 1;
    }

    /// Removes a subscriber of a resource. Returns whether it was the resource's last subscriber.
    pub(super) fn remove_subscriber(&self, uri: &str) -> bool {
        let mut subscriber_counts = self.subscriber_counts.lock();
        let Some(count) = subscriber_counts.get_mut(uri) else {
            return false;
        };
        *count -= 1;
        let was_last_subscriber = *count == 0;
        if was_last_subscriber {
            subscriber_counts.remove(uri);
        }
        was_last_subscriber
    }

    pub(super) fn has_subscribers(&self, uri: &str) -> bool {
        self.subscriber_counts.lock().contains_key(uri)
    }

    /// Returns the requests that restore these settings in a new session, as methods and
    /// parameters.
    pub(super) fn build_requests(&self) -> Vec<(&'static str, Value)> {
        let level = self.log_level();
        let level_request = level.map(|level| ("logging/setLevel", json!({ "level": level })));
        let subscriber_counts = self.subscriber_counts.lock();
        let subscriptions = subscriber_counts
            .keys()
            .map(|uri| ("resources/subscribe", json!({ "uri": uri })));
        level_request.into_iter().chain(subscriptions).collect()
    }
}
