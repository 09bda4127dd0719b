use std::time::Duration;

/// Runs a function when dropped.
pub(super) struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    pub(super) fn new(action: F) -> Self {
        Self(Some(action))
    }

    /// Prevents the function from running.
    pub(super) fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}

/// Runs `work` in the background, for at most 2 s. Does nothing on a thread without a tokio
/// runtime, such as when the last client is dropped after its runtime.
pub(super) fn run_in_background(work: impl Future<Output = ()> + Send + 'static) {
    const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(2);
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(tokio::time::timeout(BACKGROUND_TIMEOUT, work));
    }
}
