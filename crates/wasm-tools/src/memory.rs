use wasmtime::ResourceLimiter;

/// What a table has for each of its entries, in bytes.
const TABLE_ENTRY: usize = size_of::<usize>();
/// The most instances, and tables and memories as well: a component may be made of several modules,
/// and those of some languages are, of up to twenty.
const MOST_INSTANCES: usize = 32;

/// Counts the bytes of all memories and tables of one run.
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

    /// Bytes; neither memories nor tables ever shrink.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Whether something may grow so, in bytes. Past its own maximum it does not, whatever is said
    /// here.
    fn grow(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> bool {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        if used > self.most {
            self.has_refused = true;
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
        let bytes = |entries: usize| entries.saturating_mul(TABLE_ENTRY);
        Ok(self.grow(bytes(current), bytes(desired), maximum.map(bytes)))
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
