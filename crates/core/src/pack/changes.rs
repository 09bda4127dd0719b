use tokio::sync::broadcast;

/// Maximum number of changes that wait for a slow listener.
const MAX_QUEUED_CHANGES: usize = 256;

/// What [`ResourceChanges`] notifies its listeners of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceChange {
    /// The contents of the resource with this URI have changed.
    Updated(String),
    /// The list of resources has changed.
    ListChanged,
    /// The listener was too slow and missed changes, so any resource may have changed.
    Missed,
}

/// Notifies listeners of changed resources. Never blocks.
#[derive(Debug)]
pub struct ResourceChanges(broadcast::Sender<ResourceChange>);

/// Receives the changes since this listener was created.
#[derive(Debug)]
pub struct ChangeListener(broadcast::Receiver<ResourceChange>);

impl Default for ResourceChanges {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_QUEUED_CHANGES))
    }
}

impl ResourceChanges {
    /// Notifies listeners that the contents of this URI have changed. The contents of every URI
    /// that consists of this URI and a query count as changed, too.
    pub fn notify_updated(&self, uri: impl Into<String>) {
        self.notify(|| ResourceChange::Updated(uri.into()));
    }

    /// Notifies listeners that the list of resources has changed.
    pub fn notify_list_changed(&self) {
        self.notify(|| ResourceChange::ListChanged);
    }

    /// Returns whether there are listeners. Without listeners, a caller can skip expensive checks.
    #[must_use]
    pub fn has_listeners(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Creates a listener for later changes.
    #[must_use]
    pub fn listen(&self) -> ChangeListener {
        ChangeListener(self.0.subscribe())
    }

    fn notify(&self, change: impl FnOnce() -> ResourceChange) {
        if self.has_listeners() {
            // The send fails if the last listener was dropped in the meantime, which is fine.
            let _ = self.0.send(change());
        }
    }
}

impl ChangeListener {
    /// Returns the next change; `None` once the [`ResourceChanges`] was dropped. Cancel-safe:
    /// dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<ResourceChange> {
        match self.0.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(ResourceChange::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_listener_is_notified_of_lost_changes_and_continues() {
        let changes = ResourceChanges::default();
        changes.notify_updated("a://before");
        assert!(!changes.has_listeners());
        let mut listener = changes.listen();
        assert!(changes.has_listeners());
        for number in 0..=MAX_QUEUED_CHANGES {
            changes.notify_updated(format!("a://{number}"));
        }
        assert_eq!(listener.next().await, Some(ResourceChange::Missed));
        let next = ResourceChange::Updated("a://1".to_owned());
        assert_eq!(listener.next().await, Some(next));
        drop(changes);
        for _ in 2..=MAX_QUEUED_CHANGES {
            assert!(listener.next().await.is_some());
        }
        assert_eq!(listener.next().await, None);
    }
}
