use std::sync::Arc;

use pillion_core::tool::{Tool, ToolFailure, ToolOutput};
use serde_json::json;

use super::tool as make;
use crate::arguments::{MAX_NAME_LEN, MAX_SCENE_LEN, flag, name, text};
use crate::failure::store_failure;
use crate::scenes::{SceneMessage, Scenes};

/// Maximum length of a message, in characters.
const MAX_MESSAGE_LEN: usize = 8_000;

/// The tool `append_transcript {scene_id, author, message, ooc?}` -> `{ok, message_id, timestamp}`.
pub(super) fn tool(scenes: &Arc<Scenes>) -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "scene_id": {"type": "string", "description": "The scene; a new one begins with its first \
                message. At most 100 characters"},
            "author": {"type": "string", "description": "Who says it: at most 64 characters. What \
                'system' says is not told to the model"},
            "message": {"type": "string", "description": "At most 8000 characters"},
            "ooc": {"type": "boolean", "default": false,
                "description": "Out of character: said by the player"},
        },
        "required": ["scene_id", "author", "message"],
    });
    let description = "Writes a message into the transcript of a scene.";
    make(
        "append_transcript",
        description,
        schema,
        scenes,
        |scenes, arguments, _| async move {
            let scene = name(&arguments, "scene_id", MAX_SCENE_LEN)?;
            let line = SceneMessage {
                author: name(&arguments, "author", MAX_NAME_LEN)?,
                message: text(&arguments, "message", MAX_MESSAGE_LEN)?,
                ooc: flag(&arguments, "ooc")?,
            };
            let message = scenes
                .append(&scene, line)
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
