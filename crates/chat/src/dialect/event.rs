//! The data of an event of a streamed answer.

use pillion_core::mcp::SseEvent;
use pillion_core::provider::Provider;
use serde_json::Value;

use super::failure::malformed;
use crate::ModelError;

/// The JSON of an event; none for the `[DONE]` with which servers that speak for several providers
/// end all their streams.
///
/// # Errors
/// [`Malformed`](crate::ModelErrorKind::Malformed).
pub(super) fn data(provider: Provider, event: &SseEvent) -> Result<Option<Value>, ModelError> {
    if event.data.trim() == "[DONE]" {
        return Ok(None);
    }
    serde_json::from_str(&event.data)
        .map(Some)
        .map_err(|_| malformed(provider, "an event of its stream is not JSON"))
}
