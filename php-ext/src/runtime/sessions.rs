use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use pillion_core::mcp::McpClient;
use tokio::runtime::Handle;
use tokio::time::sleep;

/// The most often and the most seldom that idle sessions are looked for.
const LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(30));

/// The MCP clients that a process keeps, with their sessions: at most so many, and none
/// that nobody has used for a while.
pub(super) struct Sessions {
    kept: Arc<Mutex<Vec<Kept>>>,
    limit: usize,
}

struct Kept {
    key: String,
    client: McpClient,
    used: Instant,
}

impl Sessions {
    /// None yet. On `runtime`, those are given up that were not used for `idle`, if it is
    /// given.
    pub(super) fn new(runtime: &Handle, limit: usize, idle: Option<Duration>) -> Self {
        let kept = Arc::default();
        if let Some(idle) = idle {
            runtime.spawn(give_up_idle(Arc::downgrade(&kept), idle));
        }
        Self { kept, limit }
    }

    /// The client of `key`, made if it is not there. What is beyond the limit is given up:
    /// the one that was not used for longest. To be called in the runtime, where what is
    /// given up can say goodbye.
    pub(super) fn client(&self, key: &str, make: impl FnOnce() -> McpClient) -> McpClient {
        let mut kept = lock(&self.kept);
        let place = kept.iter().position(|session| session.key == key);
        let mut session = match place {
            Some(place) => kept.remove(place),
            None => Kept {
                key: key.to_owned(),
                client: make(),
                used: Instant::now(),
            },
        };
        session.used = Instant::now();
        let client = session.client.clone();
        kept.push(session);
        let beyond = kept.len().saturating_sub(self.limit);
        let given_up: Vec<_> = kept.drain(..beyond).collect();
        drop(kept);
        drop(given_up);
        client
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.kept).len()
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// All of them, none of which is kept any longer.
    pub(super) fn take(&self) -> Vec<McpClient> {
        let kept = std::mem::take(&mut *lock(&self.kept));
        kept.into_iter().map(|session| session.client).collect()
    }
}

/// A panic while the lock is held leaves a valid list behind.
fn lock(kept: &Mutex<Vec<Kept>>) -> MutexGuard<'_, Vec<Kept>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends with the list.
async fn give_up_idle(kept: Weak<Mutex<Vec<Kept>>>, idle: Duration) {
    let pause = (idle / 4).clamp(LOOK.0, LOOK.1);
    loop {
        sleep(pause).await;
        let Some(kept) = kept.upgrade() else { return };
        let now = Instant::now();
        let idle_ones: Vec<_> = lock(&kept)
            .extract_if(.., |session| {
                if session.client.is_shared() {
                    // An object holds it, or a call is under way.
                    session.used = now;
                }
                now.duration_since(session.used) >= idle
            })
            .collect();
        // Here, outside of the lock, each ends its session at the server.
        drop(idle_ones);
    }
}
