use ext_php_rs::ffi::{IS_LONG, IS_STRING};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use serde_json::{Value, json};

use super::doc_type::{any_schema, one_of};
use super::reflection::{ReflectionObject, find_class};
use crate::exception;
use crate::json::to_value;
use crate::zend::{Failure, Outcome, call_callable, int_of, string_of};

/// The smallest integer of PHP.
const MIN_INTEGER: f64 = -9_223_372_036_854_775_808.0;

/// The declared type of a PHP parameter.
#[derive(Default)]
pub(super) struct PhpType {
    pub(super) schemas: Vec<Value>,
    /// The name of the backed enum in the type, if there is one.
    pub(super) enumeration: Option<String>,
    /// Whether the type allows null.
    pub(super) nullable: bool,
    /// Whether the type allows any value.
    pub(super) anything: bool,
}

/// The reason why a type cannot be the type of a tool's parameter.
pub(super) enum UnsupportedType {
    /// The type is not supported; PHP writes it like this.
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
    pub(super) fn read(declared: Option<&ReflectionObject>) -> Result<Self, UnsupportedType> {
        let Some(declared) = declared else {
            return Ok(Self {
                anything: true,
                ..Self::default()
            });
        };
        let mut read = Self::default();
        if declared.is("ReflectionUnionType") {
            for member in declared.list("getTypes")? {
                read.add(&member)?;
            }
        } else if declared.is("ReflectionNamedType") {
            read.add(declared)?;
            read.nullable |= declared.call_bool("allowsNull")? && !read.anything;
        } else {
            return Err(UnsupportedType::Type(describe_type(declared)?));
        }
        Ok(read)
    }

    fn add(&mut self, named: &ReflectionObject) -> Result<(), UnsupportedType> {
        let name = named.name()?;
        if !named.call_bool("isBuiltin")? {
            let (schema, class) = enumeration(&name)?.ok_or(UnsupportedType::Type(name))?;
            // Two enums in one type are not supported, because the enum of a value would be
            // ambiguous.
            if self.enumeration.replace(class).is_some() {
                return Err(UnsupportedType::Type(describe_type(named)?));
            }
            self.schemas.push(schema);
            return Ok(());
        }
        let kind = match name.as_str() {
            "int" => "integer",
            "float" => "number",
            "string" => "string",
            "bool" | "false" | "true" => "boolean",
            "array" | "iterable" => "array",
            "null" => {
                self.nullable = true;
                return Ok(());
            }
            "mixed" => {
                self.anything = true;
                return Ok(());
            }
            _ => return Err(UnsupportedType::Type(name)),
        };
        self.schemas.push(json!({ "type": kind }));
        Ok(())
    }

    /// Returns the conversion of an argument to this type: the name of an enum, or [`INTEGER`].
    pub(super) fn kind(&self) -> Option<String> {
        let is_whole =
            self.has_schema_of("integer") && !self.has_schema_of("number") && !self.anything;
        let whole = || is_whole.then(|| INTEGER.to_owned());
        self.enumeration.clone().or_else(whole)
    }

    /// Returns the JSON Schema of the type. The doc comment may provide a more precise schema.
    pub(super) fn schema(self, documented: Option<Value>) -> Value {
        if self.anything {
            return documented.unwrap_or_else(any_schema);
        }
        let fits = |documented: &Value| {
            self.enumeration.is_none() && types_of(documented).iter().all(|kind| self.accepts(kind))
        };
        let mut schemas = match documented.filter(fits) {
            Some(documented) => vec![documented],
            None => self.schemas,
        };
        let knows_null = schemas
            .iter()
            .any(|schema| types_of(schema).contains(&"null"));
        if self.nullable && !knows_null {
            if let [schema] = schemas.as_mut_slice() {
                if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
                    values.push(Value::Null);
                    schema["type"] = json!([schema["type"], "null"]);
                    return schemas.swap_remove(0);
                }
                let kind = schema.get("type").and_then(Value::as_str);
                if let Some(kind) = kind.map(str::to_owned) {
                    schema["type"] = json!([kind, "null"]);
                    return schemas.swap_remove(0);
                }
            }
            schemas.push(json!({"type": "null"}));
        }
        one_of(schemas)
    }

    /// Returns whether the type accepts a value of this JSON type.
    fn accepts(&self, kind: &str) -> bool {
        match kind {
            "null" => self.nullable,
            "object" => self.has_schema_of("array"),
            "integer" => self.has_schema_of("integer") || self.has_schema_of("number"),
            kind => self.has_schema_of(kind),
        }
    }

    fn has_schema_of(&self, kind: &str) -> bool {
        self.schemas.iter().any(|schema| schema["type"] == kind)
    }
}

/// Returns the JSON types that a schema of [`doc_type`](super::doc_type) names.
fn types_of(schema: &Value) -> Vec<&str> {
    if let Some(members) = schema.get("anyOf").and_then(Value::as_array) {
        return members.iter().flat_map(types_of).collect();
    }
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the values of a backed enum as a schema, and the enum's name. Returns `None` for any
/// other class.
fn enumeration(name: &str) -> Result<Option<(Value, String)>, Failure> {
    let Some(class) = find_class(name)? else {
        return Ok(None);
    };
    if !class.flags().contains(ClassFlags::Enum) {
        return Ok(None);
    }
    let kind = match class.enum_backing_type {
        IS_LONG => "integer",
        IS_STRING => "string",
        _ => return Ok(None),
    };
    let cases = call_callable(&string_of(format!("{name}::cases")), [])?;
    // Backed enums become their values.
    let values = to_value(&cases)?;
    let schema = json!({"type": kind, "enum": values});
    Ok(Some((schema, name.to_owned())))
}

/// Converts an argument that is a whole number to an integer. Values of other types stay unchanged.
pub(super) fn to_integer(name: &str, value: &Zval) -> Outcome {
    let Some(number) = value.double() else {
        return Ok(value.shallow_clone());
    };
    integer_of(number).map(int_of).ok_or_else(|| {
        exception::invalid_input(if number.fract() == 0.0 {
            format!("Invalid value for {name}: the value is beyond 64 bits")
        } else {
            format!("Invalid type for {name}: expected integer")
        })
    })
}

#[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
fn integer_of(number: f64) -> Option<i64> {
    let fits = number.fract() == 0.0 && (MIN_INTEGER..-MIN_INTEGER).contains(&number);
    fits.then_some(number as i64)
}

/// Returns the enum case of an argument, or the argument itself, which PHP then rejects with its
/// own error.
pub(super) fn case_of(class: &str, value: &Zval) -> Outcome {
    let backing = find_class(class)?.map_or(0, |class| class.enum_backing_type);
    let whole = value
        .double()
        .and_then(integer_of)
        .filter(|_| backing == IS_LONG)
        .map(int_of);
    let value = &whole.unwrap_or_else(|| value.shallow_clone());
    let fits = match backing {
        IS_LONG => value.is_long(),
        IS_STRING => value.is_string(),
        _ => false,
    };
    if fits {
        let name = string_of(format!("{class}::tryFrom"));
        let case = call_callable(&name, [value.shallow_clone()])?;
        if case.is_object() {
            return Ok(case);
        }
    }
    Ok(value.shallow_clone())
}

fn describe_type(declared: &ReflectionObject) -> Result<String, Failure> {
    Ok(declared.text("__toString")?.unwrap_or_default())
}
