//! Derives a tool from the signature and the doc comment of PHP code: its name, its description,
//! the JSON Schema of its parameters, and the conversion of arguments to parameters.

pub mod attributes;
mod doc_comment;
mod doc_type;
mod parameter;
mod php_type;
mod reflection;
mod target;

use ext_php_rs::types::Zval;
use pillion_core::tool::{ToolDefinition, ToolDefinitionBuilder};
use serde_json::{Map, Value, json};

use crate::duration::parse_seconds;
use crate::exception;
use crate::zend::{
    Failure, Object, Result, empty_array, entries, member, new_array, new_string, with_entries,
};
use doc_comment::DocComment;
use reflection::find_attribute;
pub use reflection::find_attributed;
pub use target::Target;

/// The names of the parameters of a tool's PHP code, each with the conversion of its argument. A
/// conversion is the name of an enum, or `int` for a whole number; `None` if the argument is passed
/// unchanged.
pub type Binding = Vec<(String, Option<String>)>;

/// A function, method or class of PHP code as a tool.
pub struct Signature {
    /// The definition of the tool for the model.
    pub definition: ToolDefinition,
    /// The parameters of the PHP code, each with the conversion of its argument.
    pub binding: Binding,
}

/// The name and the description that the application specifies for a tool. They override the name
/// and the description in the PHP code.
#[derive(Default)]
pub struct SignatureOverrides<'a> {
    pub name: Option<&'a str>,
    pub description: Option<&'a str>,
}

impl Signature {
    /// Returns the binding as a PHP value: an array from the name of each parameter to the
    /// conversion of its argument, or to null if there is no conversion.
    pub fn binding_value(&self) -> Zval {
        new_array(self.binding.iter().map(|(name, conversion)| {
            let conversion_value = conversion.as_ref().map_or_else(Zval::new, new_string);
            (name.as_str(), conversion_value)
        }))
    }
}

/// Converts the arguments of a call to the parameters of PHP code, in the order of the parameters.
/// `binding` is a result of [`Signature::binding_value`].
///
/// - Unknown arguments are omitted.
/// - The value of an enum becomes the enum case.
/// - A whole number becomes an integer, because JSON Schema treats `5.0` as an integer.
///
/// # Errors
/// An `InvalidInputException` that names an argument which does not fit into a PHP integer. An
/// exception of PHP code that runs during the conversion, such as an autoloader.
pub fn bind(binding: &Zval, arguments: &Zval) -> Result<Zval> {
    let mut parameter_values = Vec::new();
    for (key, conversion) in entries(binding) {
        let Some(name) = key.string() else {
            continue;
        };
        let Some(argument) = member(arguments, &name) else {
            continue;
        };
        let value = match conversion.str() {
            Some(php_type::INTEGER) => php_type::to_integer(&name, &argument)?,
            Some(class) => php_type::to_enum_case(class, &argument)?,
            None => argument,
        };
        parameter_values.push((name, value));
    }
    Ok(with_entries(&empty_array(), parameter_values))
}

/// Reads the signature of PHP code.
///
/// # Errors
/// An `InvalidInputException` that names the code and the part that cannot be expressed as a tool.
/// An exception of PHP code that runs while the signature is read, such as an autoloader.
pub fn read_signature(target: &Target, overrides: &SignatureOverrides<'_>) -> Result<Signature> {
    let function = &target.function;
    let comment = DocComment::parse(&function.call_string("getDocComment")?.unwrap_or_default());
    let attribute_object = match find_attribute(function, attributes::AS_TOOL)? {
        Some(attribute) => Some(attribute),
        None => target.attribute()?,
    };
    let attribute = attribute_object.as_ref().and_then(Object::from_value);
    let invalid_tool =
        |reason: &str| exception::invalid_input(format!("{} {reason}", target.label));
    let attribute_value = |key: &str| match attribute {
        Some(attribute) => Ok::<_, Failure>(attributes::tool_property(attribute, key)?.string()),
        None => Ok(None),
    };
    let override_or_attribute = |value: Option<&str>, key: &str| match value {
        Some(value) => Ok(Some(value.to_owned())),
        None => attribute_value(key),
    };
    let name = override_or_attribute(overrides.name, "name")?
        .or_else(|| target.name.clone())
        .ok_or_else(|| {
            invalid_tool("has no name: set a name with #[Pillion\\AsTool(name: '...')]")
        })?;
    let function_description =
        override_or_attribute(overrides.description, "description")?.or(comment.summary.clone());
    let description = match function_description {
        Some(description) => Some(description),
        None => target.summary()?,
    }
    .ok_or_else(|| {
        invalid_tool(
            "has no description: write a doc comment, or #[Pillion\\AsTool(description: '...')]",
        )
    })?;
    let is_strict = match attribute {
        Some(attribute) => attributes::tool_property(attribute, "strict")?.bool() == Some(true),
        None => false,
    };
    let (schema, binding) = read_parameters(target, &comment, is_strict)?;
    let mut builder = ToolDefinition::builder(name, description).schema(schema);
    if let Some(attribute) = attribute {
        builder = with_attribute(builder, attribute)?;
    }
    let definition = builder
        .build()
        .map_err(|error| invalid_tool(&format!("cannot be a tool: {error}")))?;
    Ok(Signature {
        definition,
        binding,
    })
}

fn with_attribute(
    builder: ToolDefinitionBuilder,
    attribute: Object<'_>,
) -> Result<ToolDefinitionBuilder> {
    let property = |name: &str| attributes::tool_property(attribute, name);
    let is_set = |name: &str| Ok::<_, Failure>(property(name)?.bool() == Some(true));
    let cooldown_seconds = property("cooldownSeconds")?.double().unwrap_or_default();
    Ok(builder
        .category(property("category")?.string().unwrap_or_default())
        .requires_confirmation(is_set("requiresConfirmation")?)
        .cooldown(parse_seconds("cooldownSeconds", cooldown_seconds)?)
        .strict(is_set("strict")?))
}

fn read_parameters(target: &Target, doc: &DocComment, is_strict: bool) -> Result<(Value, Binding)> {
    let mut properties = Map::new();
    let mut required_names = Vec::new();
    let mut binding = Vec::new();
    for reflection in target.function.call_list("getParameters")? {
        let parameter = parameter::read_parameter(&target.label, &reflection, doc)?;
        if parameter.is_required {
            required_names.push(Value::from(parameter.name.as_str()));
        }
        properties.insert(parameter.name.clone(), Value::Object(parameter.schema));
        binding.push((parameter.name, parameter.conversion));
    }
    let mut schema =
        json!({"type": "object", "properties": properties, "required": required_names});
    if is_strict {
        // `additionalProperties` is set to false, because OpenAI's strict mode requires it.
        schema["additionalProperties"] = false.into();
    }
    Ok((schema, binding))
}
