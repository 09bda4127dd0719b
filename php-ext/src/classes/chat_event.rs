//! `ChatEvent`: an event of a chat.

use ext_php_rs::error::Result;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use serde_json::Value;

use super::chat_answer::{self, approval_of};
use crate::json::{EmptyObject, decode_value};
use crate::zend::{
    Class, ClassSlot, Failure, Method, MethodCall, Object, Outcome, Parameter, Property, Type,
    create, empty_array, member, should_stop, string_of,
};

pub const NAME: &str = "Pillion\\ChatEvent";
static CLASS: ClassSlot = ClassSlot::new();

pub(super) fn register() -> Result<()> {
    let outcome = Type::class(chat_answer::NAME).nullable();
    Class::new(NAME)
        .flags(ClassFlags::Final)
        .property(Property::readonly("text", Type::STRING))
        .property(Property::readonly("type", Type::STRING))
        .property(Property::readonly("data", Type::ARRAY))
        .property(Property::readonly("answer", outcome))
        .method(Method::new("__construct", construct).parameters(&[
            Parameter::required("type", Type::STRING),
            Parameter::optional("data", Type::ARRAY, "[]"),
            Parameter::optional("answer", outcome, "null"),
        ]))
        .register(&CLASS)
}

/// The typed properties validate the arguments.
fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let kind = call.value(0).map_or_else(Zval::new, Zval::shallow_clone);
    let data = call.value(1).map_or_else(empty_array, Zval::shallow_clone);
    let outcome = call.value(2).map_or_else(Zval::new, Zval::shallow_clone);
    fill(call.this(), kind, data, outcome);
    if should_stop() {
        return Err(Failure::Pending);
    }
    Ok(Zval::new())
}

fn fill(this: Object<'_>, kind: Zval, data: Zval, outcome: Zval) {
    let text = member(&data, "text")
        .filter(Zval::is_string)
        .unwrap_or_else(|| string_of(""));
    let values = [
        ("type", kind),
        ("text", text),
        ("data", data),
        ("answer", outcome),
    ];
    for (name, value) in values {
        if should_stop() {
            return;
        }
        this.set(CLASS.get(), name, value);
    }
}

/// Creates the PHP object for an event.
pub fn new_event(kind: &str, data: &Value) -> Outcome {
    let data = match kind {
        "tool_waiting" => approval_of(data)?,
        _ => decode_value(data, EmptyObject::Array)?,
    };
    create(CLASS.get(), |this| {
        fill(this, string_of(kind), data, Zval::new());
    })
}

/// Creates the last event of a chat.
pub fn done(outcome: Zval) -> Outcome {
    create(CLASS.get(), |this| {
        fill(this, string_of("done"), empty_array(), outcome);
    })
}
