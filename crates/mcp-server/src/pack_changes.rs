use pillion_core::pack::{ChangeListener, Packs, ResourceChange};
use pillion_gateway::visibility::Visibility;
use tokio::sync::watch;

/// Receives changes in the resource lists of the visible packs.
#[derive(Debug)]
pub(super) struct PackChangeReceiver {
    packs: watch::Receiver<Packs>,
    visibility: Visibility,
    listeners: Vec<ChangeListener>,
}

impl PackChangeReceiver {
    pub(super) fn new(packs: watch::Receiver<Packs>, visibility: Visibility) -> Self {
        let mut receiver = Self {
            packs,
            visibility,
            listeners: Vec::new(),
        };
        receiver.watch_packs();
        receiver
    }

    fn watch_packs(&mut self) {
        let packs = self.visibility.packs(&self.packs.borrow_and_update());
        let listeners = packs.providers().filter_map(|provider| provider.changes());
        self.listeners = listeners.collect();
    }

    /// Waits until a list of resources has changed. Cancel-safe.
    pub(super) async fn next(&mut self) {
        loop {
            let pending_changes: Vec<_> = self
                .listeners
                .iter_mut()
                .map(|listener| Box::pin(listener.next()))
                .collect();
            let next_change = async {
                if pending_changes.is_empty() {
                    std::future::pending().await
                } else {
                    futures_util::future::select_all(pending_changes).await
                }
            };
            let change_and_index = tokio::select! {
                (change, index, _) = next_change => Some((change, index)),
                // `changed` never fails, because the sender exists as long as the sidecar runs.
                Ok(()) = self.packs.changed() => None,
            };
            let Some((change, index)) = change_and_index else {
                self.watch_packs();
                return;
            };
            match change {
                Some(ResourceChange::ListChanged | ResourceChange::Missed) => return,
                Some(_) => {}
                None => drop(self.listeners.swap_remove(index)),
            }
        }
    }
}
