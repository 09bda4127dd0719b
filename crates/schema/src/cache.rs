//! The compiled schemas of the process, up to a total size.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;

use super::{CompiledSchema, SchemaError};

/// Maximum estimated size of all compiled schemas of the process, in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The compiled form of one schema, which may be dropped at any time.
#[derive(Debug, Default)]
pub(super) struct SchemaSlot {
    compiled: ArcSwapOption<CompiledSchema>,
    /// Whether the compiled form was used since the cache last looked at this slot.
    was_used: AtomicBool,
    /// Why the schema cannot be compiled, once an attempt has failed.
    pub(super) error: OnceLock<SchemaError>,
    /// Locked while the schema is compiled.
    pub(super) compiling: Mutex<()>,
}

impl SchemaSlot {
    /// Returns the compiled schema, if the schema is compiled, without a lock.
    pub(super) fn get(&self) -> Guard<Option<Arc<CompiledSchema>>> {
        // The flag is usually set already, and writing it each time would slow down concurrent
        // calls.
        if !self.was_used.load(Ordering::Relaxed) {
            self.was_used.store(true, Ordering::Relaxed);
        }
        self.compiled.load()
    }
}

/// One cache for the process, because the limit protects the memory of the process.
static CACHE: LazyLock<Mutex<SchemaCache>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct SchemaCache {
    accounts: HashMap<Arc<str>, CachedAccount>,
    bytes: u64,
}

#[derive(Default)]
struct CachedAccount {
    bytes: u64,
    /// The entries of the account. Recently used entries are closer to the back.
    entries: VecDeque<SlotEntry>,
}

struct SlotEntry {
    /// Cannot be upgraded after the schema was dropped.
    slot: Weak<SchemaSlot>,
    bytes: u64,
}

/// Stores a compiled schema in its slot, and drops other compiled schemas beyond the size limit.
pub(super) fn insert(account: &Arc<str>, slot: &Arc<SchemaSlot>, compiled: Arc<CompiledSchema>) {
    let bytes = compiled.bytes;
    slot.compiled.store(Some(compiled));
    let mut dropped = Vec::new();
    let mut cache = CACHE.lock();
    cache.bytes += bytes;
    let entries = cache.accounts.entry(Arc::clone(account)).or_default();
    entries.bytes += bytes;
    entries.entries.push_back(SlotEntry {
        slot: Arc::downgrade(slot),
        bytes,
    });
    while cache.bytes > MAX_BYTES {
        dropped.extend(cache.evict());
    }
    drop(cache);
    // The schemas are dropped after the lock, because dropping large schemas takes time.
    drop(dropped);
}

impl SchemaCache {
    /// Removes an entry of the account with the most bytes: the oldest entry whose schema was not
    /// used since the cache last looked at the entry.
    fn evict(&mut self) -> Option<Arc<CompiledSchema>> {
        let heaviest = self.accounts.iter_mut().max_by_key(|(_, it)| it.bytes);
        let Some((name, account)) = heaviest else {
            self.bytes = 0;
            return None;
        };
        let entry = account.take_oldest();
        let name = Arc::clone(name);
        let Some(SlotEntry { slot, bytes }) = entry else {
            self.accounts.remove(&name);
            return None;
        };
        account.bytes -= bytes;
        self.bytes -= bytes;
        slot.upgrade()?.compiled.swap(None)
    }
}

impl CachedAccount {
    fn take_oldest(&mut self) -> Option<SlotEntry> {
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
