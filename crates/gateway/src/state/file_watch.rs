use std::sync::Arc;
use std::time::Duration;

use pillion_store::SqlStore;

/// Interval at which the store's file is checked for the log. Each write does its own check.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Logs when the file of an open store is deleted or replaced, and when the file is back.
pub(super) async fn watch(store: Arc<SqlStore>) {
    let mut was_there = true;
    loop {
        let failure = store.file_failure();
        let is_there = failure.is_none();
        match failure {
            Some(error) if was_there => tracing::error!(
                error,
                "The store file is missing or was replaced: tool calls fail"
            ),
            None if !was_there => tracing::warn!("The store file is available again"),
            _ => {}
        }
        was_there = is_there;
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}
