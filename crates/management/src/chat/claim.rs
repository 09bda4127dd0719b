use std::sync::Arc;
use std::time::Duration;

use pillion_core::store::{ChatClaim, Store, StoreError, Timestamp};
use tokio::sync::Mutex;
use tokio::time::sleep;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use uuid::Uuid;

/// Time after which a claim expires if its process ends unexpectedly.
const CLAIM_TTL: Duration = Duration::from_secs(15);

/// Interval at which a claim is renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(5);

/// The exclusive right of a request to continue a chat, among all processes with the same store.
/// Without claims, two concurrent requests would run the same calls, and each would overwrite the
/// other's messages.
pub(super) struct Claim {
    store: Arc<dyn Store>,
    owner: String,
    id: String,
    holder_id: String,
    /// Tracks the task that releases a claim whose request was dropped.
    tasks: TaskTracker,
    /// Whether dropping this value releases nothing, because the claim was already released or is
    /// not stored.
    is_released: bool,
    /// Whether the release of the claim has begun. Locked while the claim is renewed or released,
    /// because a renewal after the release would claim the chat again.
    has_ended: Arc<Mutex<bool>>,
    _renewal: AbortOnDropHandle<()>,
}

impl Claim {
    /// Creates a claim that is not stored yet, for a new chat.
    pub(super) fn new(store: &Arc<dyn Store>, owner: &str, id: &str, tasks: &TaskTracker) -> Self {
        let holder_id = Uuid::now_v7().to_string();
        let has_ended = Arc::new(Mutex::new(false));
        let renewal = {
            let has_ended = Arc::clone(&has_ended);
            let (store, owner) = (Arc::clone(store), owner.to_owned());
            let (id, holder_id) = (id.to_owned(), holder_id.clone());
            tokio::spawn(async move {
                loop {
                    sleep(RENEWAL_INTERVAL).await;
                    let guard = has_ended.lock().await;
                    if *guard {
                        return;
                    }
                    if let Err(error) = claim(&*store, &owner, &id, &holder_id).await {
                        tracing::warn!(chat = id, %error, "Cannot renew the claim on a chat");
                    }
                }
            })
        };
        Self {
            store: Arc::clone(store),
            owner: owner.to_owned(),
            id: id.to_owned(),
            holder_id,
            tasks: tasks.clone(),
            is_released: false,
            has_ended,
            _renewal: AbortOnDropHandle::new(renewal),
        }
    }

    /// Takes the claim on an existing chat. Returns `None` if another request holds the claim, or
    /// the chat does not exist.
    pub(super) async fn take(
        store: &Arc<dyn Store>,
        owner: &str,
        id: &str,
        tasks: &TaskTracker,
    ) -> Result<Option<Self>, StoreError> {
        let mut new_claim = Self::new(store, owner, id, tasks);
        let is_claimed = claim(&**store, owner, id, &new_claim.holder_id).await?;
        new_claim.is_released = !is_claimed;
        Ok(is_claimed.then_some(new_claim))
    }

    /// Returns the record of the claim, to store with the chat. The record expires after
    /// [`CLAIM_TTL`].
    pub(super) fn record(&self) -> ChatClaim {
        new_claim_record(&self.holder_id)
    }

    /// Drops the claim on a chat that is not stored, so that the store has no claim to release.
    pub(super) fn forget(mut self) {
        self.is_released = true;
    }

    /// Releases the claim, so that other requests can continue the chat.
    pub(super) async fn release(mut self) {
        let (owner, id, holder_id) = (&self.owner, &self.id, &self.holder_id);
        let mut has_ended = self.has_ended.lock().await;
        *has_ended = true;
        if let Err(error) = self.store.release_chat(owner, id, holder_id).await {
            // A failed release is only logged, because the claim expires after `CLAIM_TTL`.
            tracing::warn!(chat = id, %error, "Cannot release the claim on a chat");
        }
        drop(has_ended);
        self.is_released = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        let (store, owner) = (Arc::clone(&self.store), std::mem::take(&mut self.owner));
        let id = std::mem::take(&mut self.id);
        let holder_id = std::mem::take(&mut self.holder_id);
        let has_ended = Arc::clone(&self.has_ended);
        // Without a runtime, the claim is not released: the process is about to end.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let release_future = async move {
                *has_ended.lock().await = true;
                drop(store.release_chat(&owner, &id, &holder_id).await);
            };
            self.tasks.spawn_on(release_future, &runtime);
        }
    }
}

async fn claim(
    store: &dyn Store,
    owner: &str,
    id: &str,
    holder_id: &str,
) -> Result<bool, StoreError> {
    let claim = new_claim_record(holder_id);
    store.claim_chat(owner, id, &claim, Timestamp::now()).await
}

fn new_claim_record(holder_id: &str) -> ChatClaim {
    ChatClaim {
        claimant: holder_id.to_owned(),
        expires_at: Timestamp::now().plus(CLAIM_TTL),
    }
}

/// Returns whether a request is running the chat: the chat has a claim that has not expired.
pub(super) fn is_running(claim: Option<&ChatClaim>) -> bool {
    claim.is_some_and(|claim| claim.expires_at > Timestamp::now())
}
