//! `ChatEvent`: an event of a chat.

use ext_php_rs::error::Result;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use serde_json::Value;

use super::chat_answer::to_approval;
use crate::json::{EmptyObject, decode_value};
use crate::zend::{
    Class, ClassSlot, Failure, MethodCall, Object, Outcome, create, empty_array, member,
    new_string, should_stop,
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

/// Sets the properties from the constructor's arguments, which the declared types of the properties
/// validate.
fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let kind = call.value_or_null(0);
    let data = call.value(1).map_or_else(empty_array, Zval::shallow_clone);
    set_properties(call.this(), kind, data, call.value_or_null(2));
    if should_stop() {
        return Err(Failure::Pending);
    }
    Ok(Zval::new())
}

fn set_properties(this: Object<'_>, kind: Zval, data: Zval, outcome: Zval) {
    let text = member(&data, "text")
        .filter(Zval::is_string)
        .unwrap_or_else(|| new_string(""));
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
    let event_data = match kind {
        "tool_waiting" => to_approval(data)?,
        _ => decode_value(data, EmptyObject::Array)?,
    };
    create(CLASS.get(), |this| {
        set_properties(this, new_string(kind), event_data, Zval::new());
    })
}

/// Creates the last `ChatEvent` of a chat, with the chat's outcome.
pub fn new_done_event(outcome: Zval) -> Outcome {
    create(CLASS.get(), |this| {
        set_properties(this, new_string("done"), empty_array(), outcome);
    })
}
