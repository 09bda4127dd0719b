/// A bounded collection of recently used values. When the limit is exceeded, the least recently
/// used value is dropped.
pub struct LruCache<K, V> {
    entries: Vec<(K, V)>,
    limit: usize,
}

impl<K: PartialEq, V> LruCache<K, V> {
    pub const fn new(limit: usize) -> Self {
        Self {
            entries: Vec::new(),
            limit,
        }
    }

    /// Returns the value of `key`, and marks it as recently used.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        let index = self.entries.iter().position(|(other, _)| other == key)?;
        let entry = self.entries.remove(index);
        self.entries.push(entry);
        self.entries.last().map(|(_, value)| value)
    }

    /// Adds a value under a key that the cache does not contain.
    pub fn add(&mut self, key: K, value: V) {
        if self.entries.len() == self.limit {
            self.entries.remove(0);
        }
        self.entries.push((key, value));
    }
}
