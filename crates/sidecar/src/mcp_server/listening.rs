//! What the servers below say of changes, for all who listen.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::mcp::SubscriptionFilter;
use pillion_core::pack::Packs;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::local::LocalEar;
use crate::app::App;
use crate::upstream::Server;
use crate::visibility::Visibility;

/// How many changes may wait for a client that does not keep up. It misses some then; they
/// all say the same few things.
const MOST_WAITING: usize = 64;

/// How long after it was told of a change nobody is told of the next ones of that list of that
/// server; twice as long each time that there were some, up to the longest.
const SHORTEST_GATHERING: Duration = Duration::from_millis(250);
const LONGEST_GATHERING: Duration = Duration::from_secs(8);

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Watches the servers for as long as somebody listens, once for all who do.
#[derive(Debug)]
pub(super) struct Listening {
    changes: broadcast::Sender<Change>,
    packs: watch::Sender<Packs>,
    known: Mutex<Known>,
}

/// Who is watched, and for whom.
#[derive(Debug, Default)]
struct Known {
    /// By the labels of their servers.
    watches: HashMap<String, Weak<Watch>>,
    ears: Vec<Weak<Watches>>,
    /// The servers that there are since the last change of them; none before the first.
    servers: Option<Vec<Arc<Server>>>,
}

/// What one that listens holds.
type Watches = Mutex<Vec<Arc<Watch>>>;

/// A list that has changed, by the notice's method.
pub(super) type Change = &'static str;

/// Every list of which a change is told, as the notice's method.
const CHANGES: [Change; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    RESOURCES_CHANGED,
];

/// There are other resources.
pub(super) const RESOURCES_CHANGED: Change = "notifications/resources/list_changed";

#[derive(Debug)]
struct Watch {
    server: Arc<Server>,
    _task: AbortOnDropHandle<()>,
}

/// Hears of changes for as long as it is held.
#[derive(Debug)]
pub(super) struct Ear {
    changes: broadcast::Receiver<Change>,
    local: LocalEar,
    _watches: Arc<Watches>,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            changes: broadcast::Sender::new(MOST_WAITING),
            packs: watch::Sender::default(),
            known: Mutex::default(),
        }
    }
}

impl Listening {
    /// Tools of our own have come or gone.
    pub(super) fn tools_changed(&self) {
        // That nobody listens just now is no error.
        let _ = self.changes.send(CHANGES[0]);
    }

    /// There are other servers now: whoever listens hears of those as well, and that there are
    /// other tools.
    pub(super) fn servers_changed(&self, app: &App) {
        let mut known = self.known.lock();
        let servers = app.upstreams().servers().to_vec();
        let ears: Vec<_> = known.ears.iter().filter_map(Weak::upgrade).collect();
        for ear in ears {
            let watches = known.watch(&servers, &self.changes);
            // What only the old ones held ends after that.
            let _old = std::mem::replace(&mut *ear.lock(), watches);
        }
        known.servers = Some(servers);
        drop(known);
        self.tools_changed();
    }

    /// There are other packs now, if there are.
    pub(super) fn offer_packs(&self, packs: &Packs) {
        self.packs.send_if_modified(|before| {
            let is_other = before.names().ne(packs.names());
            before.clone_from(packs);
            is_other
        });
    }

    /// Listens to what of it is for who sees that much.
    pub(super) fn listen(&self, app: &App, visibility: &Visibility) -> Ear {
        let changes = self.changes.subscribe();
        let mut known = self.known.lock();
        // The request may have begun before the last change.
        let servers = known.servers.clone();
        let servers = servers.unwrap_or_else(|| app.upstreams().servers().to_vec());
        let watches = Mutex::new(known.watch(&servers, &self.changes));
        let watches = Arc::new(watches);
        known.ears.retain(|ear| ear.strong_count() > 0);
        known.ears.push(Arc::downgrade(&watches));
        Ear {
            changes,
            local: LocalEar::new(self.packs.subscribe(), visibility.clone()),
            _watches: watches,
        }
    }
}

impl Known {
    /// A watch of each server: the one that there is, or a new one.
    fn watch(
        &mut self,
        servers: &[Arc<Server>],
        changes: &broadcast::Sender<Change>,
    ) -> Vec<Arc<Watch>> {
        self.watches.retain(|_, watch| watch.strong_count() > 0);
        // Where tools are listed for each user alone, there is nobody to listen as.
        let servers = servers.iter().filter(|server| server.lists_for_all());
        let held = servers.map(|server| {
            let known = self.watches.get(&server.label).and_then(Weak::upgrade);
            // One of that name may be another server by now.
            let known = known.filter(|watch| Arc::ptr_eq(&watch.server, server));
            known.unwrap_or_else(|| {
                let watch = watch(Arc::clone(server), changes.clone());
                let watch = Arc::new(Watch {
                    server: Arc::clone(server),
                    _task: AbortOnDropHandle::new(tokio::spawn(watch)),
                });
                let label = server.label.clone();
                self.watches.insert(label, Arc::downgrade(&watch));
                watch
            })
        });
        held.collect()
    }
}

impl Ear {
    /// The next change.
    pub(super) async fn next(&mut self) -> Change {
        loop {
            let change = tokio::select! {
                change = self.changes.recv() => change,
                change = self.local.next() => return change,
            };
            match change {
                Ok(change) => return change,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                // The other end is as long-lived as the sidecar.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// The changes of one list of one server: the first is told at once, those that come soon after
/// it once, when it is over.
#[derive(Debug, Default)]
struct Gathering {
    /// When it is over.
    ends: Option<Instant>,
    length: Duration,
    /// Whether there is something to tell then.
    is_waiting: bool,
}

impl Gathering {
    /// There is a change: whether to tell of it now.
    fn is_told_now(&mut self, now: Instant) -> bool {
        if self.ends.is_some() {
            self.is_waiting = true;
            return false;
        }
        self.length = SHORTEST_GATHERING;
        self.ends = Some(now + self.length);
        true
    }

    /// There is a change that does not count before then.
    fn is_told_later(&mut self, then: Instant) -> bool {
        self.is_waiting = true;
        self.ends = self.ends.max(Some(then));
        false
    }

    /// Some time has passed: whether there is something to tell now.
    fn has_to_tell(&mut self, now: Instant) -> bool {
        if self.ends.is_none_or(|ends| now < ends) {
            return false;
        }
        let is_waiting = std::mem::take(&mut self.is_waiting);
        self.length = (self.length * 2).min(LONGEST_GATHERING);
        self.ends = is_waiting.then(|| now + self.length);
        is_waiting
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Tells of a server's changes, connecting again and again.
async fn watch(server: Arc<Server>, changes: broadcast::Sender<Change>) {
    let mut pause = SHORTEST_PAUSE;
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
                let mut gathering = CHANGES.map(|_| Gathering::default());
                loop {
                    let ends = gathering.iter().filter_map(|list| list.ends).min();
                    tokio::select! {
                        notice = subscription.next() => {
                            let Some(notice) = notice else { break };
                            let list = CHANGES.iter().position(|it| *it == notice.method);
                            let Some(list) = list else { continue };
                            if list == 0 {
                                server.list_has_changed();
                            }
                            let is_told_now = match server.doubt.until() {
                                // Who asked for the list now would get the old one.
                                Some(until) if list == 0 => gathering[list].is_told_later(until),
                                _ => gathering[list].is_told_now(Instant::now()),
                            };
                            if is_told_now {
                                // That nobody listens just now is no error.
                                let _ = changes.send(CHANGES[list]);
                            }
                        }
                        () = at(ends) => {
                            for (list, change) in gathering.iter_mut().zip(CHANGES) {
                                if list.has_to_tell(Instant::now()) {
                                    let _ = changes.send(change);
                                }
                            }
                        }
                    }
                }
                for (list, change) in gathering.iter().zip(CHANGES) {
                    if list.is_waiting {
                        let _ = changes.send(change);
                    }
                }
            }
            Err(error) => {
                tracing::debug!(server.label = server.label, %error, "No notices of changes");
            }
        }
        if since.elapsed() > LONGEST_PAUSE {
            pause = SHORTEST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_come_again_and_again_are_told_ever_less_often_and_none_is_lost() {
        let start = Instant::now();
        let mut gathering = Gathering::default();
        let mut told = Vec::new();
        let mut last_change = 0;
        for millis in 0..60_000 {
            let now = start + Duration::from_millis(millis);
            // One each millisecond for half a minute.
            let is_told = millis < 30_000 && {
                last_change = millis;
                gathering.is_told_now(now)
            };
            if is_told || gathering.has_to_tell(now) {
                told.push(millis);
            }
        }
        assert_eq!(told[..5], [0, 250, 750, 1_750, 3_750]);
        assert_eq!(told.len(), 9, "{told:?}");
        assert!(told.last().is_some_and(|last| *last > last_change));
        assert!(
            gathering.is_told_now(start + Duration::from_secs(60)),
            "it was quiet for a while"
        );
    }
}
