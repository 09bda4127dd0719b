//! Python's `round`, which rounds to the nearest value, and to the even value if two values are
//! equally near.

use super::ArithmeticError;
use super::number::Number;

/// Computes `round(number)`. Returns an int, or the float itself if it does not fit a 64-bit int
/// and is thus already whole.
pub(super) fn round_to_int(number: Number) -> Number {
    match number {
        Number::Int(_) => number,
        Number::Float(float) => {
            let rounded_float = float.round_ties_even();
            // i128 holds every whole float below 2 to the power of 127. Larger floats saturate at
            // the limits of i128, which do not fit 64 bits either.
            match i64::try_from(rounded_float as i128) {
                Ok(int) => Number::Int(int),
                Err(_) => Number::Float(rounded_float),
            }
        }
    }
}

/// Computes `round(number, digits)`: rounds to `digits` digits after the decimal point, or before
/// the decimal point if `digits` is negative. An int stays an int.
pub(super) fn round_to_digits(number: Number, digits: i64) -> Result<Number, ArithmeticError> {
    match number {
        Number::Int(_) if digits >= 0 => Ok(number),
        Number::Int(int) => Ok(round_int(int, digits.unsigned_abs())),
        Number::Float(float) if digits >= 0 => {
            // A float has at most 1074 decimals, so rounding to more decimals changes nothing.
            let decimals = usize::try_from(digits.min(1_100)).unwrap_or(0);
            Number::from_float(parse(&format!("{float:.decimals$}"), float))
        }
        Number::Float(float) => Number::from_float(round_float(float, digits.unsigned_abs())),
    }
}

fn round_int(int: i64, zero_count: u64) -> Number {
    let rounding_unit = match u32::try_from(zero_count) {
        Ok(zero_count @ ..20) => 10i128.pow(zero_count),
        _ => return Number::Int(0),
    };
    let (floor, remainder) = (
        i128::from(int).div_euclid(rounding_unit),
        i128::from(int).rem_euclid(rounding_unit),
    );
    let should_round_up =
        2 * remainder > rounding_unit || (2 * remainder == rounding_unit && floor % 2 != 0);
    ((floor + i128::from(should_round_up)) * rounding_unit).into()
}

/// Rounds a float in decimal, where rounding is exact: Rust formats a float with correctly rounded
/// digits, ties to even, for any number of digits greater than zero.
fn round_float(float: f64, zero_count: u64) -> f64 {
    let whole_digits = if float.abs() < 1.0 {
        0
    } else {
        format!("{:.0}", float.trunc().abs()).len() as u64
    };
    match whole_digits.checked_sub(zero_count) {
        None => 0f64.copysign(float),
        Some(0) => {
            // Rounds to the power of ten above the first digit: the result is 0 or `1e{zero_count}`.
            let half_digits = format!("5{}", "0".repeat(whole_digits.saturating_sub(1) as usize));
            let digits = format!("{:.0}", float.trunc().abs());
            let is_more_than_half =
                digits > half_digits || (digits == half_digits && float.fract() != 0.0);
            let magnitude = if is_more_than_half {
                parse(&format!("1e{zero_count}"), f64::INFINITY)
            } else {
                0.0
            };
            magnitude.copysign(float)
        }
        Some(remaining_digits) => {
            let decimals = (remaining_digits - 1) as usize;
            parse(&format!("{float:.decimals$e}"), float)
        }
    }
}

/// Parses text that `format!` wrote. Parsing such text always succeeds.
fn parse(decimal: &str, fallback: f64) -> f64 {
    decimal.parse().unwrap_or(fallback)
}
