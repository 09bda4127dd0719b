use parking_lot::RwLock;
use pillion_core::store::Timestamp;

use crate::connections::{ConnectionStatus, ServerReport};

/// The public state of a server, which can be read while discovery waits for the server.
#[derive(Debug)]
pub(super) struct CurrentReport(RwLock<ServerReport>);

impl CurrentReport {
    pub(super) fn new(label: String) -> Self {
        Self(RwLock::new(ServerReport {
            label,
            ..ServerReport::default()
        }))
    }

    pub(super) fn get(&self) -> ServerReport {
        self.0.read().clone()
    }

    pub(super) fn status(&self) -> ConnectionStatus {
        self.0.read().status()
    }

    /// Records a successful `tools/list` with `tools` entries.
    pub(super) fn record_listing(&self, tools: usize) {
        let mut report = self.0.write();
        report.was_contacted = true;
        report.tools = tools;
        report.error = None;
        report.connected_at = Some(Timestamp::now());
    }

    /// Records a failed `tools/list`.
    pub(super) fn record_failure(&self, error: String) {
        let mut report = self.0.write();
        report.was_contacted = true;
        report.error = Some(error);
    }

    /// Forgets the outcome of the last `tools/list`.
    pub(super) fn reset(&self) {
        let mut report = self.0.write();
        report.was_contacted = false;
        report.error = None;
    }

    /// Marks a `tools/list` request as in progress until the returned value is dropped.
    pub(super) fn begin_request(&self) -> ListRequestGuard<'_> {
        self.0.write().is_listing = true;
        ListRequestGuard(self)
    }
}

/// A `tools/list` request in progress.
pub(super) struct ListRequestGuard<'a>(&'a CurrentReport);

impl Drop for ListRequestGuard<'_> {
    fn drop(&mut self) {
        self.0.0.write().is_listing = false;
    }
}
