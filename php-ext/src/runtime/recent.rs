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

    /// The value of `key`.
    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        let place = self.entries.iter().position(|(known, _)| known == key)?;
        let entry = self.entries.remove(place);
        self.entries.push(entry);
        self.entries.last().map(|(_, value)| value)
    }

    /// Keeps a value under a key that is not there.
    pub(super) fn add(&mut self, key: K, value: V) {
        if self.entries.len() == self.limit {
            self.entries.remove(0);
        }
        self.entries.push((key, value));
    }
}
