//! `ToolDefinition`: the definition of a tool.

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_core::tool::{ToolDefinition, ToolDefinitionBuilder, ToolParameter};
use pillion_providers::{Provider, StrictFlag, format_tool};
use serde_json::{Value, json};

use crate::duration::parse_seconds;
use crate::exception;
use crate::json::{EmptyObject, decode_value, to_value, to_value_as};
use crate::signature;
use crate::signature::{Signature, SignatureOverrides, Target};
use crate::zend::{
    Class, ClassSlot, Failure, MethodCall, Object, Outcome, Result, create, methods, new_array,
    new_bool, new_float, new_string,
};

pub const NAME: &str = "Pillion\\ToolDefinition";
static CLASS: ClassSlot = ClassSlot::new();

pub fn register() -> ZendResult<()> {
    methods!(
        Class::new(NAME)
            .properties(&[
                "readonly string $name",
                "readonly string $description",
                "readonly array $parameters",
                "readonly bool $strict",
                "readonly string $category",
                "readonly bool $requiresConfirmation",
                "readonly float $cooldownSeconds",
            ])
            // The property that specifies how arguments are converted to the parameters of the PHP
            // code. Only `fromCallable()` sets the property.
            .property("private ?array $binding = null"),
        "static fromCallable(object|array|string $callable, ?string $name = null, \
         ?string $description = null): Pillion\\ToolDefinition" => from_callable,
        "__construct(string $name, string $description, array $parameters = [], \
         bool $strict = false, string $category = 'general', bool $requiresConfirmation = false, \
         int|float $cooldownSeconds = 0)" => construct,
        "toOpenAiFormat(): array" => to_open_ai_format,
        "toOpenAiResponsesFormat(): array" => to_responses_format,
        "toGoogleFormat(): array" => to_google_format,
        "toAnthropicFormat(): array" => to_anthropic_format,
        "toArray(): array" => to_array,
    )
    .register(&CLASS)
}

/// Creates a `ToolDefinition`. The parameters are a JSON Schema, which is kept unchanged, or a list
/// of parameters, which is converted to a schema.
fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let name = call.string(0)?;
    let description = call.string(1)?;
    let parameters = call.optional_array(2)?;
    let is_strict = call.bool_or(3, false)?;
    let category = call.string_or(4, "general")?;
    let requires_confirmation = call.bool_or(5, false)?;
    let cooldown = parse_seconds("cooldownSeconds", call.number_or(6, 0.0)?)?;

    let parameter_value = parameters.map_or(Ok(json!([])), |value| {
        to_value_as("argument $parameters", value)
    })?;
    let is_list = is_parameter_list(&parameter_value);
    let definition = with_parameters(ToolDefinition::builder(name, description), parameter_value)?
        .strict(is_strict)
        .category(category)
        .requires_confirmation(requires_confirmation)
        .cooldown(cooldown)
        .build()
        .map_err(|error| exception::invalid_input(error.to_string()))?;
    let displayed_parameters = match parameters {
        Some(schema) if !is_list => schema.shallow_clone(),
        _ => decode_value(definition.input_schema(), EmptyObject::Array)?,
    };
    set_properties(call.this(), &definition, displayed_parameters);
    Ok(Zval::new())
}

/// Returns whether the parameters are a list rather than a JSON Schema. An empty array is an empty
/// list.
fn is_parameter_list(parameter_value: &Value) -> bool {
    parameter_value.is_array()
}

fn with_parameters(builder: ToolDefinitionBuilder, value: Value) -> Result<ToolDefinitionBuilder> {
    if !is_parameter_list(&value) {
        return Ok(builder.schema(value));
    }
    let parameters: Vec<ToolParameter> = serde_json::from_value(value).map_err(|error| {
        exception::invalid_input(format!("The parameters are not valid: {error}"))
    })?;
    Ok(builder.parameters(parameters))
}

fn set_properties(this: Object<'_>, definition: &ToolDefinition, parameters: Zval) {
    let requires_confirmation = new_bool(definition.requires_confirmation());
    let cooldown = new_float(definition.cooldown().as_secs_f64());
    let values = [
        ("name", new_string(definition.name().as_str())),
        ("description", new_string(definition.description())),
        ("parameters", parameters),
        ("strict", new_bool(definition.strict())),
        ("category", new_string(definition.category())),
        ("requiresConfirmation", requires_confirmation),
        ("cooldownSeconds", cooldown),
    ];
    this.set_all(CLASS.get(), values);
}

/// Creates a `ToolDefinition` for a definition of the engine.
pub fn new_definition(definition: &ToolDefinition) -> Outcome {
    let parameters = decode_value(definition.input_schema(), EmptyObject::Array)?;
    create(CLASS.get(), |this| {
        set_properties(this, definition, parameters);
    })
}

/// Creates a `ToolDefinition` from the signature of PHP code, with the binding that converts
/// arguments to the parameters of the code.
pub fn new_from_signature(signature: &Signature) -> Outcome {
    let value = new_definition(&signature.definition)?;
    if let Some(object) = Object::from_value(&value) {
        object.set(CLASS.get(), "binding", signature.binding_value());
    }
    Ok(value)
}

/// Returns the binding that converts a call's arguments to parameters; `None` if the PHP code
/// receives all arguments as one array.
pub fn read_binding(definition: &Zval) -> Result<Option<Zval>> {
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
    new_from_signature(&signature::read_signature(&target, &overrides)?)
}

/// Returns whether a value is a `ToolDefinition`.
pub fn is_definition(value: &Zval) -> bool {
    Object::from_instance(value, CLASS.get()).is_some()
}

/// Returns the name of a `ToolDefinition`.
pub fn read_name(definition: &Zval) -> Result<String> {
    let Some(object) = Object::from_value(definition) else {
        return Ok(String::new());
    };
    let name = object.get(CLASS.get(), "name")?;
    Ok(name.string().unwrap_or_default())
}

/// Converts a `ToolDefinition` to a definition of the engine; returns `None` for any other value.
pub fn to_tool_definition(value: &Zval) -> Result<Option<ToolDefinition>> {
    Object::from_instance(value, CLASS.get())
        .map(read_definition)
        .transpose()
}

fn read_definition(this: Object<'_>) -> Result<ToolDefinition> {
    let property = |name: &str| this.get(CLASS.get(), name);
    let text = |name: &str| Ok::<_, Failure>(property(name)?.string().unwrap_or_default());
    let builder = ToolDefinition::builder(text("name")?, text("description")?);
    with_parameters(builder, to_value(&property("parameters")?)?)?
        .strict(property("strict")?.bool().unwrap_or_default())
        .category(text("category")?)
        .requires_confirmation(property("requiresConfirmation")?.bool().unwrap_or_default())
        .cooldown(parse_seconds(
            "cooldownSeconds",
            property("cooldownSeconds")?.double().unwrap_or_default(),
        )?)
        .build()
        .map_err(|error| exception::invalid_input(error.to_string()))
}

/// Returns the definition in a provider's format. An empty map is a `stdClass`, so that
/// `json_encode` writes `{}`.
fn format(call: &MethodCall<'_>, provider: Provider) -> Outcome {
    let definition = read_definition(call.this())?;
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

/// Returns the definition's name, description, parameters and strict flag, with the parameters
/// unchanged.
fn to_array(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let property = |name: &str| this.get(CLASS.get(), name);
    Ok(new_array([
        ("name", property("name")?),
        ("description", property("description")?),
        ("parameters", property("parameters")?),
        ("strict", property("strict")?),
    ]))
}
