use super::ArithmeticError;
use super::number::Number;

type NumberResult = Result<Number, ArithmeticError>;

/// Returns `base ** exponent`. The result is an int if both numbers are ints, the exponent is not
/// negative, and the result fits 64 bits; otherwise it is a float.
pub(super) fn power(base: Number, exponent: Number) -> NumberResult {
    if let (Number::Int(base), Number::Int(exponent)) = (base, exponent)
        && let Some(int_result) = compute_int_power(base, exponent)
    {
        return Ok(Number::Int(int_result));
    }
    let (float_base, float_exponent) = (base.to_f64(), exponent.to_f64());
    if float_base == 0.0 && float_exponent < 0.0 {
        return Err(ArithmeticError::ZeroToNegativePower);
    }
    if float_base < 0.0 && float_exponent.trunc() != float_exponent {
        return Err(ArithmeticError::Complex);
    }
    Number::from_float(float_base.powf(float_exponent))
}

fn compute_int_power(base: i64, exponent: i64) -> Option<i64> {
    match (base, exponent) {
        (_, ..=-1) => None,
        (0 | 1, 1..) => Some(base),
        (-1, _) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        _ => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

/// Returns `pow(base, exponent, modulus)`, exact, with the sign of the modulus. A negative exponent
/// uses the modular inverse of the base.
pub(super) fn compute_modular_power(base: i64, exponent: i64, modulus: i64) -> NumberResult {
    let abs_modulus = i128::from(modulus).abs();
    let reduced_base = match (abs_modulus, exponent) {
        (0, _) => return Err(ArithmeticError::ZeroModulus),
        (_, 0..) => i128::from(base).rem_euclid(abs_modulus),
        _ => find_modular_inverse(i128::from(base).rem_euclid(abs_modulus), abs_modulus)
            .ok_or(ArithmeticError::NotInvertible)?,
    };
    let power = square_and_multiply(reduced_base, exponent.unsigned_abs(), abs_modulus);
    let signed_power = if modulus < 0 && power > 0 {
        power - abs_modulus
    } else {
        power
    };
    Ok(signed_power.into())
}

/// Computes a modular power. All values stay below `modulus`, which is at most 2 to the power of
/// 63, so that products fit 128 bits.
fn square_and_multiply(mut base: i128, mut exponent: u64, modulus: i128) -> i128 {
    let mut power = 1 % modulus;
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = power * base % modulus;
        }
        base = base * base % modulus;
        exponent /= 2;
    }
    power
}

/// Returns the modular inverse of `number`, by Euclid's algorithm; `None` if `number` and `modulus`
/// have a common factor.
fn find_modular_inverse(number: i128, modulus: i128) -> Option<i128> {
    let (mut divisor, mut remainder) = (modulus, number);
    let (mut previous_coefficient, mut current_coefficient) = (0, 1);
    while remainder != 0 {
        let quotient = divisor / remainder;
        (divisor, remainder) = (remainder, divisor - quotient * remainder);
        (previous_coefficient, current_coefficient) = (
            current_coefficient,
            previous_coefficient - quotient * current_coefficient,
        );
    }
    (divisor == 1).then(|| previous_coefficient.rem_euclid(modulus))
}
