//! The store, for requests that read and change its records.

use std::sync::Arc;

use pillion_core::store::Store;

use crate::error::{UNAVAILABLE, route_error};
use pillion_gateway::Gateway;

route_error! {
    /// The sidecar has no store.
    #[derive(Debug, thiserror::Error)]
    #[error("This sidecar has no store")]
    pub struct NoStore => UNAVAILABLE
}

/// Returns the store, or an error if the sidecar has none.
pub fn require_store(gateway: &Gateway) -> Result<Arc<dyn Store>, NoStore> {
    gateway.store().ok_or(NoStore)
}
