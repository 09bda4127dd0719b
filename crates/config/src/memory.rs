use serde::Deserialize;

/// `[memory]`: the memory tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemorySection {
    /// Whether the tools `search_memory`, `remember` and `forget` are offered. Stored memories are
    /// kept if this is false. `PILLION__MEMORY__ENABLED`. Default true.
    pub enabled: bool,
}

impl Default for MemorySection {
    fn default() -> Self {
        Self { enabled: true }
    }
}
