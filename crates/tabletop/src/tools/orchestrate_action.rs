use std::sync::Arc;

use pillion_core::tool::{JsonObject, Tool, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::create_tool;
use crate::arguments::{
    MAX_NAME_CHARS, MAX_SCENE_ID_CHARS, find_argument, invalid_argument, read_integer, read_name,
    read_seed, read_text,
};
use crate::orchestrator::{Action, Orchestrator};

/// Maximum length of a player's message, in characters.
const MAX_MESSAGE_CHARS: usize = 4_000;

/// Maximum number of allowed actors.
const MAX_ACTORS: usize = 200;

/// Maximum value of the prompt's token limit.
const MAX_TOKENS: i64 = 1_000_000;

/// The tool `orchestrate_action {scene_id, player_msg, allowed_actors?, rng_seed?, options?}`.
pub(super) fn tool(orchestrator: &Arc<Orchestrator>) -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "scene_id": {"type": "string", "description": "The scene"},
            "player_msg": {"type": "string", "description": "What the player wants to do"},
            "allowed_actors": {"type": "array", "items": {"type": "string"},
                "description": "The only characters that the narration may name. Default: all"},
            "rng_seed": {"type": "integer", "description": "Equal seeds give equal rolls"},
            "options": {
                "type": "object",
                "properties": {
                    "prompt_token_cap": {"type": "integer", "minimum": 1, "description":
                        "Approximate maximum number of tokens of the prompt. The oldest messages \
                        of the transcript are omitted"},
                    "visibility": {"type": "string", "enum": ["shadow", "public"], "description":
                        "public: an accepted narration is added to the transcript, if the operator \
                        allows public actions. Default: shadow"},
                },
            },
        },
        "required": ["scene_id", "player_msg"],
    });
    let description = "Lets a language model propose an ability check for a player's action, \
                       checks the proposal against the rules, rolls the die, and returns the \
                       narration.";
    create_tool(
        "orchestrate_action",
        description,
        schema,
        orchestrator,
        |orchestrator, arguments, context| async move {
            let action = parse_action(&arguments)?;
            let (result, is_duplicate) = orchestrator.run(action, &context).await?;
            let mut output = ToolOutput::text(result.text.clone()).with_data(result.data.clone());
            if is_duplicate {
                output = output.with_metadata("duplicate", json!(true));
            }
            Ok(output)
        },
    )
}

fn parse_action(arguments: &JsonObject) -> Result<Action, ToolFailure> {
    let no_options = JsonObject::new();
    let options = match find_argument(arguments, "options") {
        None => &no_options,
        Some(Value::Object(options)) => options,
        Some(_) => return Err(invalid_argument("options", "must be an object")),
    };
    let prompt_token_cap = read_integer(options, "prompt_token_cap", MAX_TOKENS)?.map(|cap| {
        u32::try_from(cap)
            .ok()
            .filter(|cap| *cap > 0)
            .ok_or_else(|| invalid_argument("prompt_token_cap", "must be 1 or more"))
    });
    let is_public = match find_argument(options, "visibility").map(Value::as_str) {
        None | Some(Some("shadow")) => false,
        Some(Some("public")) => true,
        Some(_) => return Err(invalid_argument("visibility", "must be shadow or public")),
    };
    Ok(Action {
        scene: read_name(arguments, "scene_id", MAX_SCENE_ID_CHARS)?,
        message: read_text(arguments, "player_msg", MAX_MESSAGE_CHARS)?,
        allowed_actors: parse_actors(arguments)?,
        seed: read_seed(arguments, "rng_seed")?,
        prompt_token_cap: prompt_token_cap.transpose()?,
        is_public,
    })
}

fn parse_actors(arguments: &JsonObject) -> Result<Vec<String>, ToolFailure> {
    let invalid_actors = || {
        let requirement =
            format!("must have at most {MAX_ACTORS} names of 1 to {MAX_NAME_CHARS} characters");
        invalid_argument("allowed_actors", &requirement)
    };
    let Some(value) = find_argument(arguments, "allowed_actors") else {
        return Ok(Vec::new());
    };
    let actors = value.as_array().ok_or_else(invalid_actors)?;
    if actors.len() > MAX_ACTORS {
        return Err(invalid_actors());
    }
    let has_valid_length = |name: &&str| (1..=MAX_NAME_CHARS).contains(&name.chars().count());
    actors
        .iter()
        .map(|actor| actor.as_str().filter(has_valid_length).map(str::to_owned))
        .collect::<Option<_>>()
        .ok_or_else(invalid_actors)
}
