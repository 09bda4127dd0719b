//! What the servers below say of changes, for all who listen.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::mcp::SubscriptionFilter;
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use crate::app::App;
use crate::upstream::Server;

/// How many changes may wait for a client that does not keep up. It misses some then; they
/// all say the same few things.
const MOST_WAITING: usize = 64;

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Watches the servers for as long as somebody listens, once for all who do.
#[derive(Debug)]
pub(super) struct Listening {
    changes: broadcast::Sender<Change>,
    watches: Mutex<HashMap<String, Weak<Watch>>>,
}

/// A list that has changed, by the notice's method.
pub(super) type Change = &'static str;

/// Every list of which a change is told, as the notice's method.
const CHANGES: [Change; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

#[derive(Debug)]
struct Watch {
    server: Arc<Server>,
    _task: AbortOnDropHandle<()>,
}

/// Hears of changes for as long as it is held.
#[derive(Debug)]
pub(super) struct Ear {
    changes: broadcast::Receiver<Change>,
    _watches: Vec<Arc<Watch>>,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            changes: broadcast::Sender::new(MOST_WAITING),
            watches: Mutex::default(),
        }
    }
}

impl Listening {
    /// Tools of our own have come or gone.
    pub(super) fn tools_changed(&self) {
        // That nobody listens just now is no error.
        let _ = self.changes.send(CHANGES[0]);
    }

    pub(super) fn listen(&self, app: &App) -> Ear {
        let changes = self.changes.subscribe();
        let mut watches = self.watches.lock();
        let servers = app.upstreams().servers().iter();
        let held = servers.map(|server| {
            let known = watches.get(&server.label).and_then(Weak::upgrade);
            // One of that name may be another server by now.
            let known = known.filter(|watch| Arc::ptr_eq(&watch.server, server));
            known.unwrap_or_else(|| {
                let watch = watch(Arc::clone(server), self.changes.clone());
                let watch = Arc::new(Watch {
                    server: Arc::clone(server),
                    _task: AbortOnDropHandle::new(tokio::spawn(watch)),
                });
                watches.insert(server.label.clone(), Arc::downgrade(&watch));
                watch
            })
        });
        Ear {
            changes,
            _watches: held.collect(),
        }
    }
}

impl Ear {
    /// The next change.
    pub(super) async fn next(&mut self) -> Change {
        loop {
            match self.changes.recv().await {
                Ok(change) => return change,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                // The other end is as long-lived as the sidecar.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// Tells of a server's changes, connecting again and again.
async fn watch(server: Arc<Server>, changes: broadcast::Sender<Change>) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        let since = tokio::time::Instant::now();
        let filter = SubscriptionFilter {
            tools_list_changed: true,
            prompts_list_changed: true,
            resources_list_changed: true,
            resources: Vec::new(),
        };
        match server.client.subscribe(filter).await {
            Ok(mut subscription) => {
                while let Some(notice) = subscription.next().await {
                    let change = CHANGES.into_iter().find(|method| *method == notice.method);
                    if change == Some(CHANGES[0]) {
                        server.expire();
                    }
                    // That nobody listens just now is no error.
                    change.map(|change| changes.send(change));
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
