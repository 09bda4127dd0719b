use pillion_core::tool::JsonObject;
use serde_json::Value;

use super::attributes;
use super::doc_comment::DocComment;
use super::doc_type;
use super::php_type::{PhpType, UnsupportedType};
use super::reflection::{ReflectionObject, attribute_of};
use crate::exception;
use crate::json::{to_value, to_value_as};
use crate::zend::{Failure, Object};

/// A parameter of a tool's PHP code.
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) schema: JsonObject,
    pub(super) required: bool,
    /// The conversion of arguments to the parameter; see [`PhpType::kind`].
    pub(super) kind: Option<String>,
}

/// Reads a parameter from a `ReflectionParameter`. `function` is the name of its function in error
/// messages.
pub(super) fn read(
    function: &str,
    reflected: &ReflectionObject,
    comment: &DocComment,
) -> Result<Parameter, Failure> {
    let name = reflected.name()?;
    let invalid =
        |why: &str| exception::invalid_input(format!("Parameter ${name} of {function} {why}"));
    if reflected.call_bool("isVariadic")? {
        return Err(invalid("is variadic: take an array instead"));
    }
    if reflected.call_bool("isPassedByReference")? {
        return Err(invalid("is passed by reference"));
    }
    let declared = match PhpType::read(reflected.object("getType")?.as_ref()) {
        Ok(declared) => declared,
        Err(UnsupportedType::Failed(failure)) => return Err(failure),
        Err(UnsupportedType::Type(kind)) => {
            return Err(invalid(&format!(
                "has the type {kind}: int, float, string, bool, array, backed enums and unions of them can be a tool's"
            )));
        }
    };
    let kind = declared.kind();
    let documented = comment.type_of(&name).and_then(doc_type::schema_of);
    let mut schema = match declared.schema(documented) {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let found = attribute_of(reflected, attributes::PARAMETER)?;
    let attribute = found.as_ref().and_then(Object::from_value);
    let description = match attribute {
        Some(attribute) => attributes::description_of(attribute)?.string(),
        None => None,
    };
    let documented = || comment.description_of(&name).map(str::to_owned);
    if let Some(description) = description.or_else(documented) {
        schema.insert("description".to_owned(), description.into());
    }
    for (keyword, value) in attribute.map_or(Ok(Vec::new()), attributes::constraints_of)? {
        match (keyword, to_value(&value)?) {
            (attributes::WHOLE_SCHEMA, Value::Object(more)) => schema.extend(more),
            (attributes::WHOLE_SCHEMA, _) => return Err(invalid("has a schema that is not a map")),
            (keyword, value) => {
                schema.insert(keyword.to_owned(), value);
            }
        }
    }
    let required = !reflected.call_bool("isOptional")?;
    if !required && reflected.call_bool("isDefaultValueAvailable")? {
        let default = reflected.call("getDefaultValue", [])?;
        let default = to_value_as(&format!("default of ${name} of {function}"), &default)?;
        if !default.is_null() {
            schema.insert("default".to_owned(), default);
        }
    }
    Ok(Parameter {
        name,
        schema,
        required,
        kind,
    })
}
