use std::sync::Arc;
use std::time::Duration;

use pillion_core::store::{ChatClaim, Store, StoreError, Timestamp};
use tokio::sync::Mutex;
use tokio::time::sleep;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use uuid::Uuid;

/// How long a chat stays somebody's after a process that ended in the middle of it.
const HOLDS: Duration = Duration::from_secs(15);

/// How often that is put off while the chat goes on.
const RENEWED_EVERY: Duration = Duration::from_secs(5);

/// A chat that this request has to itself, among all requests to all processes with the same store:
/// two at once would run the same calls, and each would lose what the other has heard.
pub(super) struct Claim {
    store: Arc<dyn Store>,
    owner: String,
    id: String,
    by: String,
    /// Where a claim is taken back whose request has gone.
    later: TaskTracker,
    is_released: bool,
    /// Held while a claim is put off or given back, and true once it was given back: what is put
    /// off then would take the chat from everybody again.
    has_ended: Arc<Mutex<bool>>,
    _renewal: AbortOnDropHandle<()>,
}

impl Claim {
    /// One that is not in the store yet: of a chat that is not there either.
    pub(super) fn new(store: &Arc<dyn Store>, owner: &str, id: &str, later: &TaskTracker) -> Self {
        let by = Uuid::now_v7().to_string();
        let has_ended = Arc::new(Mutex::new(false));
        let renewal = {
            let has_ended = Arc::clone(&has_ended);
            let (store, owner) = (Arc::clone(store), owner.to_owned());
            let (id, by) = (id.to_owned(), by.clone());
            tokio::spawn(async move {
                loop {
                    sleep(RENEWED_EVERY).await;
                    let has_ended = has_ended.lock().await;
                    if *has_ended {
                        return;
                    }
                    if let Err(error) = claim(&*store, &owner, &id, &by).await {
                        tracing::warn!(chat = id, %error, "A chat cannot be claimed for longer");
                    }
                }
            })
        };
        Self {
            store: Arc::clone(store),
            owner: owner.to_owned(),
            id: id.to_owned(),
            by,
            later: later.clone(),
            is_released: false,
            has_ended,
            _renewal: AbortOnDropHandle::new(renewal),
        }
    }

    /// Takes a chat that is there. None where somebody else has it, or there is none.
    pub(super) async fn take(
        store: &Arc<dyn Store>,
        owner: &str,
        id: &str,
        later: &TaskTracker,
    ) -> Result<Option<Self>, StoreError> {
        let mut ours = Self::new(store, owner, id, later);
        let is_ours = claim(&**store, owner, id, &ours.by).await?;
        ours.is_released = !is_ours;
        Ok(is_ours.then_some(ours))
    }

    /// What to keep of it with a chat that is kept for the first time.
    pub(super) fn record(&self) -> ChatClaim {
        at_present(&self.by)
    }

    /// Ends that of a chat that is not in the store.
    pub(super) fn forget(mut self) {
        self.is_released = true;
    }

    /// Lets others have the chat.
    pub(super) async fn release(mut self) {
        let Self { owner, id, by, .. } = &self;
        let mut has_ended = self.has_ended.lock().await;
        *has_ended = true;
        match self.store.release_chat(owner, id, by).await {
            Ok(()) => {}
            // Then it ends by itself.
            Err(error) => tracing::warn!(chat = id, %error, "A chat cannot be released"),
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
        let (id, by) = (std::mem::take(&mut self.id), std::mem::take(&mut self.by));
        let has_ended = Arc::clone(&self.has_ended);
        // Outside of a runtime the process is about to end.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let release = async move {
                *has_ended.lock().await = true;
                drop(store.release_chat(&owner, &id, &by).await);
            };
            self.later.spawn_on(release, &runtime);
        }
    }
}

async fn claim(store: &dyn Store, owner: &str, id: &str, by: &str) -> Result<bool, StoreError> {
    let claim = at_present(by);
    store.claim_chat(owner, id, &claim, Timestamp::now()).await
}

fn at_present(by: &str) -> ChatClaim {
    ChatClaim {
        by: by.to_owned(),
        until: Timestamp::now().plus(HOLDS),
    }
}

/// Whether somebody goes on with a chat that has this claim.
pub(super) fn is_running(claim: Option<&ChatClaim>) -> bool {
    claim.is_some_and(|claim| claim.until > Timestamp::now())
}
