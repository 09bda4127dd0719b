//! `ToolResult` (requirements A7, A8, J1).

use ext_php_rs::error::Result;
use ext_php_rs::types::{ZendObject, Zval};
use pillion_core::tool::{ErrorCode, JsonObject, ToolResult};
use serde_json::Value;

use crate::json::{EmptyObject, decode_value, to_value};
use crate::zend::{
    Call, Class, ClassSlot, Failure, Method, Outcome, Parameter, Property, Type, array_of, bool_of,
    empty_array, new_object, read_property, set_property, string_of,
};

pub const NAME: &str = "Pillion\\ToolResult";
static CLASS: ClassSlot = ClassSlot::new();

pub(super) fn register() -> Result<()> {
    let text_or_null = Type::STRING.nullable();
    Class::new(NAME)
        .property(Property::readonly("toolCallId", Type::STRING))
        .property(Property::readonly("toolName", Type::STRING))
        .property(Property::readonly("result", Type::MIXED))
        .property(Property::readonly("success", Type::BOOL))
        .property(Property::readonly("error", text_or_null))
        .property(Property::readonly("errorCode", text_or_null))
        .property(Property::readonly("data", Type::MIXED))
        .property(Property::readonly("metadata", Type::ARRAY))
        .method(Method::new("__construct", construct).parameters(&[
            Parameter::required("toolCallId", Type::STRING),
            Parameter::required("toolName", Type::STRING),
            Parameter::required("result", Type::MIXED),
            Parameter::optional("success", Type::BOOL, "true"),
            Parameter::optional("error", text_or_null, "null"),
            Parameter::optional("errorCode", text_or_null, "null"),
            Parameter::optional("data", Type::MIXED, "null"),
            Parameter::optional("metadata", Type::ARRAY, "[]"),
        ]))
        .method(Method::new("toMessage", to_message).returns(Type::STRING))
        .method(Method::new("toMessageFormat", to_message_format).returns(Type::ARRAY))
        .method(Method::new("toArray", to_array).returns(Type::ARRAY))
        .register(&CLASS)
}

fn construct(call: &mut Call<'_>) -> Outcome {
    let value = |index: usize| {
        call.value(index)
            .map_or_else(Zval::new, Zval::shallow_clone)
    };
    let optional = |index: usize| {
        let text = call.optional_string(index)?;
        Ok::<_, Failure>(text.map_or_else(Zval::new, string_of))
    };
    let metadata = match call.value(7) {
        Some(metadata) => {
            call.array(7)?;
            metadata.shallow_clone()
        }
        None => empty_array(),
    };
    fill(
        call.this(),
        [
            string_of(call.string(0)?),
            string_of(call.string(1)?),
            value(2),
            bool_of(call.bool_or(3, true)?),
            optional(4)?,
            optional(5)?,
            value(6),
            metadata,
        ],
    );
    Ok(Zval::new())
}

const PROPERTIES: [&str; 8] = [
    "toolCallId",
    "toolName",
    "result",
    "success",
    "error",
    "errorCode",
    "data",
    "metadata",
];

fn fill(this: &ZendObject, values: [Zval; 8]) {
    for (name, value) in PROPERTIES.into_iter().zip(values) {
        set_property(CLASS.get(), this, name, value);
    }
}

/// A result of the engine as an object of PHP.
pub fn new_result(result: &ToolResult) -> Outcome {
    let text = |text: Option<&str>| text.map_or_else(Zval::new, string_of);
    let value = |value: &Value| decode_value(value, EmptyObject::Array);
    let mut metadata = Vec::with_capacity(result.metadata.len());
    for (key, fact) in &result.metadata {
        metadata.push((key.as_str(), value(fact)?));
    }
    let object = new_object(CLASS.get())?;
    if let Some(this) = object.object() {
        fill(
            this,
            [
                string_of(&result.tool_call_id),
                string_of(&result.tool_name),
                value(&result.result)?,
                bool_of(result.success),
                text(result.error.as_deref()),
                text(result.error_code.map(ErrorCode::as_str)),
                result
                    .data
                    .as_ref()
                    .map_or_else(|| Ok(Zval::new()), value)?,
                array_of(metadata),
            ],
        );
    }
    Ok(object)
}

/// An object of PHP as a result of the engine; `None` when it is no `ToolResult`.
pub fn result_of(value: &Zval) -> std::result::Result<Option<ToolResult>, Failure> {
    match value.object() {
        Some(object) if object.instance_of(CLASS.get()) => read(object).map(Some),
        _ => Ok(None),
    }
}

fn read(this: &ZendObject) -> std::result::Result<ToolResult, Failure> {
    let property = |name: &str| read_property(CLASS.get(), this, name);
    let text = |name: &str| Ok::<_, Failure>(property(name)?.string());
    let success = property("success")?.bool().unwrap_or_default();
    let data = property("data")?;
    let code = text("errorCode")?.and_then(|code| code_of(&code));
    Ok(ToolResult {
        tool_call_id: text("toolCallId")?.unwrap_or_default(),
        tool_name: text("toolName")?.unwrap_or_default(),
        success,
        result: to_value(&property("result")?)?,
        data: if data.is_null() {
            None
        } else {
            Some(to_value(&data)?)
        },
        error: text("error")?,
        error_code: if success {
            code
        } else {
            code.or(Some(ErrorCode::InternalError))
        },
        metadata: match to_value(&property("metadata")?)? {
            Value::Object(metadata) => metadata,
            _ => JsonObject::new(),
        },
    })
}

/// The error code of that name; PHP tools may write another word, which says nothing.
fn code_of(name: &str) -> Option<ErrorCode> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

fn to_message(call: &mut Call<'_>) -> Outcome {
    Ok(string_of(read(call.this())?.to_message()))
}

fn to_message_format(call: &mut Call<'_>) -> Outcome {
    decode_value(&read(call.this())?.to_message_format(), EmptyObject::Array)
}

/// The properties by their names in JSON: `tool_call_id`, `error_code` and so on.
fn to_array(call: &mut Call<'_>) -> Outcome {
    const KEYS: [&str; 8] = [
        "tool_call_id",
        "tool_name",
        "result",
        "success",
        "error",
        "error_code",
        "data",
        "metadata",
    ];
    let this = call.this();
    let mut entries = Vec::with_capacity(KEYS.len());
    for (key, name) in KEYS.into_iter().zip(PROPERTIES) {
        entries.push((key, read_property(CLASS.get(), this, name)?));
    }
    Ok(array_of(entries))
}
