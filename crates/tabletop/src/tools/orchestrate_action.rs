use std::sync::Arc;

use pillion_core::tool::{JsonObject, Tool, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::tool as make;
use crate::arguments::{
    MAX_NAME_LEN, MAX_SCENE_LEN, find_argument, integer, invalid_argument, name, seed, text,
};
use crate::orchestrator::{Action, Orchestrator};

/// Maximum length of a player's message, in characters.
const MAX_MESSAGE_LEN: usize = 4_000;

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
                "description": "The only characters that the narration may name; everybody by default"},
            "rng_seed": {"type": "integer", "description": "Equal seeds give equal throws"},
            "options": {
                "type": "object",
                "properties": {
                    "prompt_token_cap": {"type": "integer", "minimum": 1, "description": "About how \
                        many tokens the model is told at most: of the transcript the oldest is left \
                        out"},
                    "visibility": {"type": "string", "enum": ["shadow", "public"], "description":
                        "public: what is accepted is written into the transcript, where the operator \
                        allows it. Default shadow"},
                },
            },
        },
        "required": ["scene_id", "player_msg"],
    });
    let description = "Lets a language model propose the ability check that a player's action takes, \
                       holds the proposal against the rules, throws the die, and narrates.";
    make(
        "orchestrate_action",
        description,
        schema,
        orchestrator,
        |orchestrator, arguments, context| async move {
            let action = action(&arguments)?;
            let (result, is_duplicate) = orchestrator.run(action, &context).await?;
            let mut output = ToolOutput::text(result.text.clone()).with_data(result.data.clone());
            if is_duplicate {
                output = output.with_metadata("duplicate", json!(true));
            }
            Ok(output)
        },
    )
}

fn action(arguments: &JsonObject) -> Result<Action, ToolFailure> {
    let empty = JsonObject::new();
    let options = match find_argument(arguments, "options") {
        None => &empty,
        Some(Value::Object(options)) => options,
        Some(_) => return Err(invalid_argument("options", "must be an object")),
    };
    let prompt_token_cap = integer(options, "prompt_token_cap", MAX_TOKENS)?.map(|cap| {
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
        scene: name(arguments, "scene_id", MAX_SCENE_LEN)?,
        message: text(arguments, "player_msg", MAX_MESSAGE_LEN)?,
        allowed_actors: actors(arguments)?,
        seed: seed(arguments, "rng_seed")?,
        prompt_token_cap: prompt_token_cap.transpose()?,
        is_public,
    })
}

fn actors(arguments: &JsonObject) -> Result<Vec<String>, ToolFailure> {
    let bad = || {
        let how = format!("must have at most {MAX_ACTORS} names of 1 to {MAX_NAME_LEN} characters");
        invalid_argument("allowed_actors", &how)
    };
    let Some(value) = find_argument(arguments, "allowed_actors") else {
        return Ok(Vec::new());
    };
    let actors = value.as_array().ok_or_else(bad)?;
    if actors.len() > MAX_ACTORS {
        return Err(bad());
    }
    let fits = |name: &&str| (1..=MAX_NAME_LEN).contains(&name.chars().count());
    actors
        .iter()
        .map(|actor| actor.as_str().filter(fits).map(str::to_owned))
        .collect::<Option<_>>()
        .ok_or_else(bad)
}
