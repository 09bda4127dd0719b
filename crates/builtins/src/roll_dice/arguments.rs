use pillion_core::tool::{JsonObject, ToolFailure};
use serde_json::Value;

use super::{Advantage, Notation, NotationError};

/// The argument names for the notation.
const NOTATION_PARAMETERS: [&str; 3] = ["notation", "formula", "dice"];

/// The arguments of one call.
pub(super) struct RollRequest {
    pub(super) notation: Notation,
    pub(super) seed: Option<u64>,
    pub(super) reason: Option<String>,
}

impl RollRequest {
    /// Reads the arguments, whose types the executor has already validated. `null` and empty
    /// strings count as absent.
    pub(super) fn from_arguments(arguments: &JsonObject) -> Result<Self, ToolFailure> {
        let mut notations = NOTATION_PARAMETERS
            .iter()
            .filter_map(|name| arguments.get(*name)?.as_str())
            .filter(|notation_text| !notation_text.trim().is_empty());
        let notation_text = notations.next().ok_or(NotationError::Empty)?;
        if notations.next().is_some() {
            return Err(ToolFailure::invalid_input(
                "Pass the dice only once: as 'notation', 'formula' or 'dice'",
            ));
        }
        let mut notation: Notation = notation_text.parse()?;
        let is_set = |name| arguments.get(name).and_then(Value::as_bool) == Some(true);
        if is_set("advantage") {
            notation.advantage = Some(Advantage::Advantage);
        } else if is_set("disadvantage") && notation.advantage.is_none() {
            notation.advantage = Some(Advantage::Disadvantage);
        }
        Ok(Self {
            notation,
            seed: parse_seed(arguments.get("seed"))?,
            reason: arguments
                .get("reason")
                .and_then(Value::as_str)
                .filter(|reason| !reason.is_empty())
                .map(str::to_owned),
        })
    }
}

/// Reads the seed. Negative seeds are valid; `5.0` is the integer 5 in JSON Schema.
fn parse_seed(value: Option<&Value>) -> Result<Option<u64>, ToolFailure> {
    let Some(Value::Number(number)) = value else {
        return Ok(None);
    };
    let integral_float = number.as_f64().filter(|float| float.trunc() == *float);
    number
        .as_u64()
        .or_else(|| number.as_i64().map(i64::cast_unsigned))
        .or_else(|| {
            i64::try_from(integral_float? as i128)
                .ok()
                .map(i64::cast_unsigned)
        })
        .map(Some)
        .ok_or_else(|| ToolFailure::invalid_input("The seed must be a 64-bit integer"))
}

impl From<NotationError> for ToolFailure {
    fn from(error: NotationError) -> Self {
        Self::invalid_input(error.to_string())
    }
}
