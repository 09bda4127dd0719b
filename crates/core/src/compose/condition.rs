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
    /// `exists`: the reference points to a value other than null.
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

/// The valid keys, for error messages.
const KEYS: &str =
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
        Self::parse_at(value, 0)
    }

    fn parse_at(value: Value, depth: usize) -> Result<Self, String> {
        if depth > MAX_DEPTH {
            return Err("the condition is nested too deeply".to_owned());
        }
        let one_key =
            || format!("a condition must be an object with exactly one of these keys: {KEYS}");
        let Value::Object(members) = value else {
            return Err(one_key());
        };
        let mut members = members.into_iter();
        let (Some((key, value)), None) = (members.next(), members.next()) else {
            return Err(one_key());
        };
        let comparison = match key.as_str() {
            "equals" => ComparisonOperator::Equals,
            "not_equals" => ComparisonOperator::NotEquals,
            "less" => ComparisonOperator::Less,
            "greater" => ComparisonOperator::Greater,
            "at_most" => ComparisonOperator::AtMost,
            "at_least" => ComparisonOperator::AtLeast,
            "in" => return pair(&key, value).map(Self::In),
            "exists" => {
                let Value::String(pointer) = value else {
                    return Err("'exists' must be a reference such as \"/steps/a/data\"".to_owned());
                };
                return Pointer::parse(&pointer).map(Self::Exists);
            }
            "all" => return several(&key, value, depth).map(Self::All),
            "any" => return several(&key, value, depth).map(Self::Any),
            "not" => {
                let inner = Self::parse_at(value, depth + 1)?;
                return Ok(Self::Not(Box::new(inner)));
            }
            _ => return Err(format!("unknown condition '{key}': expected one of {KEYS}")),
        };
        Ok(Self::Compare(comparison, pair(&key, value)?))
    }

    /// Returns whether the condition is true.
    pub(super) fn holds(&self, scope: &ReferenceScope<'_>) -> Result<bool, ConditionError> {
        let fill = |template: &Template| template.fill(scope).map_err(ConditionError::MissingValue);
        match self {
            Self::Compare(comparison, sides) => {
                comparison.holds(&fill(&sides.0)?, &fill(&sides.1)?)
            }
            Self::In(sides) => {
                let (one, many) = (fill(&sides.0)?, fill(&sides.1)?);
                let Value::Array(many) = many else {
                    return Err(ConditionError::WrongType(
                        "the second value of 'in' must be an array",
                    ));
                };
                Ok(many.iter().any(|item| json_equal(&one, item)))
            }
            Self::Exists(pointer) => Ok(scope.find(pointer).is_some_and(|value| !value.is_null())),
            Self::All(conditions) => {
                for condition in conditions {
                    if !condition.holds(scope)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(conditions) => {
                for condition in conditions {
                    if condition.holds(scope)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(condition) => condition.holds(scope).map(|holds| !holds),
        }
    }

    /// Calls `visit` with each reference, and with whether the reference may point to nothing.
    pub(super) fn for_each_reference(&self, visit: &mut impl FnMut(&Pointer, bool)) {
        match self {
            Self::Compare(_, sides) | Self::In(sides) => {
                sides.0.for_each_reference(visit);
                sides.1.for_each_reference(visit);
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
    fn holds(self, one: &Value, other: &Value) -> Result<bool, ConditionError> {
        match self {
            Self::Equals => return Ok(json_equal(one, other)),
            Self::NotEquals => return Ok(!json_equal(one, other)),
            _ => {}
        }
        let order = match (whole(one), whole(other)) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => match (one.as_f64(), other.as_f64()) {
                (Some(one), Some(other)) => one.partial_cmp(&other),
                _ => None,
            },
        };
        let Some(order) = order else {
            return Err(ConditionError::WrongType(
                "'less', 'greater', 'at_most' and 'at_least' compare numbers only",
            ));
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
fn whole(value: &Value) -> Option<i128> {
    value
        .as_i64()
        .map(i128::from)
        .or_else(|| value.as_u64().map(i128::from))
}

/// Returns whether two values are equal; 1 equals 1.0.
fn json_equal(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(a), Some(b)) if one.is_f64() || other.is_f64() => a == b,
        _ => one == other,
    }
}

fn pair(key: &str, value: Value) -> Result<Box<(Template, Template)>, String> {
    let expected = || format!("'{key}' must be an array of two values");
    let Value::Array(sides) = value else {
        return Err(expected());
    };
    let mut sides = sides
        .into_iter()
        .map(|side| Template::parse(side).map_err(|(path, what)| format!("{key}{path}: {what}")));
    match (sides.next(), sides.next(), sides.next()) {
        (Some(one), Some(other), None) => Ok(Box::new((one?, other?))),
        _ => Err(expected()),
    }
}

fn several(key: &str, value: Value, depth: usize) -> Result<Vec<StepCondition>, String> {
    match value {
        Value::Array(items) if !items.is_empty() => items
            .into_iter()
            .map(|item| StepCondition::parse_at(item, depth + 1))
            .collect(),
        _ => Err(format!("'{key}' must be a non-empty array of conditions")),
    }
}
