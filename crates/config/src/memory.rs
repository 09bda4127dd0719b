use serde::Deserialize;

/// `[memory]`: settings of the memory tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MemorySection {
    /// Whether the [memory tools](built-in-tools.md#search_memory-remember-forget) `search_memory`,
    /// `remember` and `forget` are offered. If false, stored memories are kept.
    pub enabled: bool,
}

impl Default for MemorySection {
    fn default() -> Self {
        Self { enabled: true }
    }
}
