use pillion_core::store::StoreError;
use pillion_core::tool::ToolFailure;

/// Converts a failure of the store to that of a tool.
pub(crate) fn store_failure(error: &StoreError) -> ToolFailure {
    if error.is_full() {
        return ToolFailure::new(error.code(), error.to_string());
    }
    tracing::warn!(%error, "The store of the tabletop pack failed");
    ToolFailure::new(error.code(), "The store of the transcripts is unavailable")
}
