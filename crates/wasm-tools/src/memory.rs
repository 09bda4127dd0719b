use wasmtime::ResourceLimiter;

/// Size of a table entry, in bytes.
const TABLE_ENTRY_BYTES: usize = size_of::<usize>();
/// Maximum number of instances of a component. The same maximum applies to its tables and to its
/// memories. A component may consist of several modules; the components of some languages have up
/// to twenty modules.
const MAX_INSTANCES: usize = 32;

/// Limits the total size of all memories and tables of one run, in bytes.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    max_bytes: usize,
    used_bytes: usize,
    /// Whether an allocation was rejected because the total size would have exceeded the limit.
    pub(crate) has_rejected_growth: bool,
}

impl MemoryLimit {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            used_bytes: 0,
            has_rejected_growth: false,
        }
    }

    /// Returns the number of bytes in use, which never decreases, because memories and tables never
    /// shrink.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Returns whether the limit lets a memory or table grow from `current` to `desired` bytes, and
    /// if so, counts the growth. Growth beyond `max_bytes`, the maximum of the memory or table
    /// itself, is not counted, because it fails in any case.
    fn try_grow(&mut self, current: usize, desired: usize, max_bytes: Option<usize>) -> bool {
        let used_bytes = self
            .used_bytes
            .saturating_add(desired.saturating_sub(current));
        if used_bytes > self.max_bytes {
            self.has_rejected_growth = true;
            return false;
        }
        if max_bytes.is_none_or(|max_bytes| desired <= max_bytes) {
            self.used_bytes = used_bytes;
        }
        true
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.try_grow(current, desired, maximum))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let to_bytes = |entries: usize| entries.saturating_mul(TABLE_ENTRY_BYTES);
        Ok(self.try_grow(to_bytes(current), to_bytes(desired), maximum.map(to_bytes)))
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_INSTANCES
    }

    fn memories(&self) -> usize {
        MAX_INSTANCES
    }
}
