//! Converts text from the command line or a form to the JSON type that a schema requires.

use std::fmt;

use serde_json::Value;

/// The JSON types and their descriptions, in the order in which error messages list the types.
const JSON_TYPES: [(&str, &str); 7] = [
    ("integer", "an integer"),
    ("number", "a number"),
    ("boolean", "true or false"),
    ("array", "a JSON array"),
    ("object", "a JSON object"),
    ("string", "a string"),
    ("null", "null"),
];

/// The JSON types that a schema allows: a flag for each of [`JSON_TYPES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SchemaTypes([bool; JSON_TYPES.len()]);

/// Maximum nesting depth of `$ref`, `anyOf`, `oneOf` and `allOf` that are followed in a schema.
const MAX_DEPTH: usize = 8;

/// Maximum number of subschemas that are read, because a recursive schema could have any number.
const MAX_SUBSCHEMAS: usize = 1000;

/// Converts `text` to a value of `schema`, which is a part of `root`. If the schema names no type,
/// valid JSON is parsed, and other text becomes a string.
///
/// # Errors
/// Returns the types that the schema allows, if `text` has none of them.
pub(super) fn parse_value(text: &str, schema: &Value, root: &Value) -> Result<Value, SchemaTypes> {
    let types = SchemaTypes::from_schema(schema, root);
    let json = serde_json::from_str::<Value>(text);
    if types == SchemaTypes::default() {
        return Ok(json.unwrap_or_else(|_| Value::String(text.to_owned())));
    }
    match json {
        // Text in quotation marks becomes a string that includes the quotation marks.
        Ok(json) if !json.is_string() && types.has_type_of(&json) => Ok(json),
        _ if types.has_type("string") => Ok(Value::String(text.to_owned())),
        _ => Err(types),
    }
}

/// Returns a string without quotation marks, and any other value as JSON.
pub(super) fn to_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

impl SchemaTypes {
    /// Returns the types of a schema, including the types of its `anyOf`, `oneOf` and `allOf`
    /// subschemas and of the schemas that `$ref` refers to.
    pub(super) fn from_schema(schema: &Value, root: &Value) -> Self {
        let mut types = Self::default();
        types.add_types(schema, root, MAX_DEPTH, &mut { MAX_SUBSCHEMAS });
        types
    }

    pub(super) fn has_type(self, name: &str) -> bool {
        let mut types = JSON_TYPES.iter().zip(self.0);
        types.any(|((type_name, _), is_allowed)| is_allowed && *type_name == name)
    }

    /// Adds the types of a schema. `budget` is the number of subschemas that can still be read.
    fn add_types(&mut self, schema: &Value, root: &Value, max_depth: usize, budget: &mut usize) {
        let (Some(inner_max_depth), Some(remaining_budget)) =
            (max_depth.checked_sub(1), budget.checked_sub(1))
        else {
            return;
        };
        *budget = remaining_budget;
        match &schema["type"] {
            Value::String(name) => self.add_type(name),
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .for_each(|name| self.add_type(name)),
            _ => {}
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            for member in schema[keyword].as_array().into_iter().flatten() {
                self.add_types(member, root, inner_max_depth, budget);
            }
        }
        let reference = schema["$ref"].as_str();
        let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
        if let Some(target) = pointer.and_then(|pointer| root.pointer(pointer)) {
            self.add_types(target, root, inner_max_depth, budget);
        }
        if schema.get("type").is_none() {
            let values = schema["enum"].as_array().into_iter().flatten();
            for value in values.chain(schema.get("const")) {
                self.add_type(type_name(value));
            }
        }
    }

    fn add_type(&mut self, name: &str) {
        let mut types = JSON_TYPES.iter();
        if let Some(index) = types.position(|(type_name, _)| *type_name == name) {
            self.0[index] = true;
        }
    }

    fn has_type_of(self, value: &Value) -> bool {
        let is_integral = value.as_f64().is_some_and(|number| number.fract() == 0.0);
        self.has_type(type_name(value)) || (is_integral && self.has_type("integer"))
    }
}

impl fmt::Display for SchemaTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = JSON_TYPES
            .iter()
            .zip(self.0)
            .filter(|(_, is_allowed)| *is_allowed)
            .map(|((_, description), _)| *description)
            .collect();
        f.write_str(&names.join(" or "))
    }
}

fn type_name(value: &Value) -> &'static str {
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
            let value = parse_value(text, &schema, &root);
            assert_eq!(value, Ok(expected), "{text} as {schema}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_rejected() {
        let reject =
            |text, schema: Value| parse_value(text, &schema, &schema).unwrap_err().to_string();
        assert_eq!(reject("x", json!({"type": "integer"})), "an integer");
        assert_eq!(reject("1.5", json!({"type": "integer"})), "an integer");
        let error = reject("1", json!({"type": ["boolean", "null"]}));
        assert_eq!(error, "true or false or null");
    }

    #[test]
    fn a_recursive_schema_ends() {
        let root =
            json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}});
        let (schema, no_types) = (json!({"$ref": "#/$defs/a"}), SchemaTypes::default());
        assert_eq!(SchemaTypes::from_schema(&schema, &root), no_types);
        let wide_root = json!({"$defs": {"a": {"anyOf": vec![json!({"$ref": "#/$defs/a"}); 100]}}});
        assert_eq!(SchemaTypes::from_schema(&schema, &wide_root), no_types);
    }
}
