use pillion_schema::CompiledSchema;
use serde_json::Value;

use super::super::plain;
use crate::typed;

/// A field of a form.
pub(super) struct FormField<'a> {
    name: &'a str,
    property: &'a Value,
    pub(super) is_required: bool,
    /// The allowed values with their titles; empty if any value is allowed.
    choices: Vec<(Value, String)>,
    is_array: bool,
    /// The schema of the value or, for an array, of its items.
    value_schema: &'a Value,
}

impl<'a> FormField<'a> {
    pub(super) fn new(name: &'a str, property: &'a Value, is_required: bool) -> Self {
        let is_array = property["type"] == "array";
        let value_schema = if is_array {
            &property["items"]
        } else {
            property
        };
        Self {
            name,
            property,
            is_required,
            choices: list_choices(value_schema),
            is_array,
            value_schema,
        }
    }

    pub(super) fn default(&self) -> Option<Value> {
        self.property
            .get("default")
            .filter(|value| !value.is_null())
            .cloned()
    }

    /// Returns the prompt: the field's name, its type and its default.
    pub(super) fn format_prompt(&self) -> String {
        let title = self.property["title"].as_str().unwrap_or(self.name);
        let mut prompt = plain::summarize(title, 100);
        if let Some(description) = self.property["description"].as_str() {
            prompt.push_str(&format!(": {}", plain::summarize(description, 300)));
        }
        prompt.push('\n');
        for (index, (_, label)) in self.choices.iter().enumerate() {
            let choice = plain::summarize(label, 100);
            prompt.push_str(&format!("  {}) {choice}\n", index + 1));
        }
        let format_hint = match (self.choices.is_empty(), self.is_array) {
            (true, false) => self.property["type"].as_str().unwrap_or("text"),
            (true, true) => "several, separated by commas",
            (false, false) => "one of these numbers or values",
            (false, true) => "any of these, separated by commas",
        };
        let optional_suffix = if self.is_required { "" } else { ", optional" };
        let default_suffix = self.default().map_or_else(String::new, |value| {
            let text = match &value {
                Value::Array(parts) => {
                    let texts: Vec<_> = parts.iter().map(typed::to_text).collect();
                    texts.join(", ")
                }
                value => typed::to_text(value),
            };
            format!(" [{}]", plain::summarize(&text, 100))
        });
        let hint = plain::summarize(format_hint, 40);
        prompt.push_str(&format!("  {hint}{optional_suffix}{default_suffix}: "));
        prompt
    }

    /// Parses the user's input.
    ///
    /// # Errors
    /// Returns why the input does not match the schema of the field.
    pub(super) fn parse_input(&self, input: &str) -> Result<Value, String> {
        let value = if self.is_array {
            input
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(|part| self.parse_value(part))
                .collect::<Result<_, _>>()?
        } else {
            self.parse_value(input)?
        };
        let schema = CompiledSchema::compile(self.property).ok();
        match schema.and_then(|schema| schema.mismatch(&value)) {
            Some(mismatch) => Err(plain::summarize(&mismatch, 300)),
            None => Ok(value),
        }
    }

    fn parse_value(&self, input: &str) -> Result<Value, String> {
        if self.choices.is_empty() {
            let schema = self.value_schema;
            let text = match (schema["type"].as_str(), input) {
                (Some("boolean"), "y" | "yes") => "true",
                (Some("boolean"), "n" | "no") => "false",
                (_, input) => input,
            };
            return typed::parse_value(text, schema, schema)
                .map_err(|types| format!("'{input}' is not {types}"));
        }
        let is_named_by_input =
            |(value, label): &&(Value, String)| value == input || label == input;
        let numbered_choice = || {
            let index: usize = input.parse().ok()?;
            self.choices.get(index.checked_sub(1)?)
        };
        self.choices
            .iter()
            .find(is_named_by_input)
            .or_else(numbered_choice)
            .map(|(value, _)| value.clone())
            .ok_or_else(|| format!("'{input}' is not one of the choices"))
    }
}

/// Returns the allowed values: `enum` with or without `enumNames`, or `oneOf`/`anyOf` of `const`
/// and `title`.
fn list_choices(schema: &Value) -> Vec<(Value, String)> {
    if let Some(values) = schema["enum"].as_array() {
        let choice_name = |index: usize| schema["enumNames"][index].as_str().map(str::to_owned);
        return values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let name = choice_name(index).unwrap_or_else(|| typed::to_text(value));
                (value.clone(), name)
            })
            .collect();
    }
    schema["oneOf"]
        .as_array()
        .or_else(|| schema["anyOf"].as_array())
        .into_iter()
        .flatten()
        .filter_map(|choice| {
            let value = choice.get("const")?;
            let title = choice["title"].as_str().map(str::to_owned);
            let label = title.unwrap_or_else(|| typed::to_text(value));
            Some((value.clone(), label))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(property: &Value, input: &str) -> Result<Value, String> {
        FormField::new("f", property, true).parse_input(input)
    }

    #[test]
    fn input_is_converted_to_the_type_of_the_field() {
        for (property, input, value) in [
            (json!({"type": "string"}), "12", json!("12")),
            (json!({"type": "integer"}), "12", json!(12)),
            (json!({"type": "boolean"}), "y", json!(true)),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                "2",
                json!("b"),
            ),
            (
                json!({"oneOf": [{"const": "a", "title": "First"}, {"const": "b"}]}),
                "First",
                json!("a"),
            ),
            (
                json!({"type": "array", "items": {"enum": ["a", "b", "c"]}}),
                "a, 3",
                json!(["a", "c"]),
            ),
        ] {
            assert_eq!(read(&property, input), Ok(value), "{property}");
        }
    }

    #[test]
    fn invalid_input_is_rejected_with_a_reason() {
        let error = |property, input| read(&property, input).unwrap_err();
        let type_error = error(json!({"type": "integer"}), "x");
        assert_eq!(type_error, "'x' is not an integer");
        let choice_error = error(json!({"enum": ["a"]}), "z");
        assert_eq!(choice_error, "'z' is not one of the choices");
        assert!(error(json!({"type": "integer", "maximum": 5}), "6").contains("maximum"));
        assert!(!error(json!({"type": "string", "minLength": 3}), "ab").is_empty());
    }

    #[test]
    fn a_prompt_shows_choices_and_default() {
        let property =
            json!({"type": "string", "title": "Size", "enum": ["s", "m"], "default": "m"});
        let prompt = FormField::new("size", &property, false).format_prompt();
        assert_eq!(
            prompt,
            "Size\n  1) s\n  2) m\n  one of these numbers or values, optional [m]: "
        );
    }
}
