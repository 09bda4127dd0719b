//! `ChatEvent`: an event of a chat.

use ext_php_rs::error::Result;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use serde_json::Value;

use super::chat_answer::approval_of;
use crate::json::{EmptyObject, decode_value};
use crate::zend::{
    Class, ClassSlot, Failure, MethodCall, Object, Outcome, create, empty_array, member,
    should_stop, string_of,
};

static CLASS: ClassSlot = ClassSlot::new();

pub(super) fn register() -> Result<()> {
    Class::new("Pillion\\ChatEvent")
        .flags(ClassFlags::Final)
        .property("readonly string $text")
        .promoted_constructor(
            "__construct(string $type, array $data = [], ?Pillion\\ChatAnswer $answer = null)",
            construct,
        )
        .register(&CLASS)
}

/// Sets the properties. Their declared types validate the arguments.
fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let kind = call.value_or_null(0);
    let data = call.value(1).map_or_else(empty_array, Zval::shallow_clone);
    fill(call.this(), kind, data, call.value_or_null(2));
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

/// Creates a `ChatEvent` for an event of a chat.
pub fn new_event(kind: &str, data: &Value) -> Outcome {
    let data = match kind {
        "tool_waiting" => approval_of(data)?,
        _ => decode_value(data, EmptyObject::Array)?,
    };
    create(CLASS.get(), |this| {
        fill(this, string_of(kind), data, Zval::new());
    })
}

/// Creates the last `ChatEvent` of a chat, with the chat's outcome.
pub fn done(outcome: Zval) -> Outcome {
    create(CLASS.get(), |this| {
        fill(this, string_of("done"), empty_array(), outcome);
    })
}
