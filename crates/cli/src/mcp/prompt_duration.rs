use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Measures the time that the user takes to answer questions, which does not count against the
/// server's timeout.
#[derive(Default)]
pub(super) struct PromptDuration(Mutex<PromptSpans>);

#[derive(Default)]
struct PromptSpans {
    since: Option<Instant>,
    before: Duration,
}

/// Measures one question until dropped.
pub(super) struct PromptTimer<'a>(&'a PromptDuration);

impl PromptDuration {
    pub(super) fn begin(&self) -> PromptTimer<'_> {
        self.0.lock().since = Some(Instant::now());
        PromptTimer(self)
    }

    pub(super) fn is_prompting(&self) -> bool {
        self.0.lock().since.is_some()
    }

    /// Returns the total time so far.
    pub(super) fn total(&self) -> Duration {
        let spans = self.0.lock();
        spans.before + spans.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Drop for PromptTimer<'_> {
    fn drop(&mut self) {
        let mut spans = self.0.0.lock();
        if let Some(since) = spans.since.take() {
            spans.before += since.elapsed();
        }
    }
}
