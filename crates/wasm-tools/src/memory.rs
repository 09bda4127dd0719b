use wasmtime::ResourceLimiter;

/// The most entries of one table: functions that are called by their number.
const MOST_TABLE_ENTRIES: usize = 200_000;
/// The most instances, tables and memories: a component may be made of several modules.
const MOST_INSTANCES: usize = 64;

/// Counts the bytes of all memories of one run.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    most: usize,
    used: usize,
    /// Whether it wanted more.
    pub(crate) has_refused: bool,
}

impl MemoryLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            used: 0,
            has_refused: false,
        }
    }

    /// Bytes; memories never shrink.
    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        if used > self.most {
            self.has_refused = true;
            return Ok(false);
        }
        // Past its own maximum a memory does not grow, whatever is said here.
        if maximum.is_none_or(|maximum| desired <= maximum) {
            self.used = used;
        }
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= MOST_TABLE_ENTRIES)
    }

    fn instances(&self) -> usize {
        MOST_INSTANCES
    }

    fn tables(&self) -> usize {
        MOST_INSTANCES
    }

    fn memories(&self) -> usize {
        MOST_INSTANCES
    }
}
