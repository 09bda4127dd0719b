//! What the signature and the doc comment of PHP code say about it as a tool: name,
//! description, a JSON Schema of its parameters, and how arguments become those again.

mod doc_comment;
mod doc_type;
mod parameter;
mod php_type;
mod reflection;
mod target;

use ext_php_rs::types::Zval;
use pillion_core::tool::{ToolDefinition, ToolDefinitionBuilder};
use serde_json::{Map, Value, json};

use crate::classes::attributes;
use crate::classes::tool_definition::seconds;
use crate::exception;
use crate::zend::{Failure, Object, array_of, entries, string_of};
use doc_comment::DocComment;
use reflection::attribute_of;
pub use reflection::attributed;
pub use target::Target;

/// The parameters of a tool's PHP code, by name, each with what its argument becomes: the
/// name of an enum, `int` for a whole number, or nothing else.
pub type Binding = Vec<(String, Option<String>)>;

/// PHP code as a tool.
pub struct Signature {
    /// What models read.
    pub definition: ToolDefinition,
    /// How arguments become parameters.
    pub binding: Binding,
}

/// What the caller says in place of the code itself.
#[derive(Default)]
pub struct Said<'a> {
    pub name: Option<&'a str>,
    pub description: Option<&'a str>,
}

impl Signature {
    /// The binding as a value: names as keys, each with what its argument becomes or null.
    pub fn binding_value(&self) -> Zval {
        array_of(self.binding.iter().map(|(name, kind)| {
            let kind = kind.as_ref().map_or_else(Zval::new, string_of);
            (name.as_str(), kind)
        }))
    }
}

/// Arguments of a call as parameters: in the order of the parameters, without those that
/// nobody takes, with the enums that values stand for, and with whole numbers as integers
/// (to JSON Schema `5.0` is one). `binding` is what [`Signature::binding_value`] gave.
///
/// # Errors
/// An `InvalidInputException` that names an argument which is no integer of PHP; what PHP code throws that runs meanwhile, such as an autoloader.
pub fn bind(binding: &Zval, arguments: &Zval) -> Result<Zval, Failure> {
    let mut bound = Vec::new();
    let table = arguments.array();
    for (name, kind) in binding.array().into_iter().flat_map(entries) {
        let Some(name) = name.string() else {
            continue;
        };
        let Some(value) = table.and_then(|table| table.get(name.as_str())) else {
            continue;
        };
        let value = match kind.dereference().str() {
            Some(php_type::WHOLE) => php_type::whole(&name, value)?,
            Some(class) => php_type::case_of(class, value)?,
            None => value.dereference().shallow_clone(),
        };
        bound.push((name, value));
    }
    let bound = bound
        .iter()
        .map(|(name, value)| (name.as_str(), value.shallow_clone()));
    Ok(array_of(bound))
}

/// Reads a signature.
///
/// # Errors
/// An `InvalidInputException` that names the code and what cannot be a tool about it; what
/// PHP code throws that runs meanwhile, such as an autoloader.
pub fn read(target: &Target, said: &Said<'_>) -> Result<Signature, Failure> {
    let function = &target.function;
    let comment = function.text("getDocComment")?.unwrap_or_default();
    let comment = DocComment::parse(&comment);
    let attribute = match attribute_of(function, attributes::AS_TOOL)? {
        Some(attribute) => Some(attribute),
        None => target.attribute()?,
    };
    let attribute = attribute.as_ref().and_then(Object::of);
    let refuse = |why: &str| exception::invalid_input(format!("{} {why}", target.label));
    let stated = |key: &str| match attribute {
        Some(attribute) => Ok::<_, Failure>(attributes::of_tool(attribute, key)?.string()),
        None => Ok(None),
    };
    let name = match said.name.map(str::to_owned) {
        Some(name) => Some(name),
        None => stated("name")?,
    };
    let name = name
        .or_else(|| target.name.clone())
        .ok_or_else(|| refuse("has no name: give it one with #[Pillion\\AsTool(name: '...')]"))?;
    let description = match said.description.map(str::to_owned) {
        Some(description) => Some(description),
        None => stated("description")?,
    };
    let description = match description.or(comment.summary.clone()) {
        Some(description) => Some(description),
        None => target.summary()?,
    };
    let description = description.ok_or_else(|| {
        refuse("has no description: write a doc comment, or #[Pillion\\AsTool(description: '...')]")
    })?;
    let strict = match attribute {
        Some(attribute) => attributes::of_tool(attribute, "strict")?.bool() == Some(true),
        None => false,
    };
    let (schema, binding) = parameters(target, &comment, strict)?;
    let mut builder = ToolDefinition::builder(name, description).schema(schema);
    if let Some(attribute) = attribute {
        builder = with_attribute(builder, attribute)?;
    }
    let definition = builder
        .build()
        .map_err(|error| refuse(&format!("cannot be a tool: {error}")))?;
    Ok(Signature {
        definition,
        binding,
    })
}

fn with_attribute(
    builder: ToolDefinitionBuilder,
    attribute: Object<'_>,
) -> Result<ToolDefinitionBuilder, Failure> {
    let property = |name: &str| attributes::of_tool(attribute, name);
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
        // OpenAI's strict mode wants it said.
        schema["additionalProperties"] = false.into();
    }
    Ok((schema, binding))
}
