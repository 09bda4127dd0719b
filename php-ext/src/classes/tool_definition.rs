//! `ToolDefinition`: the definition of a tool.

use std::time::Duration;

use ext_php_rs::error::Result;
use ext_php_rs::flags::PropertyFlags;
use ext_php_rs::types::Zval;
use pillion_core::tool::{ToolDefinition, ToolParameter};
use pillion_providers::{Provider, StrictFlag, format_tool};
use serde_json::{Value, json};

use crate::exception;
use crate::json::{EmptyObject, decode_value, to_value, to_value_as};
use crate::signature::{self, Signature, SignatureOverrides, Target};
use crate::zend::{
    Class, ClassSlot, Failure, Method, MethodCall, Object, Outcome, Parameter, Property, Type,
    array_of, bool_of, create, float_of, string_of,
};

pub const NAME: &str = "Pillion\\ToolDefinition";
static CLASS: ClassSlot = ClassSlot::new();

pub(super) fn register() -> Result<()> {
    Class::new(NAME)
        .property(Property::readonly("name", Type::STRING))
        .property(Property::readonly("description", Type::STRING))
        .property(Property::readonly("parameters", Type::ARRAY))
        .property(Property::readonly("strict", Type::BOOL))
        .property(Property::readonly("category", Type::STRING))
        .property(Property::readonly("requiresConfirmation", Type::BOOL))
        .property(Property::readonly("cooldownSeconds", Type::FLOAT))
        // Set by fromCallable(): how arguments are converted to the parameters of the PHP code.
        .property(Property::new(
            PropertyFlags::Private,
            "binding",
            Type::ARRAY.nullable(),
            Zval::new(),
        ))
        .method(
            Method::new("fromCallable", from_callable)
                .make_static()
                .parameters(&[
                    Parameter::required("callable", Type::OBJECT.or(Type::ARRAY).or(Type::STRING)),
                    Parameter::optional("name", Type::STRING.nullable(), "null"),
                    Parameter::optional("description", Type::STRING.nullable(), "null"),
                ])
                .returns(Type::class(NAME)),
        )
        .method(Method::new("__construct", construct).parameters(&[
            Parameter::required("name", Type::STRING),
            Parameter::required("description", Type::STRING),
            Parameter::optional("parameters", Type::ARRAY, "[]"),
            Parameter::optional("strict", Type::BOOL, "false"),
            Parameter::optional("category", Type::STRING, "'general'"),
            Parameter::optional("requiresConfirmation", Type::BOOL, "false"),
            Parameter::optional("cooldownSeconds", Type::INT.or(Type::FLOAT), "0"),
        ]))
        .method(Method::new("toOpenAiFormat", to_open_ai_format).returns(Type::ARRAY))
        .method(Method::new("toOpenAiResponsesFormat", to_responses_format).returns(Type::ARRAY))
        .method(Method::new("toGoogleFormat", to_google_format).returns(Type::ARRAY))
        .method(Method::new("toAnthropicFormat", to_anthropic_format).returns(Type::ARRAY))
        .method(Method::new("toArray", to_array).returns(Type::ARRAY))
        .register(&CLASS)
}

/// Accepts the parameters as a JSON Schema, which is kept unchanged, or as a list of parameters,
/// which is converted to a schema.
fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let name = call.string(0)?;
    let description = call.string(1)?;
    let parameters = match call.value(2) {
        Some(_) => {
            call.array(2)?;
            call.value(2).map(Zval::shallow_clone)
        }
        None => None,
    };
    let strict = call.bool_or(3, false)?;
    let category = call.value(4).map_or(Ok("general"), |_| call.string(4))?;
    let requires_confirmation = call.bool_or(5, false)?;
    let cooldown = seconds("cooldownSeconds", call.number_or(6, 0.0)?)?;

    let raw = parameters.as_ref().map_or(Ok(json!([])), |value| {
        to_value_as("argument $parameters", value)
    })?;
    let from_list = is_parameter_list(&raw);
    let definition = with_parameters(ToolDefinition::builder(name, description), raw)?
        .strict(strict)
        .category(category)
        .requires_confirmation(requires_confirmation)
        .cooldown(cooldown)
        .build()
        .map_err(|error| exception::invalid_input(error.to_string()))?;
    let shown = match parameters {
        Some(schema) if !from_list => schema,
        _ => decode_value(definition.input_schema(), EmptyObject::Array)?,
    };
    fill(call.this(), &definition, shown);
    Ok(Zval::new())
}

/// Maximum duration: 136 years, below the range at which clocks overflow.
const MAX_SECONDS: u32 = u32::MAX;

/// Converts a duration in seconds from PHP. Negative, non-finite and extremely long durations are
/// errors.
pub fn seconds(parameter: &str, seconds: f64) -> std::result::Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration <= Duration::from_secs(MAX_SECONDS.into()))
        .ok_or_else(|| {
            exception::invalid_input(format!(
                "{parameter} must be a number of seconds, not negative and at most {MAX_SECONDS}"
            ))
        })
}

/// Returns whether this is a list of parameters rather than a schema. An empty array is an empty
/// list.
fn is_parameter_list(raw: &Value) -> bool {
    raw.is_array()
}

fn with_parameters(
    builder: pillion_core::tool::ToolDefinitionBuilder,
    raw: Value,
) -> std::result::Result<pillion_core::tool::ToolDefinitionBuilder, Failure> {
    if !is_parameter_list(&raw) {
        return Ok(builder.schema(raw));
    }
    let parameters: Vec<ToolParameter> = serde_json::from_value(raw).map_err(|error| {
        exception::invalid_input(format!("The parameters are not valid: {error}"))
    })?;
    Ok(builder.parameters(parameters))
}

fn fill(this: Object<'_>, definition: &ToolDefinition, parameters: Zval) {
    let class = CLASS.get();
    let cooldown = float_of(definition.cooldown().as_secs_f64());
    let values = [
        ("name", string_of(definition.name().as_str())),
        ("description", string_of(definition.description())),
        ("parameters", parameters),
        ("strict", bool_of(definition.strict())),
        ("category", string_of(definition.category())),
        (
            "requiresConfirmation",
            bool_of(definition.requires_confirmation()),
        ),
        ("cooldownSeconds", cooldown),
    ];
    for (name, value) in values {
        this.set(class, name, value);
    }
}

/// Creates the PHP object for a definition of the engine.
pub fn new_definition(definition: &ToolDefinition) -> Outcome {
    let parameters = decode_value(definition.input_schema(), EmptyObject::Array)?;
    create(CLASS.get(), |this| fill(this, definition, parameters))
}

/// Creates the PHP object for a definition created from a signature, with the binding of its
/// arguments.
pub fn new_from_signature(signature: &Signature) -> Outcome {
    let value = new_definition(&signature.definition)?;
    if let Some(object) = Object::from_value(&value) {
        object.set(CLASS.get(), "binding", signature.binding_value());
    }
    Ok(value)
}

/// Returns how the arguments of calls become parameters; `None` if the PHP code receives all
/// arguments as one array.
pub fn binding_of(definition: &Zval) -> std::result::Result<Option<Zval>, Failure> {
    let Some(object) = Object::from_value(definition) else {
        return Ok(None);
    };
    let binding = object.get(CLASS.get(), "binding")?;
    Ok((!binding.is_null()).then_some(binding))
}

fn from_callable(call: &mut MethodCall<'_>) -> Outcome {
    let callable = call
        .value(0)
        .filter(|value| value.is_object() || value.is_array() || value.is_string())
        .ok_or_else(|| call.type_error(0, "object|array|string"))?;
    let overrides = SignatureOverrides {
        name: call.optional_string(1)?,
        description: call.optional_string(2)?,
    };
    let target = Target::find(callable)?;
    new_from_signature(&signature::read(&target, &overrides)?)
}

/// Returns whether a value is a `ToolDefinition`.
pub fn is_definition(value: &Zval) -> bool {
    Object::from_value(value).is_some_and(|object| object.instance_of(CLASS.get()))
}

/// Returns the name of a `ToolDefinition`.
pub fn name_of(definition: &Zval) -> std::result::Result<String, Failure> {
    match Object::from_value(definition) {
        Some(object) => Ok(object
            .get(CLASS.get(), "name")?
            .string()
            .unwrap_or_default()),
        None => Ok(String::new()),
    }
}

/// Converts a PHP object to a definition of the engine; `None` if the value is not a
/// `ToolDefinition`.
pub fn definition_of(value: &Zval) -> std::result::Result<Option<ToolDefinition>, Failure> {
    match Object::from_value(value) {
        Some(object) if object.instance_of(CLASS.get()) => read(object).map(Some),
        _ => Ok(None),
    }
}

fn read(this: Object<'_>) -> std::result::Result<ToolDefinition, Failure> {
    let property = |name: &str| this.get(CLASS.get(), name);
    let text = |name: &str| Ok::<_, Failure>(property(name)?.string().unwrap_or_default());
    let builder = ToolDefinition::builder(text("name")?, text("description")?);
    with_parameters(builder, to_value(&property("parameters")?)?)?
        .strict(property("strict")?.bool().unwrap_or_default())
        .category(text("category")?)
        .requires_confirmation(property("requiresConfirmation")?.bool().unwrap_or_default())
        .cooldown(seconds(
            "cooldownSeconds",
            property("cooldownSeconds")?.double().unwrap_or_default(),
        )?)
        .build()
        .map_err(|error| exception::invalid_input(error.to_string()))
}

/// An empty map is a `stdClass`, because the formats are meant to be sent as JSON.
fn format(call: &MethodCall<'_>, provider: Provider) -> Outcome {
    let definition = read(call.this())?;
    let format = format_tool(provider, &definition, StrictFlag::Always);
    decode_value(&format, EmptyObject::StdClass)
}

fn to_open_ai_format(call: &mut MethodCall<'_>) -> Outcome {
    format(call, Provider::OpenAiChat)
}

fn to_responses_format(call: &mut MethodCall<'_>) -> Outcome {
    format(call, Provider::OpenAiResponses)
}

fn to_google_format(call: &mut MethodCall<'_>) -> Outcome {
    format(call, Provider::Google)
}

fn to_anthropic_format(call: &mut MethodCall<'_>) -> Outcome {
    format(call, Provider::Anthropic)
}

/// Returns the name, description, parameters and strict flag, with the parameters unchanged.
fn to_array(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let property = |name: &str| this.get(CLASS.get(), name);
    Ok(array_of([
        ("name", property("name")?),
        ("description", property("description")?),
        ("parameters", property("parameters")?),
        ("strict", property("strict")?),
    ]))
}
