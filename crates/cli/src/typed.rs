//! Converts text from the command line or a form to the JSON type that a schema requires.

use std::fmt;

use serde_json::Value;

/// The JSON types that a schema allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SchemaTypes {
    null: bool,
    boolean: bool,
    integer: bool,
    number: bool,
    string: bool,
    array: bool,
    object: bool,
}

/// Maximum depth of references and alternatives.
const MAX_DEPTH: usize = 8;

/// Maximum number of subschemas: a recursive schema could have any number.
const MAX_INSPECTED: usize = 1000;

/// Converts `text` to a value of `schema`, which is a part of `root`. If the schema names no type,
/// valid JSON is parsed, and other text becomes a string.
///
/// # Errors
/// The types that the schema allows.
pub(super) fn value(text: &str, schema: &Value, root: &Value) -> Result<Value, SchemaTypes> {
    let kinds = SchemaTypes::of(schema, root);
    let json = serde_json::from_str::<Value>(text);
    if kinds == SchemaTypes::default() {
        return Ok(json.unwrap_or_else(|_| Value::String(text.to_owned())));
    }
    match json {
        // Text in quotation marks stays as written, including the quotation marks.
        Ok(json) if !json.is_string() && kinds.allow(&json) => Ok(json),
        _ if kinds.string => Ok(Value::String(text.to_owned())),
        _ => Err(kinds),
    }
}

impl SchemaTypes {
    /// Returns the types of a schema, including those of its alternatives and references.
    pub(super) fn of(schema: &Value, root: &Value) -> Self {
        let mut kinds = Self::default();
        kinds.collect(schema, root, MAX_DEPTH, &mut { MAX_INSPECTED });
        kinds
    }

    pub(super) fn allows_array(self) -> bool {
        self.array
    }

    fn collect(&mut self, schema: &Value, root: &Value, depth: usize, left: &mut usize) {
        let (Some(deeper), Some(fewer)) = (depth.checked_sub(1), left.checked_sub(1)) else {
            return;
        };
        *left = fewer;
        match &schema["type"] {
            Value::String(name) => self.add(name),
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .for_each(|name| self.add(name)),
            _ => {}
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            for member in schema[keyword].as_array().into_iter().flatten() {
                self.collect(member, root, deeper, left);
            }
        }
        let pointer = schema["$ref"]
            .as_str()
            .and_then(|target| target.strip_prefix('#'));
        if let Some(target) = pointer.and_then(|pointer| root.pointer(pointer)) {
            self.collect(target, root, deeper, left);
        }
        if schema.get("type").is_none() {
            let values = schema["enum"].as_array().into_iter().flatten();
            for value in values.chain(schema.get("const")) {
                self.add(name_of(value));
            }
        }
    }

    fn add(&mut self, name: &str) {
        match name {
            "null" => self.null = true,
            "boolean" => self.boolean = true,
            "integer" => self.integer = true,
            "number" => self.number = true,
            "string" => self.string = true,
            "array" => self.array = true,
            "object" => self.object = true,
            _ => {}
        }
    }

    fn allow(self, value: &Value) -> bool {
        match value {
            Value::Null => self.null,
            Value::Bool(_) => self.boolean,
            Value::Number(number) => {
                let is_whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
                self.number || (self.integer && is_whole)
            }
            Value::String(_) => self.string,
            Value::Array(_) => self.array,
            Value::Object(_) => self.object,
        }
    }
}

impl fmt::Display for SchemaTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (self.integer, "an integer"),
            (self.number, "a number"),
            (self.boolean, "true or false"),
            (self.array, "a JSON array"),
            (self.object, "a JSON object"),
            (self.string, "a string"),
            (self.null, "null"),
        ];
        let names = names
            .iter()
            .filter(|(allowed, _)| *allowed)
            .map(|(_, name)| *name);
        f.write_str(&names.collect::<Vec<_>>().join(" or "))
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_schema_decides_the_type_of_a_word() {
        let root = json!({"$defs": {"Count": {"type": "integer"}}});
        let cases = [
            ("5", json!({"type": "string"}), json!("5")),
            ("5", json!({"type": "integer"}), json!(5)),
            ("5.0", json!({"type": "integer"}), json!(5.0)),
            ("true", json!({"type": "boolean"}), json!(true)),
            ("true", json!({"type": "string"}), json!("true")),
            (
                "null",
                json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
                Value::Null,
            ),
            ("5", json!({"type": ["string", "number"]}), json!(5)),
            ("x", json!({"type": ["string", "number"]}), json!("x")),
            ("7", json!({"$ref": "#/$defs/Count"}), json!(7)),
            ("[1]", json!({"type": "array"}), json!([1])),
            ("a", json!({"enum": ["a", "b"]}), json!("a")),
            ("\"a\"", json!({"type": "string"}), json!("\"a\"")),
            ("5", json!({}), json!(5)),
            ("five", json!({}), json!("five")),
            ("", json!({"type": "string"}), json!("")),
        ];
        for (text, schema, expected) in cases {
            assert_eq!(
                value(text, &schema, &root),
                Ok(expected),
                "{text} as {schema}"
            );
        }
    }

    #[test]
    fn a_value_of_another_type_is_rejected() {
        let refused = |text, schema: Value| value(text, &schema, &schema).unwrap_err().to_string();
        assert_eq!(refused("x", json!({"type": "integer"})), "an integer");
        assert_eq!(refused("1.5", json!({"type": "integer"})), "an integer");
        assert_eq!(
            refused("1", json!({"type": ["boolean", "null"]})),
            "true or false or null"
        );
    }

    #[test]
    fn a_recursive_schema_ends() {
        let root =
            json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}});
        assert_eq!(
            SchemaTypes::of(&json!({"$ref": "#/$defs/a"}), &root),
            SchemaTypes::default()
        );
        let wide = json!({"$defs": {"a": {"anyOf": vec![json!({"$ref": "#/$defs/a"}); 100]}}});
        assert_eq!(
            SchemaTypes::of(&json!({"$ref": "#/$defs/a"}), &wide),
            SchemaTypes::default()
        );
    }
}
