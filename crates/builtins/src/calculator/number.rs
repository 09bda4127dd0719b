use std::cmp::Ordering;

use evalexpr::Value;

use super::ArithmeticError;

/// An int or a finite float. Python distinguishes ints from floats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    /// Creates a float number.
    ///
    /// # Errors
    /// [`ArithmeticError::TooLarge`]: the float is infinite or NaN. No operand is infinite, so only
    /// an overflow has such a result.
    pub(super) fn from_float(float: f64) -> Result<Self, ArithmeticError> {
        if float.is_finite() {
            Ok(Self::Float(float))
        } else {
            Err(ArithmeticError::TooLarge)
        }
    }

    /// Converts a value of evalexpr; `None` for a list or another type.
    pub(super) fn from_evalexpr(value: &Value) -> Option<Self> {
        match value {
            Value::Int(int) => Some(Self::Int(*int)),
            Value::Float(float) => Some(Self::Float(*float)),
            Value::Tuple(_) | Value::String(_) | Value::Boolean(_) | Value::Empty => None,
        }
    }

    /// Returns the number as the nearest float; of two equally near floats, the even float, as in
    /// Python.
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    /// Compares the exact values, so that an int that no float can represent still differs from the
    /// nearest float.
    pub(super) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => left.cmp(&right),
            (Self::Float(left), Self::Float(right)) => compare_floats(left, right),
            (Self::Int(left), Self::Float(right)) => compare_int_with_float(left, right),
            (Self::Float(left), Self::Int(right)) => compare_int_with_float(right, left).reverse(),
        }
    }
}

/// Converts to an int if the value fits 64 bits, otherwise to the nearest float.
impl From<i128> for Number {
    fn from(int: i128) -> Self {
        i64::try_from(int).map_or(Self::Float(int as f64), Self::Int)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(int) => Self::Int(int),
            Number::Float(float) => Self::Float(float),
        }
    }
}

/// Compares floats, which are never NaN. `0.0` equals `-0.0`, as in Python and unlike
/// `f64::total_cmp`.
fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}

fn compare_int_with_float(int: i64, float: f64) -> Ordering {
    /// 2 to the power of 63, which is one more than the largest int.
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if float >= TWO_TO_63 {
        return Ordering::Less;
    }
    if float < -TWO_TO_63 {
        return Ordering::Greater;
    }
    let integral_part = float.trunc();
    int.cmp(&(integral_part as i64))
        .then(compare_floats(0.0, float - integral_part))
}
