use tokio::sync::broadcast;

/// Changes that may wait for one who listens and does not keep up.
const MOST_WAITING: usize = 256;

/// Something about resources that is no longer as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceChange {
    /// The contents of the resource of this URI.
    Updated(String),
    /// Which resources there are.
    ListChanged,
    /// The listener has not kept up: anything may have changed.
    Missed,
}

/// Tells whoever listens of changed resources. Telling never waits.
#[derive(Debug)]
pub struct ResourceChanges(broadcast::Sender<ResourceChange>);

/// Hears of changes from the moment on when it was made.
#[derive(Debug)]
pub struct ChangeListener(broadcast::Receiver<ResourceChange>);

impl Default for ResourceChanges {
    fn default() -> Self {
        Self(broadcast::Sender::new(MOST_WAITING))
    }
}

impl ResourceChanges {
    /// The resource of this URI has other contents now. A URI with a query counts as changed with the
    /// one without.
    pub fn updated(&self, uri: impl Into<String>) {
        self.tell(|| ResourceChange::Updated(uri.into()));
    }

    /// There are other resources now.
    pub fn list_changed(&self) {
        self.tell(|| ResourceChange::ListChanged);
    }

    /// Whether anybody listens: what is costly to find out needs no telling otherwise.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Listens from now on.
    #[must_use]
    pub fn listen(&self) -> ChangeListener {
        ChangeListener(self.0.subscribe())
    }

    fn tell(&self, change: impl FnOnce() -> ResourceChange) {
        if self.is_heard() {
            // The last may have gone meanwhile.
            let _ = self.0.send(change());
        }
    }
}

impl ChangeListener {
    /// The next change; none when whoever told of them is gone. Its future may be dropped, and
    /// nothing is lost.
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
    async fn who_does_not_keep_up_is_told_so_and_goes_on() {
        let changes = ResourceChanges::default();
        changes.updated("a://before");
        assert!(!changes.is_heard());
        let mut listener = changes.listen();
        assert!(changes.is_heard());
        for number in 0..=MOST_WAITING {
            changes.updated(format!("a://{number}"));
        }
        assert_eq!(listener.next().await, Some(ResourceChange::Missed));
        let next = ResourceChange::Updated("a://1".to_owned());
        assert_eq!(listener.next().await, Some(next));
        drop(changes);
        for _ in 2..=MOST_WAITING {
            assert!(listener.next().await.is_some());
        }
        assert_eq!(listener.next().await, None);
    }
}
