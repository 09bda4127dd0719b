use std::sync::Arc;

use pillion_core::tool::{JsonObject, Tool, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::create_tool;
use crate::arguments::{find_argument, invalid_argument, read_seed};
use crate::check::{Check, CheckDisplay, read_rolls};
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
        "dc": {"type": ["integer", "null"], "description": "The difficulty class"},
        "advantage": {"type": "boolean", "default": false},
        "disadvantage": {"type": "boolean", "default": false},
    });
    let check = json!({
        "type": "object",
        "description": "The check. The members of the check may also be top-level arguments",
        "properties": members,
    });
    // Removes the defaults, because models would read default values of top-level members as a
    // second check.
    for (_, member) in members.as_object_mut().into_iter().flatten() {
        if let Some(member_schema) = member.as_object_mut() {
            member_schema.shift_remove("default");
        }
    }
    let mut properties = json!({
        "check": check,
        "d20_rolls": {"type": "array", "items": {"type": "integer"},
            "description": "Rolls that were already made; the tool then does not roll the die"},
        "seed": {"type": "integer", "description": "Equal seeds give equal rolls"},
    });
    if let (Some(all_properties), Value::Object(check_properties)) =
        (properties.as_object_mut(), members)
    {
        all_properties.extend(check_properties);
    }
    let schema = json!({"type": "object", "properties": properties, "required": []});
    let description = "Makes an ability check: rolls a d20, or two d20 with advantage or \
                       disadvantage, adds the modifier, and compares the total with a difficulty \
                       class.";
    create_tool(
        "compute_check",
        description,
        schema,
        &Arc::new(()),
        |_, arguments, _| async move { run(&arguments) },
    )
}

fn run(arguments: &JsonObject) -> Result<ToolOutput, ToolFailure> {
    let check = match find_argument(arguments, "check") {
        None => Check::from_arguments(arguments)?,
        Some(Value::Object(check)) => Check::from_arguments(check)?,
        Some(_) => return Err(invalid_argument("check", "must be an object")),
    };
    let result = match read_rolls(arguments)?.split_first() {
        Some((first_roll, other_rolls)) => check.evaluate(*first_roll, other_rolls),
        None => check.throw(&mut D20::for_call(read_seed(arguments, "seed")?)?),
    };
    let text = CheckDisplay(&check, &result).to_string();
    Ok(ToolOutput::text(text).with_data(json!(result)))
}
