use pillion_schema::repair;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::EntryError;
use super::draft::ObjectDraft;

/// The `inputSchema` of a tool without parameters.
const EMPTY_SCHEMA: &str = r#"{"type":"object","properties":{}}"#;

/// Repairs the `inputSchema` of a tool. The arguments of a call are always an object, so a schema
/// without a type, or with several types, gets the type `object`.
pub(super) fn repair_input(tool: &mut ObjectDraft) -> Result<(), EntryError> {
    const INPUT_SCHEMA: &str = "inputSchema";
    let type_error = tool.unexpected_member(INPUT_SCHEMA, "a JSON Schema of type object");
    // An empty list counts as an empty schema, because PHP writes an empty map as `[]`.
    let replacement_reason = match tool.raw_member(INPUT_SCHEMA).map(RawValue::get) {
        None | Some("null") => Some("`inputSchema` is missing and was replaced by an empty schema"),
        Some(text) if text == "true" || is_empty_list(text) => {
            Some("`inputSchema` is not an object and was replaced by an empty schema")
        }
        Some(_) => None,
    };
    if let Some(repair) = replacement_reason {
        if let Ok(empty_schema) = RawValue::from_string(EMPTY_SCHEMA.to_owned()) {
            tool.set(INPUT_SCHEMA, empty_schema, Some(repair));
        }
        return Ok(());
    }
    repair_member(tool, INPUT_SCHEMA);
    let mut schema = tool
        .raw_member(INPUT_SCHEMA)
        .map(ToOwned::to_owned)
        .and_then(|schema| tool.item_draft(&schema, INPUT_SCHEMA))
        .ok_or_else(|| type_error.clone())?;
    match schema.parsed_member("type") {
        None if !schema.has_member("type") => set_type(&mut schema),
        Some(Value::String(type_name)) if type_name == "object" => {}
        Some(Value::Array(types)) if types.iter().any(|name| name == "object") => {
            set_type(&mut schema);
        }
        _ => return Err(type_error),
    }
    repair_schema_members(&mut schema)?;
    tool.store_changes(INPUT_SCHEMA, schema);
    Ok(())
}

/// Removes an `outputSchema` that clients cannot read. The tool is then listed without one.
pub(super) fn repair_output(tool: &mut ObjectDraft) {
    const OUTPUT_SCHEMA: &str = "outputSchema";
    tool.remove_null(OUTPUT_SCHEMA);
    repair_member(tool, OUTPUT_SCHEMA);
    let Some(raw_schema) = tool.raw_member(OUTPUT_SCHEMA).map(ToOwned::to_owned) else {
        return;
    };
    let schema = tool.item_draft(&raw_schema, OUTPUT_SCHEMA);
    let checked_schema = schema.and_then(|mut schema| {
        repair_schema_members(&mut schema).ok()?;
        Some(schema)
    });
    match checked_schema {
        Some(schema) => tool.store_changes(OUTPUT_SCHEMA, schema),
        None => tool.remove_unless(OUTPUT_SCHEMA, "a JSON Schema", |_| false),
    }
}

/// Repairs a schema. The repairs are not reported, because the meaning of the schema stays the
/// same.
fn repair_member(tool: &mut ObjectDraft, member: &str) {
    let Some(mut schema) = tool.parsed_member(member) else {
        return;
    };
    if repair(&mut schema)
        && let Ok(repaired_schema) = to_raw_value(&schema)
    {
        tool.set(member, repaired_schema, None);
    }
}

fn set_type(schema: &mut ObjectDraft) {
    if let Ok(object_type) = RawValue::from_string(r#""object""#.to_owned()) {
        // The type is added without a warning: many servers omit it, and the meaning stays the
        // same.
        schema.set("type", object_type, None);
    }
}

/// Repairs `$schema` and `properties`, and rejects an invalid `required`, because clients read
/// these members.
fn repair_schema_members(schema: &mut ObjectDraft) -> Result<(), EntryError> {
    schema.remove_unless("$schema", "a string", Value::is_string);
    if let Some(properties) = schema.raw_member("properties").map(ToOwned::to_owned) {
        repair_properties(schema, &properties)?;
    }
    match schema.parsed_member("required") {
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => Ok(()),
        None if !schema.has_member("required") => Ok(()),
        _ => Err(schema.unexpected_member("required", "a list of strings")),
    }
}

/// Replaces properties that are `true` or `false`, which JSON Schema allows and MCP does not, by
/// equivalent objects.
fn repair_properties(schema: &mut ObjectDraft, properties: &RawValue) -> Result<(), EntryError> {
    const PROPERTIES: &str = "properties";
    let Some(mut draft) = schema.item_draft(properties, PROPERTIES) else {
        return Err(schema.unexpected_member(PROPERTIES, "an object"));
    };
    for name in draft.member_names() {
        let text = draft.raw_member(&name).map_or("", RawValue::get);
        let equivalent_schema = match text {
            _ if text.starts_with('{') => continue,
            "true" => "{}",
            "false" => r#"{"not":{}}"#,
            _ => return Err(draft.unexpected_member(&name, "a JSON Schema")),
        };
        if let Ok(replacement) = RawValue::from_string(equivalent_schema.to_owned()) {
            draft.set(&name, replacement, None);
        }
    }
    schema.store_changes(PROPERTIES, draft);
    Ok(())
}

fn is_empty_list(text: &str) -> bool {
    let rest = text.strip_prefix('[');
    rest.is_some_and(|rest| rest.trim_start() == "]")
}
