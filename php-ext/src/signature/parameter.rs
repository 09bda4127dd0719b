use pillion_core::tool::JsonObject;
use serde_json::Value;

use super::attributes;
use super::doc_comment::DocComment;
use super::doc_type;
use super::php_type::{PhpType, UnsupportedType};
use super::reflection::{ReflectionObject, find_attribute};
use crate::exception;
use crate::json::{to_value, to_value_as};
use crate::zend::{Object, Result};

/// A parameter of a tool's PHP code.
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) schema: JsonObject,
    pub(super) is_required: bool,
    /// The conversion of arguments to the parameter; see [`PhpType::conversion`].
    pub(super) conversion: Option<String>,
}

/// Reads a parameter from a `ReflectionParameter`. `function` is the name of the parameter's
/// function, for error messages.
pub(super) fn read_parameter(
    function: &str,
    reflection: &ReflectionObject,
    doc: &DocComment,
) -> Result<Parameter> {
    let name = reflection.name()?;
    let invalid_parameter = |reason: &str| {
        exception::invalid_input(format!("Parameter ${name} of {function} {reason}"))
    };
    if reflection.call_bool("isVariadic")? {
        return Err(invalid_parameter("is variadic: take an array instead"));
    }
    if reflection.call_bool("isPassedByReference")? {
        return Err(invalid_parameter("is passed by reference"));
    }
    let declared_type = match PhpType::read(reflection.call_object("getType")?.as_ref()) {
        Ok(declared_type) => declared_type,
        Err(UnsupportedType::Failed(failure)) => return Err(failure),
        Err(UnsupportedType::Type(kind)) => {
            return Err(invalid_parameter(&format!(
                "has the type {kind}: use int, float, string, bool, array, a backed enum, \
                 or a union of these types"
            )));
        }
    };
    let conversion = declared_type.conversion();
    let documented_schema = doc.parameter_type(&name).and_then(doc_type::parse_schema);
    let mut schema = match declared_type.into_schema(documented_schema) {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let attribute_object = find_attribute(reflection, attributes::PARAMETER)?;
    let attribute = attribute_object.as_ref().and_then(Object::from_value);
    let description = match attribute {
        Some(attribute) => attributes::read_description(attribute)?.string(),
        None => None,
    };
    let documented_description = || doc.parameter_description(&name).map(str::to_owned);
    if let Some(description) = description.or_else(documented_description) {
        schema.insert("description".to_owned(), description.into());
    }
    for (keyword, value) in attribute.map_or(Ok(Vec::new()), attributes::read_constraints)? {
        match (keyword, to_value(&value)?) {
            (attributes::WHOLE_SCHEMA, Value::Object(whole_schema)) => schema.extend(whole_schema),
            (attributes::WHOLE_SCHEMA, _) => {
                return Err(invalid_parameter(
                    "has a schema that is not an array with string keys",
                ));
            }
            (keyword, value) => {
                schema.insert(keyword.to_owned(), value);
            }
        }
    }
    let is_required = !reflection.call_bool("isOptional")?;
    if !is_required && reflection.call_bool("isDefaultValueAvailable")? {
        let default_value = reflection.call("getDefaultValue", [])?;
        let default_json =
            to_value_as(&format!("default of ${name} of {function}"), &default_value)?;
        if !default_json.is_null() {
            schema.insert("default".to_owned(), default_json);
        }
    }
    Ok(Parameter {
        name,
        schema,
        is_required,
        conversion,
    })
}
