use ext_php_rs::types::Zval;

use crate::tools::registered_clients::RegisteredClients;
use crate::zend::{entries, new_list};

/// The PHP values that a chat uses, except the executor.
pub struct ChatValues {
    /// The MCP clients in the executor's registry.
    pub clients: RegisteredClients,
    /// The `$context` array.
    pub context: Zval,
    /// The callable that returns the provider's API key, or null.
    pub key_callable: Zval,
}

impl ChatValues {
    /// Converts the chat's values to one PHP value, which the garbage collector can traverse.
    pub fn to_value(&self) -> Zval {
        new_list([
            self.clients.to_value(),
            self.context.shallow_clone(),
            self.key_callable.shallow_clone(),
        ])
    }

    /// Restores the values from a result of [`to_value`](Self::to_value).
    pub fn from_value(value: &Zval) -> Self {
        let mut value_entries = entries(value);
        let mut next_part = || {
            value_entries
                .next()
                .map_or_else(Zval::new, |(_, part)| part)
        };
        Self {
            clients: RegisteredClients::from_value(&next_part()),
            context: next_part(),
            key_callable: next_part(),
        }
    }
}
