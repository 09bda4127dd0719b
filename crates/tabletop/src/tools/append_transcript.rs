use std::sync::Arc;

use pillion_core::tool::{Tool, ToolFailure, ToolOutput};
use serde_json::json;

use super::create_tool;
use crate::arguments::{MAX_NAME_CHARS, MAX_SCENE_ID_CHARS, read_flag, read_name, read_text};
use crate::failure::store_failure;
use crate::scenes::{SceneMessage, Scenes};

/// Maximum length of a message, in characters.
const MAX_MESSAGE_CHARS: usize = 8_000;

/// The tool `append_transcript {scene_id, author, message, ooc?}` -> `{ok, message_id, timestamp}`.
pub(super) fn tool(scenes: &Arc<Scenes>) -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "scene_id": {"type": "string", "description": "The scene. The first message of a scene \
                creates the scene. At most 100 characters"},
            "author": {"type": "string", "description": "The author of the message. At most 64 \
                characters. The model does not see messages of 'system'"},
            "message": {"type": "string", "description": "The text. At most 8000 characters"},
            "ooc": {"type": "boolean", "default": false,
                "description": "Out of character: from the player, not from the character"},
        },
        "required": ["scene_id", "author", "message"],
    });
    let description = "Adds a message to the transcript of a scene.";
    create_tool(
        "append_transcript",
        description,
        schema,
        scenes,
        |scenes, arguments, _| async move {
            let scene = read_name(&arguments, "scene_id", MAX_SCENE_ID_CHARS)?;
            let scene_message = SceneMessage {
                author: read_name(&arguments, "author", MAX_NAME_CHARS)?,
                message: read_text(&arguments, "message", MAX_MESSAGE_CHARS)?,
                ooc: read_flag(&arguments, "ooc")?,
            };
            let message = scenes
                .append(&scene, scene_message)
                .await
                .map_err(|error| store_failure(&error))?;
            let text = format!("Message {} of the scene {scene}", message.message_id);
            let data = json!({
                "ok": true,
                "message_id": message.message_id,
                "timestamp": message.timestamp,
            });
            Ok::<_, ToolFailure>(ToolOutput::text(text).with_data(data))
        },
    )
}
