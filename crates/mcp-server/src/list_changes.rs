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

/// Maximum number of changes that wait for a slow client. Such a client misses further changes,
/// which only repeat the same few notifications.
const MAX_WAITING_CHANGES: usize = 64;

/// Minimum interval in which further changes of the same list of the same server are combined into
/// one notification; doubled while changes continue.
const MIN_COALESCE_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum interval in which changes are combined into one notification.
const MAX_COALESCE_INTERVAL: Duration = Duration::from_secs(8);

const MIN_RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Watches the upstream servers for list changes while at least one client listens. All clients
/// share one watch per server.
#[derive(Debug)]
pub(super) struct ListChanges {
    changes: broadcast::Sender<ListChangeMethod>,
    packs: watch::Sender<Packs>,
    watched_servers: Mutex<WatchedServers>,
}

/// The watched servers, and the watches that each listening client needs.
#[derive(Debug, Default)]
struct WatchedServers {
    /// The watch of each server, by the label of the server.
    watches: HashMap<String, Weak<ServerWatch>>,
    listeners: Vec<Weak<Watches>>,
    /// The servers that the last call of [`replace_servers`](ListChanges::replace_servers) set;
    /// `None` before the first call.
    current_servers: Option<Vec<Arc<Server>>>,
}

/// The server watches that one listening client needs.
type Watches = Mutex<Vec<Arc<ServerWatch>>>;

/// The method of the notification that reports a change of a list.
pub(super) type ListChangeMethod = &'static str;

/// The methods of all list change notifications that clients can receive.
const LIST_CHANGED_METHODS: [ListChangeMethod; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    RESOURCES_CHANGED,
];

/// The notification that the list of resources has changed.
const RESOURCES_CHANGED: ListChangeMethod = "notifications/resources/list_changed";

#[derive(Debug)]
struct ServerWatch {
    server: Arc<Server>,
    _task: AbortOnDropHandle<()>,
}

/// Receives the changes that a client may see, until dropped.
#[derive(Debug)]
pub(super) struct ChangeReceiver {
    changes: broadcast::Receiver<ListChangeMethod>,
    pack_changes: PackChangeReceiver,
    _watches: Arc<Watches>,
}

impl Default for ListChanges {
    fn default() -> Self {
        Self {
            changes: broadcast::Sender::new(MAX_WAITING_CHANGES),
            packs: watch::Sender::default(),
            watched_servers: Mutex::default(),
        }
    }
}

impl ListChanges {
    /// Notifies listening clients that tools were registered or unregistered.
    pub(super) fn notify_tools_changed(&self) {
        // Ignores the error, because sending fails only if no client listens.
        let _ = self.changes.send(LIST_CHANGED_METHODS[0]);
    }

    /// Applies a change of the upstream servers. All listening clients then receive the changes of
    /// the new servers, and at once a notification that the tools have changed.
    pub(super) fn replace_servers(&self, gateway: &Gateway) {
        let mut watched_servers = self.watched_servers.lock();
        let servers = gateway.upstreams().servers().to_vec();
        let listeners: Vec<_> = watched_servers
            .listeners
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for listener in listeners {
            let watches = watched_servers.watch_servers(&servers, &self.changes);
            // Drops the previous watches after creating the new ones, so that the watches of
            // unchanged servers continue.
            let _previous_watches = std::mem::replace(&mut *listener.lock(), watches);
        }
        watched_servers.current_servers = Some(servers);
        drop(watched_servers);
        self.notify_tools_changed();
    }

    /// Sets the packs, and notifies listening clients if other packs are offered.
    pub(super) fn offer_packs(&self, packs: &Packs) {
        self.packs.send_if_modified(|current_packs| {
            let has_changed = current_packs.names().ne(packs.names());
            current_packs.clone_from(packs);
            has_changed
        });
    }

    /// Starts listening for list changes that a caller with this visibility may see.
    pub(super) fn listen(&self, gateway: &Gateway, visibility: &Visibility) -> ChangeReceiver {
        let changes = self.changes.subscribe();
        let mut watched_servers = self.watched_servers.lock();
        // Prefers `current_servers`, because the servers of `gateway` may be outdated if the
        // request began before the last change.
        let servers = match &watched_servers.current_servers {
            Some(servers) => servers.clone(),
            None => gateway.upstreams().servers().to_vec(),
        };
        let server_watches = watched_servers.watch_servers(&servers, &self.changes);
        let watches = Arc::new(Mutex::new(server_watches));
        let listeners = &mut watched_servers.listeners;
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(&watches));
        ChangeReceiver {
            changes,
            pack_changes: PackChangeReceiver::new(self.packs.subscribe(), visibility.clone()),
            _watches: watches,
        }
    }
}

impl WatchedServers {
    /// Returns a watch of each server that lists its tools for all users together: the existing
    /// watch, or a new watch.
    fn watch_servers(
        &mut self,
        servers: &[Arc<Server>],
        changes: &broadcast::Sender<ListChangeMethod>,
    ) -> Vec<Arc<ServerWatch>> {
        self.watches.retain(|_, watch| watch.strong_count() > 0);
        // A server that lists its tools for each user separately has no shared connection with
        // notifications.
        let servers = servers.iter().filter(|server| server.lists_for_all_users());
        let watches = servers.map(|server| {
            let existing_watch = self.watches.get(&server.label).and_then(Weak::upgrade);
            // Reuses a watch only for the same server, because the label may belong to another
            // server after a configuration change.
            let same_server_watch =
                existing_watch.filter(|watch| Arc::ptr_eq(&watch.server, server));
            same_server_watch.unwrap_or_else(|| {
                let task = tokio::spawn(forward_changes(Arc::clone(server), changes.clone()));
                let watch = Arc::new(ServerWatch {
                    server: Arc::clone(server),
                    _task: AbortOnDropHandle::new(task),
                });
                let label = server.label.clone();
                self.watches.insert(label, Arc::downgrade(&watch));
                watch
            })
        });
        watches.collect()
    }
}

impl ChangeReceiver {
    pub(super) async fn next(&mut self) -> ListChangeMethod {
        loop {
            let change = tokio::select! {
                change = self.changes.recv() => change,
                () = self.pack_changes.next() => return RESOURCES_CHANGED,
            };
            match change {
                Ok(change) => return change,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                // Never happens, because the sender exists as long as the sidecar runs.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// Combines changes of the same list of the same server. The first change is forwarded at once;
/// further changes are forwarded together at the end of an interval.
#[derive(Debug, Default)]
struct ChangeCoalescer {
    /// The time at which the current interval ends; `None` outside of an interval.
    interval_end: Option<Instant>,
    interval: Duration,
    /// Whether a change must be forwarded at the end of the interval.
    has_waiting_change: bool,
}

impl ChangeCoalescer {
    /// Records a change. Returns whether to forward the change now.
    fn record_change(&mut self, now: Instant) -> bool {
        if self.interval_end.is_some() {
            self.has_waiting_change = true;
            return false;
        }
        self.interval = MIN_COALESCE_INTERVAL;
        self.interval_end = Some(now + self.interval);
        true
    }

    /// Records a change that must not be forwarded before `earliest_time`. Always returns `false`,
    /// because the change is not forwarded now.
    fn record_delayed_change(&mut self, earliest_time: Instant) -> bool {
        self.has_waiting_change = true;
        self.interval_end = self.interval_end.max(Some(earliest_time));
        false
    }

    /// Returns whether a combined change must be forwarded now, and starts the next interval if so.
    fn take_due_notification(&mut self, now: Instant) -> bool {
        if self.interval_end.is_none_or(|end| now < end) {
            return false;
        }
        let has_waiting_change = std::mem::take(&mut self.has_waiting_change);
        self.interval = (self.interval * 2).min(MAX_COALESCE_INTERVAL);
        self.interval_end = has_waiting_change.then(|| now + self.interval);
        has_waiting_change
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
async fn forward_changes(server: Arc<Server>, changes: broadcast::Sender<ListChangeMethod>) {
    let mut pause = MIN_RETRY_INTERVAL;
    loop {
        let started_at = Instant::now();
        let filter = SubscriptionFilter {
            tools_list_changed: true,
            prompts_list_changed: true,
            resources_list_changed: true,
            resources: Vec::new(),
        };
        match server.shared_connection.client.subscribe(filter).await {
            Ok(mut subscription) => {
                let mut coalescers = LIST_CHANGED_METHODS.map(|_| ChangeCoalescer::default());
                loop {
                    let next_interval_end = coalescers
                        .iter()
                        .filter_map(|coalescer| coalescer.interval_end)
                        .min();
                    tokio::select! {
                        notice = subscription.next() => {
                            let Some(notice) = notice else { break };
                            let position = LIST_CHANGED_METHODS.iter().position(|method| *method == notice.method);
                            let Some(index) = position else { continue };
                            if index == 0 {
                                server.record_list_change();
                            }
                            let is_due = match server.notification_pause.paused_until() {
                                // Delays the notification until `paused_until`. Before this time,
                                // the connection to the server ignores notifications and keeps its
                                // old list, which the client would then get.
                                Some(paused_until) if index == 0 => coalescers[index].record_delayed_change(paused_until),
                                _ => coalescers[index].record_change(Instant::now()),
                            };
                            if is_due {
                                // Ignores the error, because sending fails only if no client
                                // listens.
                                let _ = changes.send(LIST_CHANGED_METHODS[index]);
                            }
                        }
                        () = sleep_until_some(next_interval_end) => {
                            for (coalescer, change) in coalescers.iter_mut().zip(LIST_CHANGED_METHODS) {
                                if coalescer.take_due_notification(Instant::now()) {
                                    let _ = changes.send(change);
                                }
                            }
                        }
                    }
                }
                for (coalescer, change) in coalescers.iter().zip(LIST_CHANGED_METHODS) {
                    if coalescer.has_waiting_change {
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
        if started_at.elapsed() > MAX_RETRY_INTERVAL {
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
        let mut coalescer = ChangeCoalescer::default();
        let mut forwarded_at = Vec::new();
        let mut last_change = 0;
        for millis in 0..60_000 {
            let now = start + Duration::from_millis(millis);
            // The server sends one change per millisecond for half a minute.
            let is_forwarded = millis < 30_000 && {
                last_change = millis;
                coalescer.record_change(now)
            };
            if is_forwarded || coalescer.take_due_notification(now) {
                forwarded_at.push(millis);
            }
        }
        assert_eq!(forwarded_at[..5], [0, 250, 750, 1_750, 3_750]);
        assert_eq!(forwarded_at.len(), 9, "{forwarded_at:?}");
        assert!(forwarded_at.last().is_some_and(|last| *last > last_change));
        let is_forwarded = coalescer.record_change(start + Duration::from_secs(60));
        assert!(is_forwarded, "it was quiet for a while");
    }
}
