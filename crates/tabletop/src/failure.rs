use pillion_core::store::StoreError;
use pillion_core::tool::ToolFailure;

/// Converts a store error to the failure of a tool. The message contains the details only if a
/// limit is reached; other errors are only logged.
pub(crate) fn store_failure(error: &StoreError) -> ToolFailure {
    if error.is_full() {
        return ToolFailure::new(error.code(), error.to_string());
    }
    tracing::warn!(%error, "A store operation of the tabletop pack failed");
    let message = "A store operation of the tabletop pack failed: the log has the reason";
    ToolFailure::new(error.code(), message)
}
