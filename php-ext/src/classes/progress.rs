//! `Progress`: the progress of a call.

use ext_php_rs::error::Result;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use pillion_mcp_client::ProgressNotification;

use crate::zend::{
    Class, ClassSlot, Failure, Method, MethodCall, Outcome, Parameter, Property, Type, create,
    float_of, should_stop, string_of,
};

pub const NAME: &str = "Pillion\\Progress";
static CLASS: ClassSlot = ClassSlot::new();

const PROPERTIES: [(&str, Type); 3] = [
    ("progress", Type::FLOAT),
    ("total", Type::FLOAT.nullable()),
    ("message", Type::STRING.nullable()),
];

pub(super) fn register() -> Result<()> {
    let [progress, total, message] = PROPERTIES;
    let constructor = Method::new("__construct", construct).parameters(&[
        Parameter::required(progress.0, progress.1),
        Parameter::optional(total.0, total.1, "null"),
        Parameter::optional(message.0, message.1, "null"),
    ]);
    let mut class = Class::new(NAME)
        .flags(ClassFlags::Final)
        .method(constructor);
    for (name, kind) in PROPERTIES {
        class = class.property(Property::readonly(name, kind));
    }
    class.register(&CLASS)
}

/// The typed properties validate the arguments.
fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    for (index, (name, _)) in PROPERTIES.into_iter().enumerate() {
        let value = call.value(index);
        this.set(
            CLASS.get(),
            name,
            value.map_or_else(Zval::new, Zval::shallow_clone),
        );
        if should_stop() {
            return Err(Failure::Pending);
        }
    }
    Ok(Zval::new())
}

/// Creates the PHP object for a progress notification.
pub fn new_progress(progress: &ProgressNotification) -> Outcome {
    let total = progress.total.map_or_else(Zval::new, float_of);
    let message = progress.message.as_ref();
    create(CLASS.get(), |this| {
        this.set(CLASS.get(), "progress", float_of(progress.progress));
        this.set(CLASS.get(), "total", total);
        let message = message.map_or_else(Zval::new, string_of);
        this.set(CLASS.get(), "message", message);
    })
}
