use std::collections::HashSet;

use parking_lot::RwLock;

/// Maximum number of names that are remembered in addition to those of the latest list.
const MAX_REMEMBERED: usize = 10_000;

/// The names that a server has given its tools. A name stays known while the server is unreachable,
/// and after the server has listed fewer tools, so that no other server takes it meanwhile.
#[derive(Debug, Default)]
pub(super) struct ListedNames(RwLock<KnownNames>);

#[derive(Debug, Default)]
enum KnownNames {
    #[default]
    Unknown,
    /// The names of the server's pins, before the first list of this process.
    Pinned(HashSet<String>),
    Listed(HashSet<String>),
}

impl ListedNames {
    /// Adds the names of a list.
    pub(super) fn add(&self, names: impl IntoIterator<Item = String>) {
        let mut known = self.0.write();
        let mut names: HashSet<_> = names.into_iter().collect();
        if let KnownNames::Pinned(before) | KnownNames::Listed(before) = &mut *known
            && before.len().saturating_add(names.len()) <= MAX_REMEMBERED
        {
            names.extend(before.drain());
        }
        *known = KnownNames::Listed(names);
    }

    /// Sets the names of the server's pins, if they are known and the server has not listed its
    /// tools. A server without pins has never listed its tools, so that no client knows its names.
    pub(super) fn set_pinned(&self, names: Option<HashSet<String>>) {
        let mut known = self.0.write();
        if let Some(names) = names
            && !matches!(*known, KnownNames::Listed(_))
        {
            *known = KnownNames::Pinned(names);
        }
    }

    /// Returns whether no list and no pin of the server is known.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(*self.0.read(), KnownNames::Unknown)
    }

    /// Returns whether the server is known to have given a tool this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        match &*self.0.read() {
            KnownNames::Unknown => false,
            KnownNames::Pinned(names) | KnownNames::Listed(names) => names.contains(name),
        }
    }
}
