//! `ToolCall`: a tool call requested by a model.

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_core::tool::ToolCall;
use serde_json::{Map, Value};

use crate::exception;
use crate::json::{decode_exactly, encode_arguments, to_value_as};
use crate::zend::{
    Class, ClassSlot, Failure, MethodCall, Object, Outcome, Result, create, empty_array,
    json_serializable, member, methods, new_array, new_int, new_string, type_name,
};

pub const NAME: &str = "Pillion\\ToolCall";
static CLASS: ClassSlot = ClassSlot::new();

pub fn register() -> ZendResult<()> {
    let class = Class::new(NAME)
        .implements(json_serializable())
        .promoted_constructor(
            "__construct(string $id, string $name, array|string $arguments = [], \
             string $type = 'function', ?int $index = null)",
            construct,
        );
    methods!(
        class,
        "static fromArray(array $call): Pillion\\ToolCall" => from_array,
        "toArray(): array" => to_array,
        "jsonSerialize(): array" => json_serialize,
    )
    .register(&CLASS)
}

/// The values of a `ToolCall`'s properties.
struct CallParts {
    id: String,
    name: String,
    /// The arguments: an array, or a JSON string.
    arguments: Zval,
    kind: String,
    index: Option<i64>,
}

fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let arguments = match call.value(2) {
        None => empty_array(),
        Some(value) if value.is_array() || value.is_string() => value.shallow_clone(),
        Some(_) => return Err(call.type_error(2, "array|string")),
    };
    let kind = call.string_or(3, "function")?;
    let call_parts = CallParts {
        id: call.string(0)?.to_owned(),
        name: call.string(1)?.to_owned(),
        arguments,
        kind: kind.to_owned(),
        index: call.optional_int(4)?,
    };
    call_parts.set_properties(call.this());
    Ok(Zval::new())
}

/// Creates a `ToolCall` from `{id, name, arguments}`, or from OpenAI's form with the name and
/// arguments under `function`.
fn from_array(call: &mut MethodCall<'_>) -> Outcome {
    let call_parts = CallParts::from_array(call.array(0)?)?;
    create(CLASS.get(), |this| call_parts.set_properties(this))
}

/// Creates a `ToolCall` for a call of the engine. The arguments are converted without loss, because
/// PHP code may show them or send them again.
pub fn new_call(call: &ToolCall) -> Outcome {
    let call_parts = CallParts {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: match &call.arguments {
            Value::Null => empty_array(),
            arguments => exact_arguments(arguments)?,
        },
        kind: call.kind.clone(),
        index: call.index.map(i64::from),
    };
    create(CLASS.get(), |this| call_parts.set_properties(this))
}

/// Converts arguments to a PHP value without loss: an empty map becomes a `stdClass`, and an
/// integer beyond 64 bits becomes a string of its digits. The top-level map becomes an array, even
/// if empty.
pub fn exact_arguments(arguments: &Value) -> Outcome {
    if arguments.as_object().is_some_and(Map::is_empty) {
        return Ok(empty_array());
    }
    decode_exactly(arguments)
}

/// Converts a `ToolCall`, or an array that `fromArray` accepts, to a call of the engine.
pub fn to_tool_call(value: &Zval) -> Result<ToolCall> {
    read_parts(value)?.into_call()
}

/// A call whose arguments cannot be converted to JSON.
pub struct RejectedCall {
    pub id: String,
    pub name: String,
    /// The reason why the arguments cannot be converted.
    pub reason: String,
}

/// Reads a call like [`to_tool_call`], but returns a [`RejectedCall`] for arguments that cannot be
/// converted to JSON, so that the other calls of a batch can run.
///
/// # Errors
/// An error for a value that is not a call, or an exception of PHP code.
pub fn read_call_or_rejection(value: &Zval) -> Result<Result<ToolCall, RejectedCall>> {
    let call_parts = read_parts(value)?;
    let (id, name) = (call_parts.id.clone(), call_parts.name.clone());
    match call_parts.into_call() {
        Ok(call) => Ok(Ok(call)),
        Err(Failure::Exception(exception)) => {
            let reason = exception.message;
            Ok(Err(RejectedCall { id, name, reason }))
        }
        Err(failure) => Err(failure),
    }
}

fn read_parts(value: &Zval) -> Result<CallParts> {
    match Object::from_value(value) {
        Some(object) if object.instance_of(CLASS.get()) => CallParts::from_object(object),
        _ if value.is_array() => CallParts::from_array(value),
        _ => Err(exception::invalid_input(format!(
            "A call must be a {NAME} or an array, {} given",
            type_name(value)
        ))),
    }
}

impl CallParts {
    fn from_array(array: &Zval) -> Result<Self> {
        let function_entry = member(array, "function");
        let find_entry = |key: &str| {
            let value = function_entry.as_ref().and_then(|entry| member(entry, key));
            value.or_else(|| member(array, key))
        };
        let text = |key: &str| {
            let value = find_entry(key);
            value.as_ref().and_then(Zval::string).ok_or_else(|| {
                if value.as_ref().is_some_and(Zval::is_string) {
                    return exception::invalid_input(format!(
                        "The '{key}' of a tool call is not valid UTF-8"
                    ));
                }
                let kind = value.as_ref().map_or_else(|| "nothing".into(), type_name);
                exception::invalid_input(format!(
                    "A tool call needs a string '{key}', {kind} given"
                ))
            })
        };
        let arguments = match find_entry("arguments") {
            None => empty_array(),
            Some(value) if value.is_null() => empty_array(),
            Some(value) if value.is_array() || value.is_string() => value,
            Some(value) => {
                return Err(exception::invalid_input(format!(
                    "The 'arguments' of a tool call must be an array or a JSON string, {} given",
                    type_name(&value)
                )));
            }
        };
        Ok(Self {
            id: text("id")?,
            name: text("name")?,
            arguments,
            kind: "function".to_owned(),
            index: find_entry("index").and_then(|index| index.long()),
        })
    }

    fn from_object(this: Object<'_>) -> Result<Self> {
        let property = |name: &str| this.get(CLASS.get(), name);
        let text = |name: &str| Ok::<_, Failure>(property(name)?.string().unwrap_or_default());
        Ok(Self {
            id: text("id")?,
            name: text("name")?,
            arguments: property("arguments")?,
            kind: text("type")?,
            index: property("index")?.long(),
        })
    }

    fn set_properties(self, this: Object<'_>) {
        let index = self.index.map_or_else(Zval::new, new_int);
        let values = [
            ("id", new_string(self.id)),
            ("name", new_string(self.name)),
            ("arguments", self.arguments),
            ("type", new_string(self.kind)),
            ("index", index),
        ];
        this.set_all(CLASS.get(), values);
    }

    fn into_call(self) -> Result<ToolCall> {
        let arguments = match self.arguments.str() {
            Some(json) => Value::String(json.to_owned()),
            None => to_value_as("argument $arguments", &self.arguments)?,
        };
        Ok(ToolCall {
            kind: self.kind,
            index: self.index.and_then(|index| u32::try_from(index).ok()),
            ..ToolCall::new(self.id, self.name, arguments)
        })
    }
}

fn to_array(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let property = |name: &str| this.get(CLASS.get(), name);
    Ok(new_array([
        ("id", property("id")?),
        ("type", property("type")?),
        ("name", property("name")?),
        ("arguments", property("arguments")?),
        ("index", property("index")?),
    ]))
}

/// Returns the call in OpenAI's form, with the arguments as a JSON string.
fn json_serialize(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let property = |name: &str| this.get(CLASS.get(), name);
    let mut arguments = property("arguments")?;
    if arguments.is_array() {
        arguments = new_string(encode_arguments(&arguments)?.get());
    }
    Ok(new_array([
        ("id", property("id")?),
        ("type", property("type")?),
        (
            "function",
            new_array([("name", property("name")?), ("arguments", arguments)]),
        ),
    ]))
}
