//! Python's operators on numbers, except `**`, which is in [`super::power`].
//!
//! Ints are computed in 128 bits, in which no sum, product or quotient of two 64-bit ints
//! overflows. The result is converted at the end.

use std::ops::{Add, Mul, Sub};

use super::ArithmeticError;
use super::lexer::Operator;
use super::number::Number;
use super::power::power;

type NumberResult = Result<Number, ArithmeticError>;

/// Computes `left operator right`, such as `1 + 2`.
pub(super) fn apply(operator: Operator, left: Number, right: Number) -> NumberResult {
    match operator {
        Operator::Plus => add(left, right),
        Operator::Minus => combine(left, right, i128::sub, f64::sub),
        Operator::Times => multiply(left, right),
        Operator::Divide => divide(left, right),
        Operator::FloorDivide => floor_divide(left, right),
        Operator::Modulo => modulo(left, right),
        Operator::Power => power(left, right),
        Operator::PercentOf => divide(multiply(left, right)?, Number::Int(100)),
    }
}

pub(super) fn add(left: Number, right: Number) -> NumberResult {
    combine(left, right, i128::add, f64::add)
}

fn multiply(left: Number, right: Number) -> NumberResult {
    combine(left, right, i128::mul, f64::mul)
}

/// Combines two ints exactly, or two numbers as floats.
fn combine(
    left: Number,
    right: Number,
    combine_ints: fn(i128, i128) -> i128,
    combine_floats: fn(f64, f64) -> f64,
) -> NumberResult {
    match (left, right) {
        (Number::Int(left), Number::Int(right)) => {
            Ok(combine_ints(left.into(), right.into()).into())
        }
        _ => Number::from_float(combine_floats(left.to_f64(), right.to_f64())),
    }
}

pub(super) fn negate(number: Number) -> Number {
    match number {
        Number::Int(int) => (-i128::from(int)).into(),
        Number::Float(float) => Number::Float(-float),
    }
}

pub(super) fn compute_absolute_value(number: Number) -> Number {
    match number {
        Number::Int(int) => i128::from(int).abs().into(),
        Number::Float(float) => Number::Float(float.abs()),
    }
}

/// Returns the quotient of Python's true division (`/`), which is always a float. For two ints,
/// returns the float nearest to the exact quotient.
pub(super) fn divide(left: Number, right: Number) -> NumberResult {
    match (left, right) {
        (_, Number::Int(0)) => Err(ArithmeticError::DivisionByZero),
        (Number::Int(left), Number::Int(right)) => Ok(Number::Float(divide_ints(left, right))),
        _ if right.to_f64() == 0.0 => Err(ArithmeticError::DivisionByZero),
        _ => Number::from_float(left.to_f64() / right.to_f64()),
    }
}

/// Returns the float nearest to `left / right`. Converting both ints to floats first would round
/// twice if one int has more than 53 bits.
fn divide_ints(left: i64, right: i64) -> f64 {
    if left == 0 {
        return 0.0;
    }
    let (dividend, divisor) = (
        u128::from(left.unsigned_abs()),
        u128::from(right.unsigned_abs()),
    );
    // The dividend fills all 128 bits, so the quotient has at least 64 bits. The last bit of the
    // quotient is set if there was a remainder, so that the conversion to a float rounds correctly.
    let shift = dividend.leading_zeros();
    let shifted_dividend = dividend << shift;
    let is_exact = shifted_dividend.is_multiple_of(divisor);
    let scaled_quotient = ((shifted_dividend / divisor) | u128::from(!is_exact)) as f64;
    let magnitude = scaled_quotient / 2f64.powi(shift as i32);
    if (left < 0) == (right < 0) {
        magnitude
    } else {
        -magnitude
    }
}

pub(super) fn floor_divide(left: Number, right: Number) -> NumberResult {
    divide_with_remainder(left, right).and_then(|(floor, _)| check_finite(floor))
}

pub(super) fn modulo(left: Number, right: Number) -> NumberResult {
    divide_with_remainder(left, right).and_then(|(_, remainder)| check_finite(remainder))
}

fn check_finite(number: Number) -> NumberResult {
    match number {
        Number::Int(_) => Ok(number),
        Number::Float(float) => Number::from_float(float),
    }
}

/// Returns the quotient rounded down, and the remainder, which has the sign of the divisor.
fn divide_with_remainder(left: Number, right: Number) -> Result<(Number, Number), ArithmeticError> {
    if right.to_f64() == 0.0 {
        return Err(ArithmeticError::DivisionByZero);
    }
    Ok(match (left, right) {
        (Number::Int(left), Number::Int(right)) => {
            let (left, right) = (i128::from(left), i128::from(right));
            let truncated_remainder = left % right;
            let remainder = if truncated_remainder != 0 && (truncated_remainder < 0) != (right < 0)
            {
                truncated_remainder + right
            } else {
                truncated_remainder
            };
            (((left - remainder) / right).into(), remainder.into())
        }
        _ => {
            let (floor, remainder) = divide_floats(left.to_f64(), right.to_f64());
            (Number::Float(floor), Number::Float(remainder))
        }
    })
}

/// Follows CPython's `_float_div_mod` step by step, so that the last bit of the result agrees with
/// CPython.
fn divide_floats(left: f64, right: f64) -> (f64, f64) {
    let mut remainder = left % right;
    let mut quotient = (left - remainder) / right;
    if remainder == 0.0 {
        remainder = 0f64.copysign(right);
    } else if (right < 0.0) != (remainder < 0.0) {
        remainder += right;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0f64.copysign(left / right), remainder);
    }
    let mut floor = quotient.floor();
    if quotient - floor > 0.5 {
        floor += 1.0;
    }
    (floor, remainder)
}
