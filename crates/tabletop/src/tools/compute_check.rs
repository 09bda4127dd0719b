use std::sync::Arc;

use pillion_core::tool::{JsonObject, Tool, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::tool as make;
use crate::arguments::{find_argument, invalid_argument, seed};
use crate::check::{Check, CheckDisplay, rolls};
use crate::dice::D20;

/// The tool `compute_check {check: {ability, score, ...}, d20_rolls?, seed?}`. The members of
/// `check` may also be top-level arguments.
pub(super) fn tool() -> Arc<dyn Tool> {
    let mut members = json!({
        "ability": {"type": "string", "description": "STR, DEX, CON, INT, WIS or CHA"},
        "score": {"type": "integer", "description": "The ability's score; 10 is average"},
        "proficient": {"type": "boolean", "default": false},
        "expertise": {"type": "boolean", "default": false,
            "description": "The proficiency bonus counts twice"},
        "proficiency_bonus": {"type": "integer", "default": 2},
        "dc": {"type": ["integer", "null"], "description": "What the total has to reach"},
        "advantage": {"type": "boolean", "default": false},
        "disadvantage": {"type": "boolean", "default": false},
    });
    let check = json!({
        "type": "object",
        "description": "The check. Its members may stand beside 'seed' as well",
        "properties": members,
    });
    // Default values in the schema of top-level members would look like a second check.
    for member in members.as_object_mut().into_iter().flatten() {
        if let Some(member) = member.1.as_object_mut() {
            member.shift_remove("default");
        }
    }
    let mut properties = json!({
        "check": check,
        "d20_rolls": {"type": "array", "items": {"type": "integer"},
            "description": "Throws that were made already, in place of new ones"},
        "seed": {"type": "integer", "description": "Equal seeds give equal throws"},
    });
    if let (Some(all), Value::Object(flat)) = (properties.as_object_mut(), members) {
        all.extend(flat);
    }
    let schema = json!({"type": "object", "properties": properties, "required": []});
    let description = "Makes an ability check: a d20, or two with advantage or disadvantage, and the \
                       modifier against a difficulty class.";
    make(
        "compute_check",
        description,
        schema,
        &Arc::new(()),
        |_, arguments, _| async move { run(&arguments) },
    )
}

fn run(arguments: &JsonObject) -> Result<ToolOutput, ToolFailure> {
    let check = match find_argument(arguments, "check") {
        None => Check::read(arguments)?,
        Some(Value::Object(check)) => Check::read(check)?,
        Some(_) => return Err(invalid_argument("check", "must be an object")),
    };
    let result = match rolls(arguments)?.split_first() {
        Some((first, others)) => check.evaluate(*first, others),
        None => check.throw(&mut D20::for_call(seed(arguments, "seed")?)?),
    };
    let text = CheckDisplay(&check, &result).to_string();
    Ok(ToolOutput::text(text).with_data(json!(result)))
}
