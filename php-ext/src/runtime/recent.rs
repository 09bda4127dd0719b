/// A bounded collection of the most recently used values. The least recently used value is dropped
/// when the limit is exceeded.
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

    /// Returns the value of `key`.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        let index = self.entries.iter().position(|(known, _)| known == key)?;
        let entry = self.entries.remove(index);
        self.entries.push(entry);
        self.entries.last().map(|(_, value)| value)
    }

    /// Adds a value under a new key.
    pub fn add(&mut self, key: K, value: V) {
        if self.entries.len() == self.limit {
            self.entries.remove(0);
        }
        self.entries.push((key, value));
    }
}
