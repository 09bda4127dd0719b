use ext_php_rs::types::Zval;

use crate::tools::registered_clients::Clients;
use crate::zend::{entries, list_of};

/// The PHP values that take part in a chat, apart from the executor.
pub struct ChatValues {
    /// The MCP clients in the executor's registry.
    pub clients: Clients,
    /// The `$context` array.
    pub context: Zval,
    /// The callable that returns the provider's key, or null.
    pub key: Zval,
}

impl ChatValues {
    /// Returns these values as one PHP value, which the garbage collector can traverse.
    pub fn to_value(&self) -> Zval {
        list_of([
            self.clients.to_value(),
            self.context.shallow_clone(),
            self.key.shallow_clone(),
        ])
    }

    /// Restores the values from a result of [`to_value`](Self::to_value).
    pub fn from_value(value: &Zval) -> Self {
        let mut parts = entries(value);
        let mut next = || parts.next().map_or_else(Zval::new, |(_, part)| part);
        Self {
            clients: Clients::from_value(&next()),
            context: next(),
            key: next(),
        }
    }
}
