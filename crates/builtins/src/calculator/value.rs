use std::fmt;

use evalexpr::Value;
use serde_json::json;

use super::number::Number;

/// The result of an expression.
///
/// `Display` writes the text for the model: whole floats as integers, other floats with six
/// significant digits, lists in square brackets with items in the same format.
/// [`to_json`](Self::to_json) keeps every digit.
///
/// ```
/// use pillion_builtins::calculator::evaluate;
/// assert_eq!(evaluate("6.0")?.to_string(), "6");
/// assert_eq!(evaluate("1234567.891")?.to_string(), "1.23457e+06");
/// assert_eq!(evaluate("2**100")?.to_string(), "1.26765e+30");
/// assert_eq!(evaluate("1, [2.5]")?.to_string(), "[1, [2.5]]");
/// # Ok::<(), pillion_builtins::calculator::CalculatorError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum CalculatedValue {
    /// An exact integer of 64 bits.
    Int(i64),
    /// A float, which is never infinite or NaN.
    Float(f64),
    /// A list or a tuple of values.
    List(Vec<CalculatedValue>),
}

impl CalculatedValue {
    /// Returns the value as JSON. A whole float stays a float (`6.0`).
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Int(int) => json!(int),
            Self::Float(float) => json!(float),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
        }
    }

    /// Returns the name of the value's type: `int`, `float` or `list`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::List(_) => "list",
        }
    }

    /// Converts a value of evalexpr. Returns `None` for strings, booleans and the empty value,
    /// which trees of the calculator never produce.
    pub(super) fn from_evalexpr(value: Value) -> Option<Self> {
        if let Value::Tuple(items) = value {
            let items: Option<_> = items.into_iter().map(Self::from_evalexpr).collect();
            return items.map(Self::List);
        }
        Number::from_evalexpr(&value).map(|number| match number {
            Number::Int(int) => Self::Int(int),
            Number::Float(float) => Self::Float(float),
        })
    }
}

impl fmt::Display for CalculatedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => int.fmt(f),
            Self::Float(float) => f.write_str(&format_float(*float)),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{item}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Formats a float. A whole float that fits 64 bits is formatted as an integer, and `-0.0` as `0`.
fn format_float(float: f64) -> String {
    let int = float as i64;
    if int != i64::MAX && int as f64 == float {
        int.to_string()
    } else {
        format_six_digits(float)
    }
}

/// Formats a float like C's `%.6g`.
fn format_six_digits(float: f64) -> String {
    // Rounds to six digits, ties to even, as C does; the exponent is the exponent of the rounded
    // value.
    let scientific_text = format!("{float:.5e}");
    let (mantissa, exponent_text) = scientific_text
        .split_once('e')
        .unwrap_or((&scientific_text, "0"));
    let exponent: i32 = exponent_text.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trim_trailing_zeros(&format!("{float:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let trimmed_mantissa = trim_trailing_zeros(mantissa);
    format!("{trimmed_mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn trim_trailing_zeros(decimal: &str) -> &str {
    if decimal.contains('.') {
        decimal.trim_end_matches('0').trim_end_matches('.')
    } else {
        decimal
    }
}
