//! Python's operators on numbers, except `**`, which is in [`super::power`].
//!
//! Ints are computed in 128 bits, in which no sum, product or quotient of two 64-bit ints
//! overflows. The result is converted at the end.

use std::ops::{Add, Mul, Sub};

use super::ArithmeticError;
use super::lexer::Operator;
use super::number::Number;
use super::power::power;

type Outcome = Result<Number, ArithmeticError>;

/// Returns the result of `left operator right`.
pub(super) fn apply(operator: Operator, left: Number, right: Number) -> Outcome {
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

pub(super) fn add(left: Number, right: Number) -> Outcome {
    combine(left, right, i128::add, f64::add)
}

fn multiply(left: Number, right: Number) -> Outcome {
    combine(left, right, i128::mul, f64::mul)
}

/// Combines two ints exactly, or two numbers as floats.
fn combine(
    left: Number,
    right: Number,
    ints: fn(i128, i128) -> i128,
    floats: fn(f64, f64) -> f64,
) -> Outcome {
    match (left, right) {
        (Number::Int(left), Number::Int(right)) => Ok(ints(left.into(), right.into()).into()),
        _ => Number::finite(floats(left.to_f64(), right.to_f64())),
    }
}

pub(super) fn negate(number: Number) -> Number {
    match number {
        Number::Int(int) => (-i128::from(int)).into(),
        Number::Float(float) => Number::Float(-float),
    }
}

pub(super) fn absolute(number: Number) -> Number {
    match number {
        Number::Int(int) => i128::from(int).abs().into(),
        Number::Float(float) => Number::Float(float.abs()),
    }
}

/// Returns the quotient of Python's true division: always a float; for two ints, the float nearest
/// to the exact quotient.
pub(super) fn divide(left: Number, right: Number) -> Outcome {
    match (left, right) {
        (_, Number::Int(0)) => Err(ArithmeticError::DivisionByZero),
        (Number::Int(left), Number::Int(right)) => Ok(Number::Float(quotient(left, right))),
        _ if right.to_f64() == 0.0 => Err(ArithmeticError::DivisionByZero),
        _ => Number::finite(left.to_f64() / right.to_f64()),
    }
}

/// Returns the float nearest to `left / right`. Converting both ints to floats first would round
/// twice if one int has more than 53 bits.
fn quotient(left: i64, right: i64) -> f64 {
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
    let shifted = dividend << shift;
    let exact = shifted.is_multiple_of(divisor);
    let nearest = ((shifted / divisor) | u128::from(!exact)) as f64;
    let magnitude = nearest / 2f64.powi(shift as i32);
    if (left < 0) == (right < 0) {
        magnitude
    } else {
        -magnitude
    }
}

pub(super) fn floor_divide(left: Number, right: Number) -> Outcome {
    divide_with_remainder(left, right).and_then(|(floor, _)| finite(floor))
}

pub(super) fn modulo(left: Number, right: Number) -> Outcome {
    divide_with_remainder(left, right).and_then(|(_, remainder)| finite(remainder))
}

fn finite(number: Number) -> Outcome {
    match number {
        Number::Int(_) => Ok(number),
        Number::Float(float) => Number::finite(float),
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
            let truncated = left % right;
            let remainder = if truncated != 0 && (truncated < 0) != (right < 0) {
                truncated + right
            } else {
                truncated
            };
            (((left - remainder) / right).into(), remainder.into())
        }
        _ => {
            let (floor, remainder) = float_divmod(left.to_f64(), right.to_f64());
            (Number::Float(floor), Number::Float(remainder))
        }
    })
}

/// Follows CPython's `_float_div_mod` step by step, so that the last bit of the result agrees with
/// CPython.
fn float_divmod(left: f64, right: f64) -> (f64, f64) {
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
