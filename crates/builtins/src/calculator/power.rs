use super::ArithmeticError;
use super::number::Number;

type Outcome = Result<Number, ArithmeticError>;

/// Returns `base ** exponent`: an int if both are ints, the exponent is not negative and the result
/// fits 64 bits; otherwise a float.
pub(super) fn power(base: Number, exponent: Number) -> Outcome {
    if let (Number::Int(base), Number::Int(exponent)) = (base, exponent)
        && let Some(exact) = int_power(base, exponent)
    {
        return Ok(Number::Int(exact));
    }
    let (base, exponent) = (base.to_f64(), exponent.to_f64());
    if base == 0.0 && exponent < 0.0 {
        return Err(ArithmeticError::ZeroToNegativePower);
    }
    if base < 0.0 && exponent.trunc() != exponent {
        return Err(ArithmeticError::Complex);
    }
    Number::finite(base.powf(exponent))
}

fn int_power(base: i64, exponent: i64) -> Option<i64> {
    match (base, exponent) {
        (_, ..=-1) => None,
        (0 | 1, 1..) => Some(base),
        (-1, _) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        _ => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

/// Returns `pow(base, exponent, modulus)`, exact, with the sign of the modulus. A negative exponent
/// uses the modular inverse of the base.
pub(super) fn modular_power(base: i64, exponent: i64, modulus: i64) -> Outcome {
    let size = i128::from(modulus).abs();
    let base = match (size, exponent) {
        (0, _) => return Err(ArithmeticError::ZeroModulus),
        (_, 0..) => i128::from(base).rem_euclid(size),
        _ => inverse(i128::from(base).rem_euclid(size), size)
            .ok_or(ArithmeticError::NotInvertible)?,
    };
    let power = square_and_multiply(base, exponent.unsigned_abs(), size);
    let signed = if modulus < 0 && power > 0 {
        power - size
    } else {
        power
    };
    Ok(signed.into())
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
fn inverse(number: i128, modulus: i128) -> Option<i128> {
    let (mut divisor, mut remainder) = (modulus, number);
    let (mut previous, mut current) = (0, 1);
    while remainder != 0 {
        let quotient = divisor / remainder;
        (divisor, remainder) = (remainder, divisor - quotient * remainder);
        (previous, current) = (current, previous - quotient * current);
    }
    (divisor == 1).then(|| previous.rem_euclid(modulus))
}
