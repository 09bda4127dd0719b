use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::run::seconds_text;
use crate::registry::RegisteredTool;
use crate::tool::{ErrorCode, ToolFailure};

/// Waits for a free place, fairly and not for ever (C1).
pub(super) async fn acquire(
    permits: &Arc<Semaphore>,
    tool: &RegisteredTool,
    patience: Duration,
) -> Result<OwnedSemaphorePermit, ToolFailure> {
    let waiting = Arc::clone(permits).acquire_owned();
    match tokio::time::timeout(patience, waiting).await {
        Ok(Ok(permit)) => Ok(permit),
        // Nobody closes the semaphore; were it closed, there would be no place either.
        Ok(Err(_)) | Err(_) => Err(ToolFailure::new(
            ErrorCode::Unavailable,
            format!(
                "Tool '{}' found no free place within {}",
                tool.name(),
                seconds_text(patience)
            ),
        )),
    }
}
