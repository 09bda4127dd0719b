use serde::Deserialize;

/// `[memory]`: what is remembered of conversations (D5).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemorySection {
    /// Whether the tools `search_memory`, `remember` and `forget` are there. What is remembered
    /// stays either way. `PILLION__MEMORY__ENABLED`. Default true.
    pub enabled: bool,
}

impl Default for MemorySection {
    fn default() -> Self {
        Self { enabled: true }
    }
}
