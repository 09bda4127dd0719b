use wasmtime::ResourceLimiter;

/// Size of a table entry, in bytes.
const TABLE_ENTRY_BYTES: usize = size_of::<usize>();
/// Maximum number of instances, of tables and of memories of a component. A component may consist
/// of several modules; those of some languages have up to twenty.
const MAX_INSTANCES: usize = 32;

/// Limits the total size of all memories and tables of one run, in bytes.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    max_bytes: usize,
    used: usize,
    /// Whether the limit has rejected an allocation.
    pub(crate) has_rejected: bool,
}

impl MemoryLimit {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            used: 0,
            has_rejected: false,
        }
    }

    /// Returns the number of bytes in use, which never decreases, because memories and tables never
    /// shrink.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Returns whether a memory or table may grow to `desired` bytes. Growth beyond the `maximum`
    /// of the memory or table itself fails in any case.
    fn grow(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> bool {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        if used > self.max_bytes {
            self.has_rejected = true;
            return false;
        }
        if maximum.is_none_or(|maximum| desired <= maximum) {
            self.used = used;
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
        Ok(self.grow(current, desired, maximum))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let bytes = |entries: usize| entries.saturating_mul(TABLE_ENTRY_BYTES);
        Ok(self.grow(bytes(current), bytes(desired), maximum.map(bytes)))
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
