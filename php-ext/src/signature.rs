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

use crate::duration::seconds;
use crate::exception;
use crate::zend::{Failure, Object, array_of, entries, member, string_of};
use doc_comment::DocComment;
use reflection::attribute_of;
pub use reflection::find_attributed;
pub use target::Target;

/// The parameters of a tool's PHP code by name, each with the conversion of its argument: the name
/// of an enum, `int` for a whole number, or none.
pub type Binding = Vec<(String, Option<String>)>;

/// A function, method or class of PHP code as a tool.
pub struct Signature {
    /// The definition of the tool for the model.
    pub definition: ToolDefinition,
    /// The parameters of the PHP code, and the conversion of arguments to them.
    pub binding: Binding,
}

/// Values that the application specifies, and that override those in the PHP code.
#[derive(Default)]
pub struct SignatureOverrides<'a> {
    pub name: Option<&'a str>,
    pub description: Option<&'a str>,
}

impl Signature {
    /// Returns the binding as a PHP value: an array of names, each with the conversion of its
    /// argument or null.
    pub fn binding_value(&self) -> Zval {
        array_of(self.binding.iter().map(|(name, kind)| {
            let kind = kind.as_ref().map_or_else(Zval::new, string_of);
            (name.as_str(), kind)
        }))
    }
}

/// Converts the arguments of a call to parameters: in the order of the parameters, without unknown
/// ones, with enum cases in place of their values, and with whole numbers as integers (JSON Schema
/// treats `5.0` as an integer). `binding` comes from [`Signature::binding_value`].
///
/// # Errors
/// An `InvalidInputException` that names an argument which does not fit into a PHP integer. An
/// exception of PHP code that runs during the conversion, such as an autoloader.
pub fn bind(binding: &Zval, arguments: &Zval) -> Result<Zval, Failure> {
    let mut bound = Vec::new();
    for (name, kind) in entries(binding) {
        let Some(name) = name.string() else {
            continue;
        };
        let Some(value) = member(arguments, &name) else {
            continue;
        };
        let value = match kind.str() {
            Some(php_type::INTEGER) => php_type::to_integer(&name, &value)?,
            Some(class) => php_type::case_of(class, &value)?,
            None => value,
        };
        bound.push((name, value));
    }
    let bound = bound
        .iter()
        .map(|(name, value)| (name.as_str(), value.shallow_clone()));
    Ok(array_of(bound))
}

/// Reads the signature of PHP code.
///
/// # Errors
/// An `InvalidInputException` that names the code and the part that cannot be expressed as a tool.
/// An exception of PHP code that runs meanwhile, such as an autoloader.
pub fn read(target: &Target, overrides: &SignatureOverrides<'_>) -> Result<Signature, Failure> {
    let function = &target.function;
    let comment = DocComment::parse(&function.text("getDocComment")?.unwrap_or_default());
    let found = match attribute_of(function, attributes::AS_TOOL)? {
        Some(attribute) => Some(attribute),
        None => target.attribute()?,
    };
    let attribute = found.as_ref().and_then(Object::from_value);
    let invalid = |why: &str| exception::invalid_input(format!("{} {why}", target.label));
    let attribute_value = |key: &str| match attribute {
        Some(attribute) => Ok::<_, Failure>(attributes::tool_property(attribute, key)?.string()),
        None => Ok(None),
    };
    let specified = |value: Option<&str>, key: &str| match value {
        Some(value) => Ok(Some(value.to_owned())),
        None => attribute_value(key),
    };
    let name = specified(overrides.name, "name")?
        .or_else(|| target.name.clone())
        .ok_or_else(|| invalid("has no name: give it one with #[Pillion\\AsTool(name: '...')]"))?;
    let own_description =
        specified(overrides.description, "description")?.or(comment.summary.clone());
    let description = match own_description {
        Some(description) => Some(description),
        None => target.summary()?,
    }
    .ok_or_else(|| {
        invalid(
            "has no description: write a doc comment, or #[Pillion\\AsTool(description: '...')]",
        )
    })?;
    let strict = match attribute {
        Some(attribute) => attributes::tool_property(attribute, "strict")?.bool() == Some(true),
        None => false,
    };
    let (schema, binding) = parameters(target, &comment, strict)?;
    let mut builder = ToolDefinition::builder(name, description).schema(schema);
    if let Some(attribute) = attribute {
        builder = with_attribute(builder, attribute)?;
    }
    let definition = builder
        .build()
        .map_err(|error| invalid(&format!("cannot be a tool: {error}")))?;
    Ok(Signature {
        definition,
        binding,
    })
}

fn with_attribute(
    builder: ToolDefinitionBuilder,
    attribute: Object<'_>,
) -> Result<ToolDefinitionBuilder, Failure> {
    let property = |name: &str| attributes::tool_property(attribute, name);
    let yes = |name: &str| Ok::<_, Failure>(property(name)?.bool() == Some(true));
    let cooldown = property("cooldownSeconds")?.double().unwrap_or_default();
    Ok(builder
        .category(property("category")?.string().unwrap_or_default())
        .requires_confirmation(yes("requiresConfirmation")?)
        .cooldown(seconds("cooldownSeconds", cooldown)?)
        .strict(yes("strict")?))
}

fn parameters(
    target: &Target,
    comment: &DocComment,
    strict: bool,
) -> Result<(Value, Binding), Failure> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut binding = Vec::new();
    for reflected in target.function.list("getParameters")? {
        let parameter = parameter::read(&target.label, &reflected, comment)?;
        if parameter.required {
            required.push(Value::from(parameter.name.as_str()));
        }
        properties.insert(parameter.name.clone(), Value::Object(parameter.schema));
        binding.push((parameter.name, parameter.kind));
    }
    let mut schema = json!({"type": "object", "properties": properties, "required": required});
    if strict {
        // OpenAI's strict mode requires `additionalProperties`.
        schema["additionalProperties"] = false.into();
    }
    Ok((schema, binding))
}
