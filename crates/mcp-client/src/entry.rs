//! Checks the entries of a server's lists against the schemas of MCP.
//!
//! MCP clients read a list as a whole, so one entry that violates the schema makes the whole list
//! unreadable. Malformed members that only describe an entry are therefore removed, and an entry
//! whose meaning is uncertain is rejected as a whole.

mod draft;
mod input_schema;
#[cfg(test)]
mod tests;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use url::Url;

use crate::{MAX_IDENTIFIER_BYTES, WholeValue};
use draft::ObjectDraft;

/// The kind of an entry in a list of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// `Tool`, of `tools/list`.
    Tool,
    /// `Resource`, of `resources/list`.
    Resource,
    /// `ResourceTemplate`, of `resources/templates/list`.
    ResourceTemplate,
    /// `Prompt`, of `prompts/list`.
    Prompt,
}

/// An entry that is valid under every revision's schema, except that `outputSchema` may have
/// another type than `object`: see
/// [`Feature::AnyStructuredContent`](super::Feature::AnyStructuredContent).
#[derive(Debug, Clone)]
pub struct CheckedEntry {
    /// The name, URI or URI template that identifies the entry.
    pub id: String,
    /// The entry as JSON: byte for byte as the server wrote it, unless a repair was necessary.
    pub entry: Box<RawValue>,
    /// The entry, parsed.
    pub value: Value,
    /// A sentence for each repair of the entry, except for removed `null` members.
    pub repairs: Vec<String>,
}

/// Why an entry cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The entry is not a JSON object.
    #[error("the entry is not an object")]
    NotAnObject,
    /// A required member is missing.
    #[error("`{member}` is missing")]
    Missing {
        /// The path of the member, such as `arguments[0].name`.
        member: String,
    },
    /// A member that is necessary for using the entry has the wrong type.
    #[error("`{member}` is not {expected}")]
    Unexpected {
        /// The path of the member, such as `arguments[0].name`.
        member: String,
        /// The type that the MCP schema requires, such as `a string`.
        expected: &'static str,
    },
    /// The entry has a value that JSON readers reject, such as `1e999`.
    #[error("the entry cannot be read: {reason}")]
    Unreadable {
        /// What is wrong with the value, and its position.
        reason: String,
    },
    /// The member that identifies the entry is too long.
    #[error("`{member}` is longer than {MAX_IDENTIFIER_BYTES} bytes")]
    TooLong {
        /// The path of the member, such as `uri`.
        member: String,
    },
}

impl EntryKind {
    /// Returns the name of this kind of entry in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::ResourceTemplate => "resource template",
            Self::Prompt => "prompt",
        }
    }

    /// Returns the member that identifies an entry in its list.
    #[must_use]
    pub fn id_member(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::ResourceTemplate => "uriTemplate",
        }
    }

    /// Checks an entry, and repairs the entry if its meaning stays certain:
    ///
    /// - Malformed members that only describe the entry are removed.
    /// - A tool without `inputSchema` gets an empty object schema.
    /// - [A schema is repaired](pillion_schema::repair()).
    /// - A resource or template without `name` gets its title, or else its URI, as the name.
    /// - If an object has several members of one name, only the last one stays, so that all readers
    ///   read the same entry.
    ///
    /// ```
    /// use pillion_mcp_client::EntryKind;
    /// use serde_json::value::RawValue;
    /// let listed = RawValue::from_string(r#"{"name":"roll","description":5}"#.to_owned())?;
    /// let checked = EntryKind::Tool.check(&listed).unwrap();
    /// let schema = r#"{"type":"object","properties":{}}"#;
    /// assert_eq!(checked.entry.get(), format!(r#"{{"name":"roll","inputSchema":{schema}}}"#));
    /// assert_eq!(checked.repairs[1], "`description` is not a string and was removed");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`EntryError`] if the entry cannot be repaired.
    pub fn check(self, entry: &RawValue) -> Result<CheckedEntry, EntryError> {
        let mut draft = ObjectDraft::parse(entry).ok_or(EntryError::NotAnObject)?;
        let id_member = self.id_member();
        let id = draft.required_text(id_member)?;
        if id.len() > MAX_IDENTIFIER_BYTES {
            let member = id_member.to_owned();
            return Err(EntryError::TooLong { member });
        }
        match self {
            Self::Tool => repair_tool(&mut draft)?,
            Self::Resource => repair_resource(&mut draft)?,
            Self::ResourceTemplate => repair_template(&mut draft),
            Self::Prompt => repair_prompt(&mut draft)?,
        }
        for member in ["title", "description"] {
            draft.remove_unless(member, "a string", Value::is_string);
        }
        repair_icons(&mut draft)?;
        draft.remove_unless("_meta", "an object", Value::is_object);
        let mut entry = draft.changed_object().unwrap_or_else(|| entry.to_owned());
        let unreadable_error = |error: serde_json::Error| EntryError::Unreadable {
            reason: error.to_string(),
        };
        let whole: WholeValue = serde_json::from_str(entry.get()).map_err(unreadable_error)?;
        let mut repairs = draft.repairs;
        if whole.is_ambiguous {
            entry = to_raw_value(&whole.value).map_err(unreadable_error)?;
            repairs
                .push("members of the same name were removed, except for the last one".to_owned());
        }
        Ok(CheckedEntry {
            id,
            entry,
            value: whole.value,
            repairs,
        })
    }
}

/// Returns whether a tool has no `outputSchema`, or one of the type `object`, the only type that
/// revisions before 2026-07-28 allow.
#[must_use]
pub fn has_object_output(tool: &RawValue) -> bool {
    let schema = ObjectDraft::parse(tool).and_then(|tool| tool.parsed_member("outputSchema"));
    schema.is_none_or(|schema| schema.get("type").and_then(Value::as_str) == Some("object"))
}

fn repair_tool(tool: &mut ObjectDraft) -> Result<(), EntryError> {
    input_schema::repair_input(tool)?;
    input_schema::repair_output(tool);
    tool.repair_nested("annotations", |annotations| {
        for hint in [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ] {
            annotations.remove_unless(hint, "a boolean", Value::is_boolean);
        }
        annotations.remove_unless("title", "a string", Value::is_string);
    });
    tool.repair_nested("execution", |execution| {
        execution.remove_unless(
            "taskSupport",
            "`forbidden`, `optional` or `required`",
            |word| is_one_of(word, &["forbidden", "optional", "required"]),
        );
    });
    Ok(())
}

fn repair_resource(resource: &mut ObjectDraft) -> Result<(), EntryError> {
    let uri = resource.required_text("uri")?;
    if Url::parse(&uri).is_err() {
        return Err(resource.unexpected_member("uri", "an absolute URI"));
    }
    set_missing_name(resource, &uri);
    resource.remove_unless("size", "a whole number", |size| {
        size.as_f64()
            .is_some_and(|size| size.is_finite() && size.fract() == 0.0)
    });
    repair_content_members(resource);
    Ok(())
}

fn repair_template(template: &mut ObjectDraft) {
    if let Ok(uri_template) = template.required_text("uriTemplate") {
        set_missing_name(template, &uri_template);
    }
    repair_content_members(template);
}

/// Sets a missing or invalid `name` to the entry's title, or else to its identifier.
fn set_missing_name(entry: &mut ObjectDraft, id: &str) {
    if entry.required_text("name").is_ok() {
        return;
    }
    let title = entry.required_text("title").unwrap_or_default();
    let text = if title.trim().is_empty() { id } else { &title };
    if let Ok(name) = to_raw_value(text) {
        let repair = "`name` is missing or not a string, and was taken from the title or the URI";
        entry.set("name", name, Some(repair));
    }
}

/// Repairs `mimeType` and `annotations` of a resource or resource template.
fn repair_content_members(entry: &mut ObjectDraft) {
    entry.remove_unless("mimeType", "a string", Value::is_string);
    entry.repair_nested("annotations", |annotations| {
        annotations.remove_unless("audience", "a list of roles", is_audience);
        annotations.remove_unless("priority", "a number from 0 to 1", is_priority);
        annotations.remove_unless("lastModified", "a time with date and offset", is_timestamp);
    });
}

fn repair_prompt(prompt: &mut ObjectDraft) -> Result<(), EntryError> {
    let Some(arguments) = prompt.optional_list("arguments")? else {
        return Ok(());
    };
    prompt.repair_items("arguments", arguments, |prompt, argument, path| {
        let mut draft = prompt
            .item_draft(argument, path)
            .ok_or_else(|| prompt.unexpected_member(path, "an object"))?;
        draft.required_text("name")?;
        for member in ["title", "description"] {
            draft.remove_unless(member, "a string", Value::is_string);
        }
        draft.remove_null("required");
        // An invalid `required` is an error and not removed, because a required argument would
        // become optional.
        let required = draft.parsed_member("required");
        if required.is_some_and(|value| !value.is_boolean()) {
            return Err(draft.unexpected_member("required", "a boolean"));
        }
        Ok(Some(draft))
    })
}

/// Removes the icons that clients cannot show, and the malformed members of the other icons.
fn repair_icons(entry: &mut ObjectDraft) -> Result<(), EntryError> {
    let Ok(icons) = entry.optional_list("icons") else {
        entry.remove_unless("icons", "a list", |_| false);
        return Ok(());
    };
    entry.repair_items("icons", icons.unwrap_or_default(), |entry, icon, path| {
        let item = entry.item_draft(icon, path);
        let Some(mut draft) = item.filter(|icon| icon.required_text("src").is_ok()) else {
            let repair = format!("`{path}` has no `src` and was removed");
            entry.repairs.push(repair);
            return Ok(None);
        };
        draft.remove_unless("mimeType", "a string", Value::is_string);
        draft.remove_unless("sizes", "a list of strings", |sizes| {
            let items = sizes.as_array();
            items.is_some_and(|items| items.iter().all(Value::is_string))
        });
        draft.remove_unless("theme", "`light` or `dark`", |word| {
            is_one_of(word, &["light", "dark"])
        });
        Ok(Some(draft))
    })
}

fn is_one_of(value: &Value, words: &[&str]) -> bool {
    value.as_str().is_some_and(|word| words.contains(&word))
}

/// Returns whether a value is a valid `audience` of annotations.
pub(super) fn is_audience(value: &Value) -> bool {
    let is_role = |role: &Value| is_one_of(role, &["user", "assistant"]);
    let roles = value.as_array();
    roles.is_some_and(|roles| roles.iter().all(is_role))
}

/// Returns whether a value is a valid `priority` of annotations.
pub(super) fn is_priority(value: &Value) -> bool {
    let priority = value.as_f64();
    priority.is_some_and(|priority| (0.0..=1.0).contains(&priority))
}

/// Returns whether a value is an RFC 3339 time with seconds, as MCP clients require; fractions of
/// seconds are optional.
pub(super) fn is_timestamp(value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let matches_pattern = |text: &str, pattern: &str| {
        let fits = |(byte, pattern_byte): (u8, u8)| match pattern_byte {
            b'0' => byte.is_ascii_digit(),
            literal => byte == literal,
        };
        text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
    };
    let position = text.find(['Z', '+']).or_else(|| text.rfind('-'));
    let Some((date_time, offset)) = position.and_then(|index| text.split_at_checked(index)) else {
        return false;
    };
    let (whole_seconds, fraction) = date_time.split_once('.').unwrap_or((date_time, "0"));
    let has_valid_fraction =
        !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let has_valid_offset =
        offset == "Z" || (offset.starts_with(['+', '-']) && matches_pattern(&offset[1..], "00:00"));
    let fits_form = matches_pattern(whole_seconds, "0000-00-00T00:00:00")
        || (matches_pattern(whole_seconds, "0000-00-00T00:00") && !date_time.contains('.'));
    let is_at_most = |range: std::ops::Range<usize>, max: u8| {
        let digits = whole_seconds.get(range);
        let number = digits.and_then(|digits| digits.parse::<u8>().ok());
        number.is_none_or(|number| number <= max)
    };
    let has_valid_date = is_at_most(5..7, 12) && is_at_most(8..10, 31) && is_at_most(11..13, 23);
    fits_form && has_valid_fraction && has_valid_offset && has_valid_date && is_at_most(14..16, 59)
}
