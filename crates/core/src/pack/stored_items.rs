use async_trait::async_trait;
use serde_json::Value;

use crate::store::StoreError;
use crate::tool::JsonObject;

/// Stored items of one kind, such as scenes, that operators can list and remove.
#[async_trait]
pub trait StoredItems: Send + Sync {
    /// Returns the name of the items' kind in the plural, such as `scenes`. The name consists of
    /// lower-case letters, digits and `_`, and begins with a letter.
    fn kind(&self) -> &str;

    /// Returns the maximum number of items; `None` for unlimited.
    fn max_items(&self) -> Option<u32> {
        None
    }

    /// Returns the number of items.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn count(&self) -> Result<u64, StoreError>;

    /// Returns at most `limit` (1 to 1,000) items after the name `after`. The order depends on
    /// names only, so `after` need not exist any more.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn list(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredItem>, StoreError>;

    /// Removes an item, and notifies listeners if the removal changes a resource. Returns `false`
    /// if there is no such item.
    ///
    /// # Errors
    /// The store failed; nothing is removed then.
    async fn remove(&self, name: &str) -> Result<bool, StoreError>;
}

/// An item that a pack stores, as shown to operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredItem {
    /// The name of the item, which may be any text; unique among the items of the same kind.
    pub name: String,
    /// Values that help an operator to identify the item, in display order.
    pub facts: JsonObject,
}

impl StoredItem {
    /// Creates an item without further values.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            facts: JsonObject::new(),
        }
    }

    /// Adds a value to [`facts`](Self::facts).
    #[must_use]
    pub fn with_fact(mut self, fact: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(fact.to_owned(), value.into());
        self
    }
}
