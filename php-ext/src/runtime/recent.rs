/// The most recently used values, at most so many: what is beyond is dropped.
pub(super) struct Recent<K, V> {
    entries: Vec<(K, V)>,
    limit: usize,
}

impl<K: PartialEq, V> Recent<K, V> {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            entries: Vec::new(),
            limit,
        }
    }

    /// The value of `key`, made if it is not there.
    pub(super) fn get_or_insert(&mut self, key: K, make: impl FnOnce() -> V) -> &V {
        let entry = match self.entries.iter().position(|(known, _)| *known == key) {
            Some(place) => self.entries.remove(place),
            None => {
                if self.entries.len() == self.limit {
                    self.entries.remove(0);
                }
                (key, make())
            }
        };
        self.entries.push(entry);
        &self.entries[self.entries.len() - 1].1
    }
}
