use async_trait::async_trait;
use serde_json::Value;

use crate::store::StoreError;
use crate::tool::JsonObject;

/// Things of one kind that a pack keeps, such as scenes: an operator sees them, and removes those
/// that are to make room.
#[async_trait]
pub trait Keeping: Send + Sync {
    /// The kind, in the plural: small letters, digits and `_`, beginning with a letter.
    fn kind(&self) -> &str;

    /// How many there may be; none for any number.
    fn most(&self) -> Option<u32> {
        None
    }

    /// How many there are.
    ///
    /// # Errors
    /// Those of the store.
    async fn count(&self) -> Result<u64, StoreError>;

    /// Those behind the name `after`, in an order that depends on names alone, so that there need
    /// be none of that name any more: `limit` of them, or all where there are fewer. `limit` is 1 to
    /// 1,000.
    ///
    /// # Errors
    /// Those of the store.
    async fn list(&self, after: Option<&str>, limit: u32) -> Result<Vec<Kept>, StoreError>;

    /// Removes the one of that name, and tells of it where that is a change of a resource. False
    /// where there is none.
    ///
    /// # Errors
    /// Those of the store; nothing is removed then.
    async fn remove(&self, name: &str) -> Result<bool, StoreError>;
}

/// Something that a pack keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its name, which no other of its kind has. Any text.
    pub name: String,
    /// What helps an operator to know it: a few values by name, in an order to be shown in.
    pub facts: JsonObject,
}

impl Kept {
    /// One of that name, of which no more is known.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            facts: JsonObject::new(),
        }
    }

    /// Says something of it.
    #[must_use]
    pub fn with(mut self, fact: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(fact.to_owned(), value.into());
        self
    }
}
