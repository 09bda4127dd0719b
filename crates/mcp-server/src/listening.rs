//! Forwards change notifications of the upstream servers to all listening clients.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::pack::Packs;
use pillion_mcp_client::SubscriptionFilter;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::pack_changes::PackChangeReceiver;
use pillion_gateway::Gateway;
use pillion_gateway::upstream::Server;
use pillion_gateway::visibility::Visibility;

/// Maximum number of changes that wait for a slow client. Such a client misses further changes, but
/// these only repeat the same few notifications.
const MAX_WAITING: usize = 64;

/// Interval in which further changes of the same list of the same server are combined into one
/// notification; doubled up to the maximum while changes continue.
const MIN_COALESCE_INTERVAL: Duration = Duration::from_millis(250);
const MAX_COALESCE_INTERVAL: Duration = Duration::from_secs(8);

const MIN_RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Watches the upstream servers while clients listen, once for all clients.
#[derive(Debug)]
pub(super) struct Listening {
    changes: broadcast::Sender<Change>,
    packs: watch::Sender<Packs>,
    watched: Mutex<WatchedServers>,
}

/// The watched servers, and the listeners they are watched for.
#[derive(Debug, Default)]
struct WatchedServers {
    /// The watches, by the label of the server.
    watches: HashMap<String, Weak<ServerWatch>>,
    listeners: Vec<Weak<Watches>>,
    /// The servers since they last changed; `None` before the first change.
    servers: Option<Vec<Arc<Server>>>,
}

/// The server watches that one listener needs.
type Watches = Mutex<Vec<Arc<ServerWatch>>>;

/// A change of a list, as the method of its notification.
pub(super) type Change = &'static str;

/// The changes that clients are notified of.
const LIST_CHANGED_METHODS: [Change; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    RESOURCES_CHANGED,
];

/// The change of the list of resources.
const RESOURCES_CHANGED: Change = "notifications/resources/list_changed";

#[derive(Debug)]
struct ServerWatch {
    server: Arc<Server>,
    _task: AbortOnDropHandle<()>,
}

/// Receives the changes that a client may see, until dropped.
#[derive(Debug)]
pub(super) struct ChangeReceiver {
    changes: broadcast::Receiver<Change>,
    local: PackChangeReceiver,
    _watches: Arc<Watches>,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            changes: broadcast::Sender::new(MAX_WAITING),
            packs: watch::Sender::default(),
            watched: Mutex::default(),
        }
    }
}

impl Listening {
    /// Notifies listeners that tools were registered or unregistered.
    pub(super) fn tools_changed(&self) {
        // An error means that there is no listener at present.
        let _ = self.changes.send(LIST_CHANGED_METHODS[0]);
    }

    /// Applies a change of the upstream servers: all listeners receive the changes of the new
    /// servers, and a notification that the tools have changed.
    pub(super) fn servers_changed(&self, gateway: &Gateway) {
        let mut watched = self.watched.lock();
        let servers = gateway.upstreams().servers().to_vec();
        let listeners: Vec<_> = watched.listeners.iter().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            let watches = watched.watch(&servers, &self.changes);
            // Watches that only the replaced value holds end here.
            let _old = std::mem::replace(&mut *listener.lock(), watches);
        }
        watched.servers = Some(servers);
        drop(watched);
        self.tools_changed();
    }

    /// Sets the packs, and notifies listeners if other packs are offered.
    pub(super) fn offer_packs(&self, packs: &Packs) {
        self.packs.send_if_modified(|before| {
            let is_other = before.names().ne(packs.names());
            before.clone_from(packs);
            is_other
        });
    }

    /// Starts to listen for changes that a caller with this visibility may see.
    pub(super) fn listen(&self, gateway: &Gateway, visibility: &Visibility) -> ChangeReceiver {
        let changes = self.changes.subscribe();
        let mut watched = self.watched.lock();
        // The servers of `gateway` may be outdated, because the request may have begun before a
        // change.
        let servers = match &watched.servers {
            Some(servers) => servers.clone(),
            None => gateway.upstreams().servers().to_vec(),
        };
        let watches = Arc::new(Mutex::new(watched.watch(&servers, &self.changes)));
        watched
            .listeners
            .retain(|listener| listener.strong_count() > 0);
        watched.listeners.push(Arc::downgrade(&watches));
        ChangeReceiver {
            changes,
            local: PackChangeReceiver::new(self.packs.subscribe(), visibility.clone()),
            _watches: watches,
        }
    }
}

impl WatchedServers {
    /// Returns a watch of each server: the existing one, or a new one.
    fn watch(
        &mut self,
        servers: &[Arc<Server>],
        changes: &broadcast::Sender<Change>,
    ) -> Vec<Arc<ServerWatch>> {
        self.watches.retain(|_, watch| watch.strong_count() > 0);
        // A server that lists its tools for single users only has no shared connection with
        // notifications.
        let servers = servers.iter().filter(|server| server.lists_for_all());
        let held = servers.map(|server| {
            let existing = self.watches.get(&server.label).and_then(Weak::upgrade);
            // The label may belong to another server by now.
            let same_server = existing.filter(|watch| Arc::ptr_eq(&watch.server, server));
            same_server.unwrap_or_else(|| {
                let task = tokio::spawn(watch(Arc::clone(server), changes.clone()));
                let watch = Arc::new(ServerWatch {
                    server: Arc::clone(server),
                    _task: AbortOnDropHandle::new(task),
                });
                let label = server.label.clone();
                self.watches.insert(label, Arc::downgrade(&watch));
                watch
            })
        });
        held.collect()
    }
}

impl ChangeReceiver {
    /// Waits for the next change.
    pub(super) async fn next(&mut self) -> Change {
        loop {
            let change = tokio::select! {
                change = self.changes.recv() => change,
                () = self.local.next() => return RESOURCES_CHANGED,
            };
            match change {
                Ok(change) => return change,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                // The sender exists as long as the sidecar runs.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// Combines the changes of one list of one server: the first change is forwarded at once, and
/// further changes are forwarded together at the end of an interval.
#[derive(Debug, Default)]
struct ChangeCoalescer {
    /// When the current interval ends.
    ends: Option<Instant>,
    length: Duration,
    /// Whether a change must be forwarded at the end of the interval.
    is_waiting: bool,
}

impl ChangeCoalescer {
    /// Records a change. Returns whether to forward the change now.
    fn record_change(&mut self, now: Instant) -> bool {
        if self.ends.is_some() {
            self.is_waiting = true;
            return false;
        }
        self.length = MIN_COALESCE_INTERVAL;
        self.ends = Some(now + self.length);
        true
    }

    /// Records a change that is forwarded at `then` or later. Always returns `false`.
    fn record_delayed_change(&mut self, then: Instant) -> bool {
        self.is_waiting = true;
        self.ends = self.ends.max(Some(then));
        false
    }

    /// Returns whether a combined change must be forwarded now, and starts the next interval if so.
    fn take_due_notification(&mut self, now: Instant) -> bool {
        if self.ends.is_none_or(|ends| now < ends) {
            return false;
        }
        let is_waiting = std::mem::take(&mut self.is_waiting);
        self.length = (self.length * 2).min(MAX_COALESCE_INTERVAL);
        self.ends = is_waiting.then(|| now + self.length);
        is_waiting
    }
}

/// Resolves at `instant`; never resolves if `instant` is `None`.
pub(crate) async fn sleep_until_some(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Forwards the changes of a server, and reconnects when the subscription ends.
async fn watch(server: Arc<Server>, changes: broadcast::Sender<Change>) {
    let mut pause = MIN_RETRY_INTERVAL;
    loop {
        let since = Instant::now();
        let filter = SubscriptionFilter {
            tools_list_changed: true,
            prompts_list_changed: true,
            resources_list_changed: true,
            resources: Vec::new(),
        };
        match server.shared.client.subscribe(filter).await {
            Ok(mut subscription) => {
                let mut gathering = LIST_CHANGED_METHODS.map(|_| ChangeCoalescer::default());
                loop {
                    let ends = gathering.iter().filter_map(|list| list.ends).min();
                    tokio::select! {
                        notice = subscription.next() => {
                            let Some(notice) = notice else { break };
                            let list = LIST_CHANGED_METHODS.iter().position(|it| *it == notice.method);
                            let Some(list) = list else { continue };
                            if list == 0 {
                                server.list_has_changed();
                            }
                            let forward_now = match server.notification_pause.until() {
                                // Before `until`, notifications are ignored, so a client would
                                // still get the old list.
                                Some(until) if list == 0 => gathering[list].record_delayed_change(until),
                                _ => gathering[list].record_change(Instant::now()),
                            };
                            if forward_now {
                                // An error means that there is no listener at present.
                                let _ = changes.send(LIST_CHANGED_METHODS[list]);
                            }
                        }
                        () = sleep_until_some(ends) => {
                            for (list, change) in gathering.iter_mut().zip(LIST_CHANGED_METHODS) {
                                if list.take_due_notification(Instant::now()) {
                                    let _ = changes.send(change);
                                }
                            }
                        }
                    }
                }
                for (list, change) in gathering.iter().zip(LIST_CHANGED_METHODS) {
                    if list.is_waiting {
                        let _ = changes.send(change);
                    }
                }
            }
            Err(error) => {
                tracing::debug!(
                    server.label = server.label, %error,
                    "Cannot subscribe to the change notifications of an MCP server"
                );
            }
        }
        if since.elapsed() > MAX_RETRY_INTERVAL {
            pause = MIN_RETRY_INTERVAL;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_RETRY_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_changes_are_announced_less_and_less_often_and_none_is_lost() {
        let start = Instant::now();
        let mut gathering = ChangeCoalescer::default();
        let mut forwarded = Vec::new();
        let mut last_change = 0;
        for millis in 0..60_000 {
            let now = start + Duration::from_millis(millis);
            // The server sends one change per millisecond for half a minute.
            let is_forwarded = millis < 30_000 && {
                last_change = millis;
                gathering.record_change(now)
            };
            if is_forwarded || gathering.take_due_notification(now) {
                forwarded.push(millis);
            }
        }
        assert_eq!(forwarded[..5], [0, 250, 750, 1_750, 3_750]);
        assert_eq!(forwarded.len(), 9, "{forwarded:?}");
        assert!(forwarded.last().is_some_and(|last| *last > last_change));
        assert!(
            gathering.record_change(start + Duration::from_secs(60)),
            "it was quiet for a while"
        );
    }
}
