//! Replaces the WebAssembly tools in a build without the feature `wasm`.

use std::sync::Arc;

use pillion_core::registry::ToolRegistry;
use pillion_wire::InvalidTool;

use crate::events::{EventBus, ToolListener};
use pillion_config::WasmToolsSection;

/// The WebAssembly tools of a build without the feature `wasm`, which has none.
#[derive(Debug)]
pub struct WasmTools;

impl WasmTools {
    /// Creates the empty set.
    pub fn new(
        _registry: Arc<ToolRegistry>,
        _listener: Arc<dyn ToolListener>,
        _events: Arc<EventBus>,
        _section: &WasmToolsSection,
    ) -> Arc<Self> {
        Arc::new(Self)
    }

    /// Ignores the configuration, because this build has no WebAssembly tools.
    pub fn reconfigure(&self, _section: &WasmToolsSection) {}

    /// Returns at once, because this build has no tools to register.
    pub async fn start(self: &Arc<Self>) {}

    /// Returns an empty list, because this build loads no files.
    pub fn faults(&self) -> Vec<InvalidTool> {
        Vec::new()
    }
}
