use pillion_schema::repair;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::EntryError;
use super::draft::Draft;

/// The `inputSchema` of a tool without parameters.
const EMPTY: &str = r#"{"type":"object","properties":{}}"#;

/// Checks the `inputSchema` of a tool. The arguments of a call are always an object, so a schema
/// without a type, or with several types, gets the type `object`.
pub(super) fn check(tool: &mut Draft) -> Result<(), EntryError> {
    const MEMBER: &str = "inputSchema";
    let unexpected = tool.unexpected(MEMBER, "a JSON Schema of type object");
    // PHP writes an empty map as `[]`.
    let missing = match tool.raw(MEMBER).map(RawValue::get) {
        None | Some("null") => Some("`inputSchema` is missing and was replaced by an empty schema"),
        Some("true") => Some("`inputSchema` is not an object and was replaced by an empty schema"),
        Some(text) if is_empty_list(text) => {
            Some("`inputSchema` is not an object and was replaced by an empty schema")
        }
        Some(_) => None,
    };
    if let Some(repair) = missing {
        if let Ok(empty) = RawValue::from_string(EMPTY.to_owned()) {
            tool.set(MEMBER, empty, Some(repair));
        }
        return Ok(());
    }
    repair_member(tool, MEMBER);
    let mut schema = tool
        .raw(MEMBER)
        .map(ToOwned::to_owned)
        .and_then(|schema| tool.item(&schema, MEMBER))
        .ok_or_else(|| unexpected.clone())?;
    match schema.value("type") {
        None if schema.has("type") => return Err(unexpected),
        None => set_type(&mut schema),
        Some(Value::String(kind)) if kind == "object" => {}
        Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "object") => {
            set_type(&mut schema);
        }
        Some(_) => return Err(unexpected),
    }
    check_members(&mut schema)?;
    put_back(tool, MEMBER, schema);
    Ok(())
}

/// Removes an `outputSchema` that clients cannot read. The tool is then listed without one.
pub(super) fn check_output(tool: &mut Draft) {
    const MEMBER: &str = "outputSchema";
    tool.remove_null(MEMBER);
    repair_member(tool, MEMBER);
    let Some(raw) = tool.raw(MEMBER).map(ToOwned::to_owned) else {
        return;
    };
    let schema = tool.item(&raw, MEMBER);
    let checked = schema.and_then(|mut schema| {
        check_members(&mut schema).ok()?;
        Some(schema)
    });
    match checked {
        Some(schema) => put_back(tool, MEMBER, schema),
        None => tool.keep_if(MEMBER, "a JSON Schema", |_| false),
    }
}

/// Repairs a schema, without a message: the meaning stays the same.
fn repair_member(tool: &mut Draft, member: &str) {
    let Some(mut schema) = tool.value(member) else {
        return;
    };
    if repair(&mut schema)
        && let Ok(repaired) = to_raw_value(&schema)
    {
        tool.set(member, repaired, None);
    }
}

fn put_back(tool: &mut Draft, member: &str, mut schema: Draft) {
    if let Some(changed) = schema.changed() {
        tool.set(member, changed, None);
    }
    tool.repairs.append(&mut schema.repairs);
}

fn set_type(schema: &mut Draft) {
    if let Ok(kind) = RawValue::from_string(r#""object""#.to_owned()) {
        // The type is added without a warning: many servers omit it, and the meaning stays the
        // same.
        schema.set("type", kind, None);
    }
}

/// Checks `$schema`, `properties` and `required`, which clients read.
fn check_members(schema: &mut Draft) -> Result<(), EntryError> {
    schema.keep_if("$schema", "a string", Value::is_string);
    if let Some(properties) = schema.raw("properties").map(ToOwned::to_owned) {
        check_properties(schema, &properties)?;
    }
    match schema.value("required") {
        None if schema.has("required") => Err(schema.unexpected("required", "a list of strings")),
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => Ok(()),
        None => Ok(()),
        Some(_) => Err(schema.unexpected("required", "a list of strings")),
    }
}

/// Replaces properties that are `true` or `false`, which JSON Schema allows and MCP does not, by
/// equivalent objects.
fn check_properties(schema: &mut Draft, properties: &RawValue) -> Result<(), EntryError> {
    const MEMBER: &str = "properties";
    let Some(mut draft) = schema.item(properties, MEMBER) else {
        return Err(schema.unexpected(MEMBER, "an object"));
    };
    for name in draft.names() {
        let text = draft.raw(&name).map(RawValue::get).unwrap_or_default();
        let instead = match text {
            _ if text.starts_with('{') => continue,
            "true" => "{}",
            "false" => r#"{"not":{}}"#,
            _ => return Err(draft.unexpected(&name, "a JSON Schema")),
        };
        if let Ok(instead) = RawValue::from_string(instead.to_owned()) {
            draft.set(&name, instead, None);
        }
    }
    put_back(schema, MEMBER, draft);
    Ok(())
}

fn is_empty_list(text: &str) -> bool {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    inner.is_some_and(|inner| inner.trim().is_empty())
}
