//! `TokenStore`: a store for the OAuth tokens of one user.

use ext_php_rs::error::Result;

use crate::zend::{Class, ClassSlot, Method, Parameter, Type};

/// `Pillion\TokenStore`. Clients accept any object with these methods.
static CLASS: ClassSlot = ClassSlot::new();

pub(super) fn register() -> Result<()> {
    let key = Parameter::required("key", Type::STRING);
    let tokens = Type::ARRAY.nullable();
    Class::interface("Pillion\\TokenStore")
        .method(
            Method::abstract_of("load")
                .parameters(&[key])
                .returns(tokens),
        )
        .method(
            Method::abstract_of("save")
                .parameters(&[key, Parameter::required("tokens", tokens).sensitive()])
                .returns(Type::VOID),
        )
        .register(&CLASS)
}
