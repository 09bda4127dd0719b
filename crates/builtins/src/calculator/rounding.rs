//! Python's `round`: to the nearest value, and of two equally near values to the even value.

use super::ArithmeticError;
use super::number::Number;

/// Computes `round(number)`: an int, or the float itself if the float does not fit a 64-bit int and
/// is thus already whole.
pub(super) fn round_to_int(number: Number) -> Number {
    match number {
        Number::Int(_) => number,
        Number::Float(float) => {
            let rounded = float.round_ties_even();
            // i128 holds every whole float below 2 to the power of 127. Larger floats saturate at
            // the limits of i128, which do not fit 64 bits either.
            match i64::try_from(rounded as i128) {
                Ok(int) => Number::Int(int),
                Err(_) => Number::Float(rounded),
            }
        }
    }
}

/// Computes `round(number, digits)`: rounds to `digits` digits after the decimal point, or before
/// the decimal point if `digits` is negative. An int stays an int.
pub(super) fn to_digits(number: Number, digits: i64) -> Result<Number, ArithmeticError> {
    match number {
        Number::Int(_) if digits >= 0 => Ok(number),
        Number::Int(int) => Ok(int_to_tens(int, digits.unsigned_abs())),
        Number::Float(float) if digits >= 0 => {
            // A float has at most 1074 decimals, so rounding to more decimals changes nothing.
            let decimals = usize::try_from(digits.min(1_100)).unwrap_or(0);
            Number::finite(parse(&format!("{float:.decimals$}"), float))
        }
        Number::Float(float) => Number::finite(float_to_tens(float, digits.unsigned_abs())),
    }
}

fn int_to_tens(int: i64, zeros: u64) -> Number {
    let unit = match u32::try_from(zeros) {
        Ok(zeros @ ..20) => 10i128.pow(zeros),
        _ => return Number::Int(0),
    };
    let (floor, rest) = (
        i128::from(int).div_euclid(unit),
        i128::from(int).rem_euclid(unit),
    );
    let up = 2 * rest > unit || (2 * rest == unit && floor % 2 != 0);
    ((floor + i128::from(up)) * unit).into()
}

/// Rounds a float in decimal, where rounding is exact: Rust formats a float with correctly rounded
/// digits, ties to even, for any number of digits from one up.
fn float_to_tens(float: f64, zeros: u64) -> f64 {
    let whole_digits = if float.abs() < 1.0 {
        0
    } else {
        format!("{:.0}", float.trunc().abs()).len() as u64
    };
    match whole_digits.checked_sub(zeros) {
        None => 0f64.copysign(float),
        Some(0) => {
            // Rounds to the position before the first digit: the result is 0 or 10 ** zeros.
            let half = format!("5{}", "0".repeat(whole_digits.saturating_sub(1) as usize));
            let digits = format!("{:.0}", float.trunc().abs());
            let more_than_half = digits > half || (digits == half && float.fract() != 0.0);
            let magnitude = if more_than_half {
                parse(&format!("1e{zeros}"), f64::INFINITY)
            } else {
                0.0
            };
            magnitude.copysign(float)
        }
        Some(digits) => {
            let decimals = (digits - 1) as usize;
            parse(&format!("{float:.decimals$e}"), float)
        }
    }
}

/// Parses text that `format!` wrote. Parsing such text always succeeds.
fn parse(decimal: &str, otherwise: f64) -> f64 {
    decimal.parse().unwrap_or(otherwise)
}
