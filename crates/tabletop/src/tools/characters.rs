use std::sync::Arc;

use pillion_core::tool::{Tool, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::create_tool;
use crate::arguments::{MAX_NAME_CHARS, find_argument, read_name, read_text};
use crate::failure::store_failure;
use crate::scenes::Scenes;

/// Maximum length of a character's description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 2_000;

/// The tool `list_characters {}` -> `{characters: [name]}`.
pub(super) fn list_tool(scenes: &Arc<Scenes>) -> Arc<dyn Tool> {
    let schema = json!({"type": "object", "properties": {}, "required": []});
    let description = "Lists the names of the characters at the table.";
    create_tool(
        "list_characters",
        description,
        schema,
        scenes,
        |scenes, _, _| async move {
            let characters = scenes
                .list_characters()
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

/// The tool `save_character {name, description?}` -> `{name, is_new}`, which adds or replaces a
/// character.
pub(super) fn save_tool(scenes: &Arc<Scenes>) -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name, of at most 64 characters"},
            "description": {"type": "string", "description": "The description of the character"},
        },
        "required": ["name"],
    });
    let description = "Adds a character to the table, or changes the description of a character.";
    create_tool(
        "save_character",
        description,
        schema,
        scenes,
        |scenes, arguments, _| async move {
            let name = read_name(&arguments, "name", MAX_NAME_CHARS)?;
            let has_description = find_argument(&arguments, "description")
                .and_then(Value::as_str)
                .is_some_and(|description| !description.trim().is_empty());
            let description = if has_description {
                read_text(&arguments, "description", MAX_DESCRIPTION_CHARS)?
            } else {
                String::new()
            };
            let is_new = scenes
                .save_character(&name, &description)
                .await
                .map_err(|error| store_failure(&error))?;
            let text = if is_new {
                format!("Added the character {name}")
            } else {
                format!("Changed the character {name}")
            };
            let data = json!({"name": name, "is_new": is_new});
            Ok::<_, ToolFailure>(ToolOutput::text(text).with_data(data))
        },
    )
}
