use ext_php_rs::types::Zval;

use crate::classes::tool_registry::Clients;
use crate::zend::{entries, list_of};

/// What of PHP takes part in a chat, beside its executor.
pub struct Company {
    /// The clients of MCP servers in the executor's registry.
    pub clients: Clients,
    /// The array `$context`.
    pub context: Zval,
    /// The callable that gives the provider's key, or null.
    pub key: Zval,
}

impl Company {
    /// As one value, for the garbage collector.
    pub fn to_value(&self) -> Zval {
        list_of([
            self.clients.to_value(),
            self.context.shallow_clone(),
            self.key.shallow_clone(),
        ])
    }

    /// What [`to_value`](Self::to_value) gave.
    pub fn of(value: &Zval) -> Self {
        let mut parts = value.array().into_iter().flat_map(entries);
        let mut next = || {
            parts
                .next()
                .map_or_else(Zval::new, |(_, part)| part.shallow_clone())
        };
        Self {
            clients: Clients::of(&next()),
            context: next(),
            key: next(),
        }
    }
}
