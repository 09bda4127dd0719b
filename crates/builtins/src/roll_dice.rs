//! Dice in the notation of tabletop games.

mod arguments;
mod notation;
mod random;
mod roll;

use std::sync::Arc;

use pillion_core::tool::{
    CallContext, JsonObject, ParameterType, Tool, ToolDefinition, ToolFailure, ToolFuture,
    ToolOutput, ToolParameter,
};
use serde_json::json;

use arguments::RollRequest;
pub use notation::{Advantage, KeepRule, Notation, NotationError};
pub use random::Dice;
pub use roll::{Crit, Roll};

/// The tool `roll_dice`. Arguments: a notation as `notation`, `formula` or `dice`, and optionally
/// `advantage`, `disadvantage`, `seed` and `reason`. Result: text for the model and `data = {rolls,
/// kept, total, crit, expr, count, sides, modifier}`, with `reason` if there is one.
#[derive(Debug, Clone)]
pub struct RollDice {
    definition: ToolDefinition,
}

impl Default for RollDice {
    fn default() -> Self {
        let create_text_parameter = |name: &str, description: &str| {
            ToolParameter::new(name, ParameterType::String)
                .describe(description)
                .optional()
        };
        let create_flag_parameter = |name: &str, description: &str| {
            ToolParameter::new(name, ParameterType::Boolean)
                .describe(description)
                .optional()
        };
        let definition = ToolDefinition::builder(
            "roll_dice",
            "Roll dice using standard notation (e.g., '2d6', '1d20+5', '4d6kh3').",
        )
        .category("fun")
        .parameters([
            create_text_parameter(
                "notation",
                "Dice notation (e.g., '2d6', '1d20+5', '3d6kh2' for keep highest 2). Pass \
                 only one of 'notation', 'formula' and 'dice'",
            ),
            create_text_parameter("formula", "Alias of 'notation'"),
            create_text_parameter("dice", "Alias of 'notation'"),
            create_flag_parameter("advantage", "Roll a single d20 twice and keep the higher"),
            create_flag_parameter("disadvantage", "Roll a single d20 twice and keep the lower"),
            ToolParameter::new("seed", ParameterType::Integer)
                .describe("Equal seeds give equal rolls")
                .optional(),
            create_text_parameter("reason", "What the roll is for"),
        ])
        .build()
        .expect("the definition is constant and a test builds it");
        Self { definition }
    }
}

impl Tool for RollDice {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(self: Arc<Self>, arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async move { run(&arguments) })
    }
}

fn run(arguments: &JsonObject) -> Result<ToolOutput, ToolFailure> {
    let request = RollRequest::from_arguments(arguments)?;
    let mut dice = match request.seed {
        Some(seed) => Dice::from_seed(seed),
        None => Dice::from_system().map_err(|_| {
            ToolFailure::internal("The operating system's random number generator failed")
        })?,
    };
    let roll = request.notation.roll(&mut dice);
    let mut data = roll.to_json();
    if let Some(reason) = request.reason {
        data["reason"] = json!(reason);
    }
    Ok(ToolOutput::text(roll.to_string()).with_data(data))
}
