//! The store, for the routes that read and change its records.

use std::sync::Arc;

use pillion_core::store::{Store, StoreError, StoreErrorKind};

use super::error::{RouteError, Status, UNAVAILABLE, route_error};
use crate::app::App;
use pillion_gateway::problem::{Problem, store_error_status};

route_error! {
    /// The sidecar has no store.
    #[derive(Debug, thiserror::Error)]
    #[error("This sidecar has no store")]
    pub(super) struct NoStore => UNAVAILABLE
}

impl RouteError for StoreError {
    fn status(&self) -> Status {
        (store_error_status(self), self.code()).into()
    }

    fn problem(&self) -> Problem {
        if self.kind() != StoreErrorKind::Invalid {
            tracing::warn!(error = %self, "A request failed because of the store");
        }
        self.status().problem(self.to_string())
    }
}

/// Returns the store, or an error if the sidecar has none.
pub(super) fn require_store(app: &App) -> Result<Arc<dyn Store>, NoStore> {
    app.store().ok_or(NoStore)
}
