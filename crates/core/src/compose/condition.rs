use serde_json::Value;

use super::MAX_DEPTH;
use super::pointer::Pointer;
use super::template::{ReferenceScope, Template};

/// The condition of a step: an object with one key, which names the comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StepCondition {
    Compare(ComparisonOperator, Box<(Template, Template)>),
    /// `in`: the first value is an item of the second value, which is a list.
    In(Box<(Template, Template)>),
    /// `exists`: the reference points to an existing value other than null.
    Exists(Pointer),
    All(Vec<StepCondition>),
    Any(Vec<StepCondition>),
    Not(Box<StepCondition>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComparisonOperator {
    Equals,
    NotEquals,
    Less,
    Greater,
    AtMost,
    AtLeast,
}

/// The valid keys of a condition, as error messages list them.
const CONDITION_KEYS: &str =
    "equals, not_equals, less, greater, at_most, at_least, in, exists, all, any and not";

/// Why a condition cannot be evaluated.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConditionError {
    /// A reference of the condition points to no value.
    MissingValue(Pointer),
    /// The values have the wrong type: `less` compares numbers, `in` requires a list.
    WrongType(&'static str),
}

impl StepCondition {
    /// Parses a condition, or returns why the condition is invalid.
    pub(super) fn parse(value: Value) -> Result<Self, String> {
        Self::parse_nested(value, 0)
    }

    fn parse_nested(value: Value, depth: usize) -> Result<Self, String> {
        if depth > MAX_DEPTH {
            let reason = format!("the condition is nested more than {MAX_DEPTH} levels deep");
            return Err(reason);
        }
        let form_error = || {
            format!(
                "a condition must be an object with exactly one of these keys: {CONDITION_KEYS}"
            )
        };
        let Value::Object(members) = value else {
            return Err(form_error());
        };
        let mut members = members.into_iter();
        let (Some((key, value)), None) = (members.next(), members.next()) else {
            return Err(form_error());
        };
        let operator = match key.as_str() {
            "equals" => ComparisonOperator::Equals,
            "not_equals" => ComparisonOperator::NotEquals,
            "less" => ComparisonOperator::Less,
            "greater" => ComparisonOperator::Greater,
            "at_most" => ComparisonOperator::AtMost,
            "at_least" => ComparisonOperator::AtLeast,
            "in" => return parse_pair(&key, value).map(Self::In),
            "exists" => {
                let Value::String(pointer) = value else {
                    return Err("'exists' must be a reference such as \"/steps/a/data\"".to_owned());
                };
                return Pointer::parse(&pointer).map(Self::Exists);
            }
            "all" => return parse_conditions(&key, value, depth).map(Self::All),
            "any" => return parse_conditions(&key, value, depth).map(Self::Any),
            "not" => {
                let negated_condition = Self::parse_nested(value, depth + 1)?;
                return Ok(Self::Not(Box::new(negated_condition)));
            }
            _ => {
                return Err(format!(
                    "unknown condition '{key}': expected one of {CONDITION_KEYS}"
                ));
            }
        };
        Ok(Self::Compare(operator, parse_pair(&key, value)?))
    }

    /// Returns whether the condition is true.
    pub(super) fn is_met(&self, scope: &ReferenceScope<'_>) -> Result<bool, ConditionError> {
        let fill = |template: &Template| template.fill(scope).map_err(ConditionError::MissingValue);
        match self {
            Self::Compare(operator, operands) => {
                operator.is_met(&fill(&operands.0)?, &fill(&operands.1)?)
            }
            Self::In(operands) => {
                let (item, list) = (fill(&operands.0)?, fill(&operands.1)?);
                let Value::Array(list) = list else {
                    let reason = "the second value of 'in' must be an array";
                    return Err(ConditionError::WrongType(reason));
                };
                Ok(list.iter().any(|list_item| json_equal(&item, list_item)))
            }
            Self::Exists(pointer) => Ok(scope.find(pointer).is_some_and(|value| !value.is_null())),
            Self::All(conditions) => {
                for condition in conditions {
                    if !condition.is_met(scope)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(conditions) => {
                for condition in conditions {
                    if condition.is_met(scope)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(condition) => condition.is_met(scope).map(|is_met| !is_met),
        }
    }

    /// Calls `visit` for each reference; the second argument is whether the reference may point to
    /// nothing.
    pub(super) fn for_each_reference(&self, visit: &mut impl FnMut(&Pointer, bool)) {
        match self {
            Self::Compare(_, operands) | Self::In(operands) => {
                operands.0.for_each_reference(visit);
                operands.1.for_each_reference(visit);
            }
            Self::Exists(pointer) => visit(pointer, true),
            Self::All(conditions) | Self::Any(conditions) => {
                for condition in conditions {
                    condition.for_each_reference(visit);
                }
            }
            Self::Not(condition) => condition.for_each_reference(visit),
        }
    }
}

impl ComparisonOperator {
    fn is_met(self, first: &Value, second: &Value) -> Result<bool, ConditionError> {
        match self {
            Self::Equals => return Ok(json_equal(first, second)),
            Self::NotEquals => return Ok(!json_equal(first, second)),
            _ => {}
        }
        let order = match (to_integer(first), to_integer(second)) {
            (Some(first), Some(second)) => Some(first.cmp(&second)),
            _ => match (first.as_f64(), second.as_f64()) {
                (Some(first), Some(second)) => first.partial_cmp(&second),
                _ => None,
            },
        };
        let Some(order) = order else {
            let reason = "'less', 'greater', 'at_most' and 'at_least' compare numbers only";
            return Err(ConditionError::WrongType(reason));
        };
        Ok(match self {
            Self::Less => order.is_lt(),
            Self::Greater => order.is_gt(),
            Self::AtMost => order.is_le(),
            _ => order.is_ge(),
        })
    }
}

/// Returns the value as an exact integer, if it is one; a float cannot represent every integer.
fn to_integer(value: &Value) -> Option<i128> {
    value
        .as_i64()
        .map(i128::from)
        .or_else(|| value.as_u64().map(i128::from))
}

/// Returns whether two values are equal; 1 equals 1.0.
fn json_equal(first: &Value, second: &Value) -> bool {
    match (first.as_f64(), second.as_f64()) {
        (Some(first_number), Some(second_number)) if first.is_f64() || second.is_f64() => {
            first_number == second_number
        }
        _ => first == second,
    }
}

fn parse_pair(key: &str, value: Value) -> Result<Box<(Template, Template)>, String> {
    let form_error = || format!("'{key}' must be an array of two values");
    let Value::Array(operands) = value else {
        return Err(form_error());
    };
    let mut operands = operands.into_iter().map(|operand| {
        Template::parse(operand).map_err(|(path, reason)| format!("{key}{path}: {reason}"))
    });
    match (operands.next(), operands.next(), operands.next()) {
        (Some(first), Some(second), None) => Ok(Box::new((first?, second?))),
        _ => Err(form_error()),
    }
}

fn parse_conditions(key: &str, value: Value, depth: usize) -> Result<Vec<StepCondition>, String> {
    match value {
        Value::Array(items) if !items.is_empty() => items
            .into_iter()
            .map(|item| StepCondition::parse_nested(item, depth + 1))
            .collect(),
        _ => Err(format!("'{key}' must be a non-empty array of conditions")),
    }
}
