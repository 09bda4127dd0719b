use std::sync::Arc;

use pillion_core::tool::{Tool, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::tool as make;
use crate::arguments::{MAX_NAME_LEN, find_argument, name, text};
use crate::failure::store_failure;
use crate::scenes::Scenes;

/// Maximum length of a character's description, in characters.
const MAX_DESCRIPTION_LEN: usize = 2_000;

/// The tool `list_characters {}` -> `{characters: [name]}`.
pub(super) fn list(scenes: &Arc<Scenes>) -> Arc<dyn Tool> {
    let schema = json!({"type": "object", "properties": {}, "required": []});
    let description = "Lists the names of the characters at the table.";
    make(
        "list_characters",
        description,
        schema,
        scenes,
        |scenes, _, _| async move {
            let characters = scenes
                .characters()
                .await
                .map_err(|error| store_failure(&error))?;
            let text = if characters.is_empty() {
                "There are no characters yet".to_owned()
            } else {
                characters.join(", ")
            };
            Ok(ToolOutput::text(text).with_data(json!({"characters": characters})))
        },
    )
}

/// The tool `save_character {name, description?}` -> `{name, is_new}`, which adds characters.
pub(super) fn save(scenes: &Arc<Scenes>) -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "At most 64 characters"},
            "description": {"type": "string", "description": "Who that is"},
        },
        "required": ["name"],
    });
    let description = "Puts a character at the table, or changes the description of one.";
    make(
        "save_character",
        description,
        schema,
        scenes,
        |scenes, arguments, _| async move {
            let name = name(&arguments, "name", MAX_NAME_LEN)?;
            let has_description = find_argument(&arguments, "description")
                .and_then(Value::as_str)
                .is_some_and(|description| !description.trim().is_empty());
            let description = if has_description {
                text(&arguments, "description", MAX_DESCRIPTION_LEN)?
            } else {
                String::new()
            };
            let is_new = scenes
                .save_character(&name, &description)
                .await
                .map_err(|error| store_failure(&error))?;
            let text = if is_new {
                format!("{name} is at the table")
            } else {
                format!("{name} has changed")
            };
            let data = json!({"name": name, "is_new": is_new});
            Ok::<_, ToolFailure>(ToolOutput::text(text).with_data(data))
        },
    )
}
