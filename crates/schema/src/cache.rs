//! The compiled schemas of the process, up to a total size.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;

use super::{CompiledSchema, SchemaError};

/// Maximum estimated size of all compiled schemas of the process, in bytes.
const MAX_CACHED_BYTES: u64 = 64 * 1024 * 1024;

/// The compiled form of one schema, which may be dropped at any time.
#[derive(Debug, Default)]
pub(super) struct SchemaSlot {
    compiled_schema: ArcSwapOption<CompiledSchema>,
    /// Whether the compiled form was used since the eviction algorithm (CLOCK) last checked this
    /// slot.
    was_used: AtomicBool,
    /// Why the schema cannot be compiled, once an attempt has failed.
    pub(super) error: OnceLock<SchemaError>,
    /// Locked while the schema is compiled.
    pub(super) compile_lock: Mutex<()>,
}

impl SchemaSlot {
    /// Returns the compiled schema, if the schema is compiled, without a lock.
    pub(super) fn get(&self) -> Guard<Option<Arc<CompiledSchema>>> {
        // The flag is written only if it is not set yet, because writing it each time would slow
        // down concurrent calls.
        if !self.was_used.load(Ordering::Relaxed) {
            self.was_used.store(true, Ordering::Relaxed);
        }
        self.compiled_schema.load()
    }
}

/// One cache for the process, because the size limit protects the memory of the process.
static SCHEMA_CACHE: LazyLock<Mutex<SchemaCache>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct SchemaCache {
    accounts: HashMap<Arc<str>, CachedAccount>,
    bytes: u64,
}

#[derive(Default)]
struct CachedAccount {
    bytes: u64,
    /// The entries of the account, with recently used entries closer to the back.
    entries: VecDeque<SlotEntry>,
}

struct SlotEntry {
    /// A weak reference, so that the cache does not keep the slot of a dropped schema.
    slot: Weak<SchemaSlot>,
    bytes: u64,
}

/// Stores a compiled schema in its slot, and drops other compiled schemas until the total size of
/// all compiled schemas is at most [`MAX_CACHED_BYTES`].
pub(super) fn insert(account: &Arc<str>, slot: &Arc<SchemaSlot>, schema: Arc<CompiledSchema>) {
    let bytes = schema.bytes;
    slot.compiled_schema.store(Some(schema));
    let mut evicted_schemas = Vec::new();
    let mut cache = SCHEMA_CACHE.lock();
    cache.bytes += bytes;
    let cached_account = cache.accounts.entry(Arc::clone(account)).or_default();
    cached_account.bytes += bytes;
    cached_account.entries.push_back(SlotEntry {
        slot: Arc::downgrade(slot),
        bytes,
    });
    while cache.bytes > MAX_CACHED_BYTES {
        evicted_schemas.extend(cache.evict());
    }
    drop(cache);
    // The schemas are dropped after the lock is released, because dropping large schemas takes
    // time.
    drop(evicted_schemas);
}

impl SchemaCache {
    /// Evicts an entry of the account whose entries use the most bytes. Chooses the entry by the
    /// second-chance (CLOCK) algorithm: the oldest entry whose schema was not used since the
    /// algorithm last checked the entry.
    fn evict(&mut self) -> Option<Arc<CompiledSchema>> {
        let accounts = self.accounts.iter_mut();
        let heaviest_account = accounts.max_by_key(|(_, account)| account.bytes);
        let Some((account_name, account)) = heaviest_account else {
            self.bytes = 0;
            return None;
        };
        let entry = account.take_oldest_entry();
        let account_name = Arc::clone(account_name);
        let Some(SlotEntry { slot, bytes }) = entry else {
            self.accounts.remove(&account_name);
            return None;
        };
        account.bytes -= bytes;
        self.bytes -= bytes;
        slot.upgrade()?.compiled_schema.swap(None)
    }
}

impl CachedAccount {
    fn take_oldest_entry(&mut self) -> Option<SlotEntry> {
        for _ in 0..self.entries.len() {
            let entry = self.entries.pop_front()?;
            let is_recent = |slot: Arc<SchemaSlot>| slot.was_used.swap(false, Ordering::Relaxed);
            if !entry.slot.upgrade().is_some_and(is_recent) {
                return Some(entry);
            }
            self.entries.push_back(entry);
        }
        self.entries.pop_front()
    }
}
