//! Forms made from JSON Schemas: one control for each value, and a text area with JSON for what a
//! form cannot show.

use std::collections::{BTreeMap, HashSet};

use maud::{Markup, html};
use pillion_core::truncated;
use serde_json::{Map, Value};

use crate::form::FormFields;
use crate::ui::{Field, FormControl, untrusted_beginning};

/// The beginning of the names of the controls; the rest is the JSON Pointer (RFC 6901) of the value.
const PREFIX: &str = "arguments.";

/// The name of the button that adds an item to a list. Its value is the list's JSON Pointer.
const ADD_ITEM: &str = "add-item";

/// Maximum depth of nested objects and lists that have controls of their own.
const MAX_DEPTH: usize = 5;

/// Maximum number of controls. The remaining values of a larger schema are one JSON text area each.
const MAX_CONTROLS: usize = 150;

/// Maximum number of items of a list that have controls.
const MAX_ITEMS: usize = 50;

/// Maximum number of values in the selection of an `enum`.
const MAX_OPTIONS: usize = 200;

/// Maximum length of a description, in bytes.
const MAX_HINT_BYTES: usize = 500;

/// A form for the arguments of a tool: the values, and why values were rejected.
#[derive(Debug, Default)]
pub(crate) struct SchemaForm {
    /// The arguments as far as they are valid.
    pub(crate) arguments: Map<String, Value>,
    /// The rejected texts with their error messages, by JSON Pointer.
    faults: BTreeMap<String, (String, String)>,
    /// The list that gets one more item.
    extended_list: Option<String>,
}

/// The kind of control for a value.
enum Control<'s> {
    Object(&'s Map<String, Value>),
    List(&'s Value),
    Options(&'s [Value]),
    Text,
    Number { is_integer: bool },
    Boolean,
    Json,
}

impl<'s> Control<'s> {
    /// Chooses the control for values of `schema`, at `depth` objects and lists below the arguments.
    fn for_schema(schema: &'s Value, depth: usize) -> Self {
        if let Some(Value::Array(options)) = schema.get("enum")
            && (1..=MAX_OPTIONS).contains(&options.len())
        {
            return Self::Options(options);
        }
        let name = match schema.get("type") {
            Some(Value::String(name)) => name.as_str(),
            // A nullable type: an empty control is an absent value.
            Some(Value::Array(names)) => match &names
                .iter()
                .filter_map(Value::as_str)
                .filter(|name| *name != "null")
                .collect::<Vec<_>>()[..]
            {
                [name] => *name,
                _ => "",
            },
            _ => "",
        };
        match name {
            "object" if depth < MAX_DEPTH => match schema.get("properties") {
                Some(Value::Object(properties)) if !properties.is_empty() => {
                    Self::Object(properties)
                }
                _ => Self::Json,
            },
            "array" if depth < MAX_DEPTH => schema
                .get("items")
                .filter(|items| items.is_object())
                .map_or(Self::Json, Self::List),
            "string" => Self::Text,
            "number" => Self::Number { is_integer: false },
            "integer" => Self::Number { is_integer: true },
            "boolean" => Self::Boolean,
            _ => Self::Json,
        }
    }
}

/// Returns the names of the properties that `schema` requires.
fn required_names(schema: &Value) -> HashSet<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns the JSON Pointer of a member or an item.
fn join(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

impl SchemaForm {
    /// Returns a form with these arguments.
    pub(crate) fn new(arguments: Map<String, Value>) -> Self {
        Self {
            arguments,
            ..Self::default()
        }
    }

    /// Reads the fields of a sent form.
    pub(crate) fn read(schema: &Value, fields: &FormFields) -> Self {
        let mut form = Self {
            extended_list: fields.get(ADD_ITEM).map(str::to_owned),
            ..Self::default()
        };
        let values: BTreeMap<&str, &str> = fields
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?, value)))
            .collect();
        if let Some(Value::Object(arguments)) = form.read_value(schema, &values, "", 0) {
            form.arguments = arguments;
        }
        form
    }

    /// Returns whether every field has a valid value.
    pub(crate) fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns whether the form was sent to add an item to a list.
    pub(crate) fn adds_item(&self) -> bool {
        self.extended_list.is_some()
    }

    /// Reads the value at `pointer`; `None` if its fields are empty.
    fn read_value(
        &mut self,
        schema: &Value,
        values: &BTreeMap<&str, &str>,
        pointer: &str,
        depth: usize,
    ) -> Option<Value> {
        // Only values with a field are read, so that a large schema takes no time.
        let mut later_fields = values.range(pointer..);
        if depth > 0
            && !later_fields
                .next()
                .is_some_and(|(name, _)| name.starts_with(pointer))
        {
            return None;
        }
        match Control::for_schema(schema, depth) {
            Control::Object(properties) => {
                let mut members = Map::new();
                for (name, property) in properties {
                    if let Some(value) =
                        self.read_value(property, values, &join(pointer, name), depth + 1)
                    {
                        members.insert(name.clone(), value);
                    }
                }
                let is_empty = members.is_empty() && depth > 0;
                (!is_empty).then_some(Value::Object(members))
            }
            Control::List(item) => {
                let read_item = |index: usize| {
                    let item_pointer = join(pointer, &index.to_string());
                    self.read_value(item, values, &item_pointer, depth + 1)
                };
                let items: Vec<_> = (0..MAX_ITEMS).filter_map(read_item).collect();
                (!items.is_empty()).then_some(Value::Array(items))
            }
            control => {
                let text = values.get(pointer).copied().unwrap_or_default();
                if text.trim().is_empty() {
                    return None;
                }
                match parse(&control, text) {
                    Ok(value) => Some(value),
                    Err(message) => {
                        self.faults
                            .insert(pointer.to_owned(), (text.to_owned(), message));
                        None
                    }
                }
            }
        }
    }

    /// Renders the controls of the arguments.
    pub(crate) fn render(&self, schema: &Value) -> Markup {
        let mut free_controls = MAX_CONTROLS;
        let arguments = Value::Object(self.arguments.clone());
        match Control::for_schema(schema, 0) {
            Control::Object(properties) => self.render_members(
                schema,
                properties,
                Some(&arguments),
                "",
                0,
                &mut free_controls,
            ),
            _ => html! { p .muted { "This tool takes no arguments that a form can show." } },
        }
    }

    fn render_members(
        &self,
        schema: &Value,
        properties: &Map<String, Value>,
        value: Option<&Value>,
        pointer: &str,
        depth: usize,
        free_controls: &mut usize,
    ) -> Markup {
        let required_names = required_names(schema);
        html! {
            @for (name, property) in properties.iter().take(*free_controls + 1) {
                @let is_required = required_names.contains(name.as_str());
                (self.render_value(property, name, is_required, value.and_then(|value| value.get(name)), &join(pointer, name), depth + 1, free_controls))
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one control")]
    fn render_value(
        &self,
        schema: &Value,
        label: &str,
        is_required: bool,
        value: Option<&Value>,
        pointer: &str,
        depth: usize,
        free_controls: &mut usize,
    ) -> Markup {
        let control = match Control::for_schema(schema, depth) {
            Control::Object(_) | Control::List(_) if *free_controls == 0 => Control::Json,
            control => control,
        };
        *free_controls = free_controls.saturating_sub(1);
        let hint = schema.get("description").and_then(Value::as_str);
        match control {
            Control::Object(properties) => html! {
                fieldset {
                    legend { (untrusted_beginning(label, MAX_HINT_BYTES)) }
                    @if let Some(hint) = hint { p .muted.small { (untrusted_beginning(hint, MAX_HINT_BYTES)) } }
                    (self.render_members(schema, properties, value, pointer, depth, free_controls))
                }
            },
            Control::List(item) => {
                let item_count = value.and_then(Value::as_array).map_or(0, Vec::len);
                let is_extended = self.extended_list.as_deref() == Some(pointer);
                let shown_count =
                    (item_count + usize::from(is_extended || item_count == 0)).min(MAX_ITEMS);
                html! {
                    fieldset {
                        legend { (untrusted_beginning(label, MAX_HINT_BYTES)) @if is_required { " *" } }
                        @if let Some(hint) = hint { p .muted.small { (untrusted_beginning(hint, MAX_HINT_BYTES)) } }
                        @for index in 0..shown_count {
                            (self.render_value(item, &format!("{}", index + 1), false, value.and_then(|value| value.get(index)), &join(pointer, &index.to_string()), depth + 1, free_controls))
                        }
                        div { button type="submit" name=(ADD_ITEM) value=(pointer) formnovalidate { "Add an item" } }
                    }
                }
            }
            control => self.render_control(
                &control,
                label,
                is_required,
                value.or_else(|| schema.get("default")),
                pointer,
                hint,
            ),
        }
    }

    fn render_control(
        &self,
        control: &Control<'_>,
        label: &str,
        is_required: bool,
        value: Option<&Value>,
        pointer: &str,
        hint: Option<&str>,
    ) -> Markup {
        let fault = self.faults.get(pointer);
        let name = format!("{PREFIX}{pointer}");
        let text = match (fault, value) {
            (Some((text, _)), _) => text.clone(),
            (None, None | Some(Value::Null)) => String::new(),
            (None, Some(Value::String(text)))
                if !matches!(control, Control::Json | Control::Options(_)) =>
            {
                text.clone()
            }
            (None, Some(value)) => value.to_string(),
        };
        let options = match control {
            Control::Options(options) => option_texts(options),
            Control::Boolean => ["true", "false"]
                .map(|text| (text.to_owned(), text.to_owned()))
                .into(),
            _ => Vec::new(),
        };
        let no_option = ("", "");
        let choices = options
            .iter()
            .map(|(json, label)| (json.as_str(), label.as_str()));
        let form_control = match control {
            Control::Options(_) | Control::Boolean => FormControl::Select {
                value: &text,
                options: std::iter::once(no_option).chain(choices).collect(),
            },
            Control::Number { .. } => FormControl::Number { value: &text },
            Control::Json => FormControl::Json {
                value: &text,
                rows: 4,
            },
            _ => FormControl::Lines { value: &text },
        };
        let required_mark = if is_required { " *" } else { "" };
        let marked_label = format!("{}{required_mark}", truncated(label, MAX_HINT_BYTES - 2));
        let message = fault.map(|(_, message)| message.as_str());
        Field::new(&name, &marked_label, form_control)
            .with_hint(hint)
            .with_fault(message)
            .render()
    }
}

/// Returns the values of an `enum`, each as JSON and as its label.
fn option_texts(options: &[Value]) -> Vec<(String, String)> {
    let texts = options.iter().map(|option| {
        let json = option.to_string();
        let label = option.as_str().map_or_else(|| json.clone(), str::to_owned);
        (json, label)
    });
    texts.collect()
}

/// Parses the text of a control, or returns why the text is rejected.
fn parse(control: &Control<'_>, text: &str) -> Result<Value, String> {
    match control {
        Control::Text => Ok(Value::from(text)),
        Control::Number { is_integer: true } => match text.trim().parse::<i64>() {
            Ok(number) => Ok(Value::from(number)),
            Err(_) => Err("This must be a whole number".to_owned()),
        },
        Control::Number { is_integer: false } => match serde_json::from_str(text.trim()) {
            Ok(number @ Value::Number(_)) => Ok(number),
            _ => Err("This must be a number".to_owned()),
        },
        _ => serde_json::from_str(text).map_err(|error| format!("This must be JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "description": "<b>bold</b>"},
                "count": {"type": ["integer", "null"], "default": 3},
                "size": {"enum": ["small", 7, null]},
                "is_new": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "place": {"type": "object", "properties": {"a/b": {"type": "number"}}},
                "either": {"oneOf": [{"type": "string"}, {"type": "object"}]},
            },
        })
    }

    #[test]
    fn every_kind_of_value_is_read_from_its_control() {
        let body = "arguments./name=Ada+L.&arguments./count=4&arguments./size=7&arguments./is_new=true\
                    &arguments./tags/0=a&arguments./tags/1=&arguments./tags/2=b\
                    &arguments./place/a~1b=1.5&arguments./either=%7B%22x%22%3A1%7D";
        let form = SchemaForm::read(&schema(), &FormFields::parse(body.as_bytes()).unwrap());
        assert!(form.is_valid());
        let expected = json!({
            "name": "Ada L.", "count": 4, "size": 7, "is_new": true, "tags": ["a", "b"],
            "place": {"a/b": 1.5}, "either": {"x": 1},
        });
        assert_eq!(Value::Object(form.arguments), expected);
    }

    #[test]
    fn a_rejected_text_stays_in_the_form_beside_its_message() {
        let body = "arguments./name=Ada&arguments./count=four&arguments./either=%7B";
        let form = SchemaForm::read(&schema(), &FormFields::parse(body.as_bytes()).unwrap());
        assert!(!form.is_valid());
        let page = form.render(&schema()).into_string();
        assert!(
            page.contains("value=\"four\"") && page.contains("This must be a whole number"),
            "{page}"
        );
        assert!(
            page.contains("Ada") && page.contains("This must be JSON"),
            "{page}"
        );
        assert!(page.contains("&lt;b&gt;bold"), "{page}");
    }

    #[test]
    fn a_hostile_schema_gives_a_small_form() {
        let mut nested = json!({"type": "string"});
        for _ in 0..100 {
            nested = json!({"type": "object", "properties": {"a": nested}});
        }
        assert!(SchemaForm::default().render(&nested).into_string().len() < 10_000);
        let wide: Map<_, _> = (0..10_000)
            .map(|index| (format!("p{index}"), json!({"type": "array", "items": {}})))
            .collect();
        let schema = json!({"type": "object", "properties": wide});
        drop(SchemaForm::default().render(&schema));
    }
}
