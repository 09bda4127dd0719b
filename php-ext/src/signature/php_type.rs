use ext_php_rs::ffi::{IS_LONG, IS_STRING};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use serde_json::{Value, json};

use super::doc_type::{create_any_schema, create_union_schema};
use super::reflection::{ReflectionObject, find_class};
use crate::exception;
use crate::json::to_value;
use crate::zend::{Failure, Outcome, Result, call_callable, new_int, new_string};

/// The smallest integer of PHP.
const MIN_INTEGER: f64 = -9_223_372_036_854_775_808.0;

/// The declared type of a PHP parameter.
#[derive(Default)]
pub(super) struct PhpType {
    pub(super) schemas: Vec<Value>,
    /// The name of the backed enum in the type, if there is one.
    pub(super) enum_name: Option<String>,
    /// Whether the type allows null.
    pub(super) is_nullable: bool,
    /// Whether the type allows any value.
    pub(super) is_any_type: bool,
}

/// The reason why a type cannot be the type of a tool's parameter.
pub(super) enum UnsupportedType {
    /// The type is not supported. Contains the type as PHP writes it.
    Type(String),
    /// Reading the type has failed.
    Failed(Failure),
}

impl From<Failure> for UnsupportedType {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The conversion in a [`Binding`](super::Binding) for arguments that are integers.
pub(super) const INTEGER: &str = "int";

impl PhpType {
    /// Reads a type from a `ReflectionType`. A parameter without a type allows any value.
    pub(super) fn read(reflection: Option<&ReflectionObject>) -> Result<Self, UnsupportedType> {
        let Some(reflection) = reflection else {
            return Ok(Self {
                is_any_type: true,
                ..Self::default()
            });
        };
        let mut php_type = Self::default();
        if reflection.is_instance("ReflectionUnionType") {
            for member in reflection.call_list("getTypes")? {
                php_type.add_named_type(&member)?;
            }
        } else if reflection.is_instance("ReflectionNamedType") {
            php_type.add_named_type(reflection)?;
            php_type.is_nullable |= reflection.call_bool("allowsNull")? && !php_type.is_any_type;
        } else {
            return Err(UnsupportedType::Type(describe_type(reflection)?));
        }
        Ok(php_type)
    }

    fn add_named_type(&mut self, named_type: &ReflectionObject) -> Result<(), UnsupportedType> {
        let name = named_type.name()?;
        if !named_type.call_bool("isBuiltin")? {
            let (schema, enum_name) = read_enum(&name)?.ok_or(UnsupportedType::Type(name))?;
            // Two enums in one type are not supported, because the enum of a value would be
            // ambiguous.
            if self.enum_name.replace(enum_name).is_some() {
                return Err(UnsupportedType::Type(describe_type(named_type)?));
            }
            self.schemas.push(schema);
            return Ok(());
        }
        let json_type = match name.as_str() {
            "int" => "integer",
            "float" => "number",
            "string" => "string",
            "bool" | "false" | "true" => "boolean",
            "array" | "iterable" => "array",
            "null" => {
                self.is_nullable = true;
                return Ok(());
            }
            "mixed" => {
                self.is_any_type = true;
                return Ok(());
            }
            _ => return Err(UnsupportedType::Type(name)),
        };
        self.schemas.push(json!({ "type": json_type }));
        Ok(())
    }

    /// Returns the conversion of an argument to this type: the name of an enum, or [`INTEGER`].
    pub(super) fn conversion(&self) -> Option<String> {
        let is_integer = self.has_schema_for_type("integer")
            && !self.has_schema_for_type("number")
            && !self.is_any_type;
        let integer_conversion = || is_integer.then(|| INTEGER.to_owned());
        self.enum_name.clone().or_else(integer_conversion)
    }

    /// Returns the JSON Schema of the type. The doc comment may provide a more precise schema.
    pub(super) fn into_schema(self, documented_schema: Option<Value>) -> Value {
        if self.is_any_type {
            return documented_schema.unwrap_or_else(create_any_schema);
        }
        let is_accepted = |documented_schema: &Value| {
            self.enum_name.is_none()
                && read_json_types(documented_schema)
                    .iter()
                    .all(|json_type| self.accepts(json_type))
        };
        let mut schemas = match documented_schema.filter(is_accepted) {
            Some(documented_schema) => vec![documented_schema],
            None => self.schemas,
        };
        let has_null = schemas
            .iter()
            .any(|schema| read_json_types(schema).contains(&"null"));
        if self.is_nullable && !has_null {
            if let [schema] = schemas.as_mut_slice() {
                if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
                    values.push(Value::Null);
                    schema["type"] = json!([schema["type"], "null"]);
                    return schemas.swap_remove(0);
                }
                let json_type = schema.get("type").and_then(Value::as_str);
                if let Some(json_type) = json_type.map(str::to_owned) {
                    schema["type"] = json!([json_type, "null"]);
                    return schemas.swap_remove(0);
                }
            }
            schemas.push(json!({"type": "null"}));
        }
        create_union_schema(schemas)
    }

    /// Returns whether the type accepts a value of this JSON type.
    fn accepts(&self, json_type: &str) -> bool {
        match json_type {
            "null" => self.is_nullable,
            "object" => self.has_schema_for_type("array"),
            "integer" => self.has_schema_for_type("integer") || self.has_schema_for_type("number"),
            json_type => self.has_schema_for_type(json_type),
        }
    }

    fn has_schema_for_type(&self, kind: &str) -> bool {
        self.schemas.iter().any(|schema| schema["type"] == kind)
    }
}

/// Returns the JSON types that a schema of [`doc_type`](super::doc_type) names.
fn read_json_types(schema: &Value) -> Vec<&str> {
    if let Some(members) = schema.get("anyOf").and_then(Value::as_array) {
        return members.iter().flat_map(read_json_types).collect();
    }
    match schema.get("type") {
        Some(Value::String(json_type)) => vec![json_type],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the values of a backed enum as a schema, and the enum's name. Returns `None` for any
/// other class.
fn read_enum(name: &str) -> Result<Option<(Value, String)>> {
    let Some(class) = find_class(name)? else {
        return Ok(None);
    };
    if !class.flags().contains(ClassFlags::Enum) {
        return Ok(None);
    }
    let json_type = match class.enum_backing_type {
        IS_LONG => "integer",
        IS_STRING => "string",
        _ => return Ok(None),
    };
    let cases = call_callable(&new_string(format!("{name}::cases")), [])?;
    // The schema of a backed enum is the list of its values.
    let values = to_value(&cases)?;
    let schema = json!({"type": json_type, "enum": values});
    Ok(Some((schema, name.to_owned())))
}

/// Converts an argument that is a whole number to an integer. Values of other types stay unchanged.
pub(super) fn to_integer(name: &str, value: &Zval) -> Outcome {
    let Some(number) = value.double() else {
        return Ok(value.shallow_clone());
    };
    to_exact_integer(number).map(new_int).ok_or_else(|| {
        exception::invalid_input(if number.fract() == 0.0 {
            format!("Invalid value for {name}: the value is beyond 64 bits")
        } else {
            format!("Invalid type for {name}: expected integer")
        })
    })
}

#[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
fn to_exact_integer(number: f64) -> Option<i64> {
    let is_representable = number.fract() == 0.0 && (MIN_INTEGER..-MIN_INTEGER).contains(&number);
    is_representable.then_some(number as i64)
}

/// Returns the enum case whose value is the argument. If there is no such case, returns the
/// argument itself, which PHP then rejects with its own error.
pub(super) fn to_enum_case(class: &str, value: &Zval) -> Outcome {
    let backing_type = find_class(class)?.map_or(0, |class| class.enum_backing_type);
    let integer = value
        .double()
        .and_then(to_exact_integer)
        .filter(|_| backing_type == IS_LONG)
        .map(new_int);
    let argument = &integer.unwrap_or_else(|| value.shallow_clone());
    let is_backing_type = match backing_type {
        IS_LONG => argument.is_long(),
        IS_STRING => argument.is_string(),
        _ => false,
    };
    if is_backing_type {
        let name = new_string(format!("{class}::tryFrom"));
        let case = call_callable(&name, [argument.shallow_clone()])?;
        if case.is_object() {
            return Ok(case);
        }
    }
    Ok(argument.shallow_clone())
}

fn describe_type(reflection: &ReflectionObject) -> Result<String> {
    Ok(reflection.call_string("__toString")?.unwrap_or_default())
}
