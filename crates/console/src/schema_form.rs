//! Forms made from JSON Schemas: one control for each value, and a text area with JSON for what a
//! form cannot show.

mod control;

use std::collections::BTreeMap;

use control::{Control, ObjectSchema, alternative_label, implied_value, is_meant_for};
use maud::{Markup, html};
use pillion_core::truncated;
use serde_json::{Map, Value};

use crate::form::FormFields;
use crate::ui::{Field, FormControl, untrusted_beginning};

/// The beginning of the names of the controls; the rest is the JSON Pointer (RFC 6901) of the value.
const PREFIX: &str = "arguments.";

/// The beginning of the names of the selections of an alternative, whose values are indexes; the
/// rest is the JSON Pointer of the value.
const ALTERNATIVE_PREFIX: &str = "alternative.";

/// The name of the button that adds an item to a list. Its value is the list's JSON Pointer.
const ADD_ITEM: &str = "add-item";

/// Maximum number of controls. The remaining values of a larger schema are one JSON text area each.
const MAX_CONTROLS: usize = 150;

/// Maximum number of items of a list that have controls.
const MAX_ITEMS: usize = 50;

/// Number of options of a selection that count as one control.
const OPTIONS_PER_CONTROL: usize = 10;

/// Maximum size of a default that the form shows, as JSON, in bytes. Each item of a list repeats
/// the defaults of its schema.
const MAX_DEFAULT_BYTES: usize = 1024;

/// Maximum length of a description, in bytes.
const MAX_HINT_BYTES: usize = 500;

/// A form for the arguments of a tool: the values, and why values were rejected.
#[derive(Debug, Default)]
pub(crate) struct SchemaForm {
    /// The arguments as far as they are valid.
    pub(crate) arguments: Map<String, Value>,
    /// Whether the form has arguments, even if they are empty. Otherwise the form shows defaults.
    is_filled: bool,
    /// The indexes of the selected alternatives, by JSON Pointer.
    alternatives: BTreeMap<String, usize>,
    /// The rejected texts with their error messages, by JSON Pointer.
    faults: BTreeMap<String, (String, String)>,
    /// The list that gets one more item.
    extended_list: Option<String>,
}

/// Returns the JSON Pointer of a member or an item.
fn join(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Returns the JSON Pointer for the controls of an alternative of the value at `pointer`. In the
/// JSON Pointers of values, `~` is never followed by `a`.
fn join_alternative(pointer: &str, index: usize) -> String {
    format!("{pointer}~a{index}")
}

impl SchemaForm {
    /// Returns a form with these arguments.
    pub(crate) fn new(arguments: Map<String, Value>) -> Self {
        Self {
            arguments,
            is_filled: true,
            ..Self::default()
        }
    }

    /// Reads the fields of a sent form.
    pub(crate) fn read(schema: &Value, fields: &FormFields) -> Self {
        let alternatives = fields.iter().filter_map(|(name, value)| {
            let pointer = name.strip_prefix(ALTERNATIVE_PREFIX)?;
            Some((pointer.to_owned(), value.parse::<usize>().ok()?))
        });
        let mut form = Self {
            is_filled: true,
            alternatives: alternatives.collect(),
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
            Control::Object(object) => self.read_object(object, values, pointer, depth, depth == 0),
            Control::Alternatives(schemas) => {
                let index = *self.alternatives.get(pointer)?;
                let schema = schemas.get(index)?;
                let alternative_pointer = join_alternative(pointer, index);
                match Control::for_schema(schema, depth + 1) {
                    Control::Object(object) => {
                        self.read_object(object, values, &alternative_pointer, depth + 1, true)
                    }
                    _ => self.read_value(schema, values, &alternative_pointer, depth + 1),
                }
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

    /// Reads the object at `pointer`. Returns `None` if all of its fields are empty, unless the
    /// object is present in any case.
    fn read_object(
        &mut self,
        object: ObjectSchema<'_>,
        values: &BTreeMap<&str, &str>,
        pointer: &str,
        depth: usize,
        is_present: bool,
    ) -> Option<Value> {
        let mut members = Map::new();
        for (name, property) in object.properties {
            let value = self.read_value(property, values, &join(pointer, name), depth + 1);
            if let Some(value) = value {
                members.insert(name.clone(), value);
            }
        }
        if members.is_empty() && !is_present {
            return None;
        }
        for name in object.required_names() {
            if !members.contains_key(name)
                && let Some(value) = object.properties.get(name).and_then(implied_value)
            {
                members.insert(name.to_owned(), value);
            }
        }
        Some(Value::Object(members))
    }

    /// Renders the controls of the arguments.
    pub(crate) fn render(&self, schema: &Value) -> Markup {
        let mut free_controls = MAX_CONTROLS;
        let arguments = Value::Object(self.arguments.clone());
        match Control::for_schema(schema, 0) {
            Control::Object(object) => {
                self.render_members(object, Some(&arguments), "", 0, &mut free_controls)
            }
            _ => html! { p .muted { "This tool takes no arguments that a form can show." } },
        }
    }

    fn render_members(
        &self,
        object: ObjectSchema<'_>,
        value: Option<&Value>,
        pointer: &str,
        depth: usize,
        free_controls: &mut usize,
    ) -> Markup {
        let required_names = object.required_names();
        html! {
            @for (name, property) in object.properties.iter().take(*free_controls + 1) {
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
            Control::Object(_)
            | Control::List(_)
            | Control::Alternatives(_)
            | Control::Options(_)
                if *free_controls == 0 =>
            {
                Control::Json
            }
            control => control,
        };
        let option_count = match &control {
            Control::Options(options) => options.len(),
            _ => 0,
        };
        *free_controls = free_controls.saturating_sub(1 + option_count / OPTIONS_PER_CONTROL);
        let hint = schema.get("description").and_then(Value::as_str);
        let default = schema
            .get("default")
            .filter(|default| !self.is_filled && is_short_default(default));
        let value = value.or(default);
        match control {
            Control::Object(object) => html! {
                fieldset {
                    legend { (untrusted_beginning(label, MAX_HINT_BYTES)) @if is_required { " *" } }
                    @if let Some(hint) = hint { p .muted.small { (untrusted_beginning(hint, MAX_HINT_BYTES)) } }
                    (self.render_members(object, value, pointer, depth, free_controls))
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
            Control::Alternatives(schemas) => {
                *free_controls = free_controls.saturating_sub(schemas.len());
                let selected = self.selected_alternative(&schemas, value, pointer);
                let selected_text = selected.map(|index| index.to_string()).unwrap_or_default();
                let labels: Vec<_> = schemas
                    .iter()
                    .enumerate()
                    .map(|(index, schema)| (index.to_string(), alternative_label(schema, index)))
                    .collect();
                let options = labels
                    .iter()
                    .map(|(index, label)| (index.as_str(), label.as_str()));
                let selection = FormControl::Select {
                    value: &selected_text,
                    options: std::iter::once(("", "")).chain(options).collect(),
                };
                let name = format!("{ALTERNATIVE_PREFIX}{pointer}");
                html! {
                    fieldset {
                        legend { (untrusted_beginning(label, MAX_HINT_BYTES)) @if is_required { " *" } }
                        @if let Some(hint) = hint { p .muted.small { (untrusted_beginning(hint, MAX_HINT_BYTES)) } }
                        (Field::new(&name, "Kind of value", selection).with_hint("Only the fields of the selected kind are used.").render())
                        @for (index, schema) in schemas.iter().enumerate() {
                            @let is_selected = selected == Some(index);
                            @let label = labels[index].1.as_str();
                            details open[is_selected] {
                                summary { (untrusted_beginning(label, MAX_HINT_BYTES)) }
                                (self.render_value(schema, label, false, value.filter(|_| is_selected), &join_alternative(pointer, index), depth + 1, free_controls))
                            }
                        }
                    }
                }
            }
            control => self.render_control(&control, label, is_required, value, pointer, hint),
        }
    }

    /// Returns the index of the alternative that the value belongs to, or that was selected.
    fn selected_alternative(
        &self,
        schemas: &[&Value],
        value: Option<&Value>,
        pointer: &str,
    ) -> Option<usize> {
        let sent_index = self.alternatives.get(pointer).copied();
        let selected = sent_index.filter(|index| *index < schemas.len());
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return selected;
        };
        let is_match = |index: &usize| is_meant_for(schemas[*index], value);
        selected
            .filter(is_match)
            .or_else(|| (0..schemas.len()).find(is_match))
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

fn is_short_default(default: &Value) -> bool {
    default.to_string().len() <= MAX_DEFAULT_BYTES
}

/// Returns the values of an `enum`, each as JSON and as its label.
fn option_texts(options: &[(&Value, Option<&str>)]) -> Vec<(String, String)> {
    let texts = options.iter().map(|(option, title)| {
        let json = option.to_string();
        let text = title.or(option.as_str());
        let label = text.map_or_else(|| json.clone(), str::to_owned);
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
                    &arguments./place/a~1b=1.5&alternative./either=1\
                    &arguments./either~a0=unused&arguments./either~a1=%7B%22x%22%3A1%7D";
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
        let body = "arguments./name=Ada&arguments./count=four&alternative./either=1\
                    &arguments./either~a1=%7B";
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

    fn shapes() -> Value {
        let shape = |kind: &str, size: &str| {
            json!({
                "type": "object",
                "required": ["kind", size],
                "properties": {"kind": {"const": kind}, (size): {"type": "number"}},
            })
        };
        json!({
            "type": "object",
            "required": ["shape", "note"],
            "properties": {
                "shape": {"oneOf": [shape("circle", "radius"), shape("square", "width")]},
                "note": {"type": ["string", "null"]},
                "unit": {"anyOf": [{"type": "null"}, {"type": "string"}]},
                "color": {"oneOf": [{"const": 1, "title": "Red"}, {"const": 2, "title": "Blue"}]},
                "parts": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
            },
        })
    }

    #[test]
    fn only_the_selected_alternative_is_read() {
        let body = "alternative./shape=1&arguments./shape~a0/radius=2&arguments./shape~a1/width=3\
                    &arguments./unit=mm&arguments./color=2&alternative./parts/0=1\
                    &arguments./parts/0~a0=seven&arguments./parts/0~a1=7";
        let form = SchemaForm::read(&shapes(), &FormFields::parse(body.as_bytes()).unwrap());
        assert!(form.is_valid());
        // A required property has its only value, or null.
        let expected = json!({
            "shape": {"kind": "square", "width": 3}, "note": null, "unit": "mm", "color": 2,
            "parts": [7],
        });
        assert_eq!(Value::Object(form.arguments.clone()), expected);
        let page = form.render(&shapes()).into_string();
        for part in [
            r#"<option value="1" selected>2. square</option>"#,
            r#"<details open><summary><bdi class="untrusted">2. square"#,
            r#"<option value="2" selected>Blue</option>"#,
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn arguments_select_the_alternative_that_they_are_meant_for() {
        let arguments = json!({"shape": {"kind": "circle", "radius": 4}, "parts": ["a"]});
        let form = SchemaForm::new(arguments.as_object().unwrap().clone());
        let page = form.render(&shapes()).into_string();
        for part in [
            r#"<option value="0" selected>1. circle</option>"#,
            r#"<option value="0" selected>1. string</option>"#,
            r#"name="arguments./shape~a0/radius" value="4""#,
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn defaults_are_shown_only_in_a_new_form() {
        let schema = json!({"type": "object", "properties": {
            "count": {"type": "integer", "default": 31},
            "tags": {"type": "array", "items": {"type": "string"}, "default": ["first", "second"]},
        }});
        let new_page = SchemaForm::default().render(&schema).into_string();
        assert!(
            new_page.contains("\"31\"") && new_page.contains("second"),
            "{new_page}"
        );
        let fields = FormFields::parse(b"arguments./count=").unwrap();
        let sent_page = SchemaForm::read(&schema, &fields)
            .render(&schema)
            .into_string();
        assert!(
            !sent_page.contains("\"31\"") && !sent_page.contains("second"),
            "{sent_page}"
        );
    }

    #[test]
    fn a_hostile_schema_gives_a_small_form() {
        let mut nested = json!({"type": "string"});
        for _ in 0..100 {
            nested = json!({"type": "object", "properties": {"a": nested}});
        }
        assert!(SchemaForm::default().render(&nested).into_string().len() < 10_000);
        let mut branching = json!({"type": "string"});
        for _ in 0..4 {
            let alternative = json!({"type": "object", "properties": {"a": branching}});
            branching = json!({"oneOf": vec![alternative; 10]});
        }
        let schema = json!({"type": "object", "properties": {"a": branching}});
        assert!(SchemaForm::default().render(&schema).into_string().len() < 200_000);
        let wide: Map<_, _> = (0..10_000)
            .map(|index| (format!("p{index}"), json!({"type": "array", "items": {}})))
            .collect();
        let schema = json!({"type": "object", "properties": wide});
        drop(SchemaForm::default().render(&schema));
    }

    #[test]
    fn a_hostile_schema_repeats_no_long_text() {
        let long = "x".repeat(100_000);
        let members: Map<_, _> = (0..100)
            .map(|index| (format!("p{index}"), json!({"type": "string"})))
            .collect();
        let many = vec![json!({}); MAX_ITEMS];
        for property in [
            json!({"type": "object", "properties": {(long.clone()): {"type": "object", "properties": members}}}),
            json!({"type": "array", "default": many, "items": {"type": "object", "properties": {
                "a": {"type": "string", "default": long},
                "b": {"enum": [long, "b"]},
                "c": {"enum": (0..200).map(|index| format!("{index}{}", "c".repeat(90))).collect::<Vec<_>>()},
            }}}),
        ] {
            let schema = json!({"type": "object", "properties": {"a": property}});
            let page = SchemaForm::default().render(&schema).into_string();
            assert!(page.len() < 500_000, "{}", page.len());
        }
    }
}
