use pillion_core::pack::{ChangeListener, Packs, ResourceChange};
use pillion_gateway::visibility::Visibility;
use tokio::sync::watch;

/// Receives changes in the resource lists of the visible packs.
#[derive(Debug)]
pub(super) struct PackChangeReceiver {
    packs: watch::Receiver<Packs>,
    visibility: Visibility,
    changes: Vec<ChangeListener>,
}

impl PackChangeReceiver {
    pub(super) fn new(packs: watch::Receiver<Packs>, visibility: Visibility) -> Self {
        let mut receiver = Self {
            packs,
            visibility,
            changes: Vec::new(),
        };
        receiver.watch_packs();
        receiver
    }

    fn watch_packs(&mut self) {
        let packs = self.visibility.packs(&self.packs.borrow_and_update());
        let changes = packs.providers().filter_map(|provider| provider.changes());
        self.changes = changes.collect();
    }

    /// Waits until a list of resources has changed. Cancel-safe.
    pub(super) async fn next(&mut self) {
        loop {
            let pending: Vec<_> = self
                .changes
                .iter_mut()
                .map(|changes| Box::pin(changes.next()))
                .collect();
            let next = async {
                if pending.is_empty() {
                    std::future::pending().await
                } else {
                    futures_util::future::select_all(pending).await
                }
            };
            let received = tokio::select! {
                (change, index, _) = next => Some((change, index)),
                // The sender exists as long as the sidecar runs.
                Ok(()) = self.packs.changed() => None,
            };
            let Some((change, index)) = received else {
                self.watch_packs();
                return;
            };
            match change {
                Some(ResourceChange::ListChanged | ResourceChange::Missed) => return,
                Some(_) => {}
                None => drop(self.changes.swap_remove(index)),
            }
        }
    }
}
