//! `TokenStore`: a store for the OAuth tokens of one user.

use ext_php_rs::error::Result;

use crate::zend::{Class, ClassSlot};

/// The interface `Pillion\TokenStore`. Clients accept any object with the interface's methods.
static CLASS: ClassSlot = ClassSlot::new();

pub fn register() -> Result<()> {
    Class::interface("Pillion\\TokenStore")
        .abstract_methods(&[
            "load(string $key): ?array",
            "save(string $key, #[SensitiveParameter] ?array $tokens): void",
        ])
        .register(&CLASS)
}
