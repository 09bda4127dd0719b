//! The functions and constants of the calculator.

use std::cmp::Ordering;
use std::f64::consts;

use super::ArithmeticError;
use super::arguments::Arguments;
use super::arithmetic;
use super::number::Number;
use super::{power, rounding};

type NumberResult = Result<Number, ArithmeticError>;

/// A function of the calculator.
#[derive(Clone, Copy)]
pub(super) struct Function {
    pub(super) name: &'static str,
    run: fn(Arguments<'_>) -> NumberResult,
}

const FUNCTIONS: [Function; 12] = [
    new_function("abs", |arguments| {
        arguments.check_count(1..=1, "one argument")?;
        arguments.number(0).map(arithmetic::compute_absolute_value)
    }),
    new_function("round", round),
    new_function("min", |arguments| find_extreme(arguments, Ordering::Less)),
    new_function("max", |arguments| {
        find_extreme(arguments, Ordering::Greater)
    }),
    new_function("sum", sum),
    new_function("sqrt", |arguments| {
        apply_to_real(arguments, |x| x >= 0.0, f64::sqrt)
    }),
    new_function("pow", pow),
    new_function("sin", |arguments| {
        apply_to_real(arguments, |_| true, f64::sin)
    }),
    new_function("cos", |arguments| {
        apply_to_real(arguments, |_| true, f64::cos)
    }),
    new_function("tan", |arguments| {
        apply_to_real(arguments, |_| true, f64::tan)
    }),
    new_function("log", log),
    new_function("log10", |arguments| {
        apply_to_real(arguments, |x| x > 0.0, f64::log10)
    }),
];

const fn new_function(name: &'static str, run: fn(Arguments<'_>) -> NumberResult) -> Function {
    Function { name, run }
}

impl Function {
    /// Returns the function with this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        FUNCTIONS.into_iter().find(|function| function.name == name)
    }

    pub(super) fn call(self, values: &[evalexpr::Value]) -> NumberResult {
        (self.run)(Arguments {
            function: self.name,
            values,
        })
    }
}

/// The constants of the calculator, by name.
pub(super) const CONSTANTS: [(&str, f64); 2] = [("pi", consts::PI), ("e", consts::E)];

fn round(arguments: Arguments<'_>) -> NumberResult {
    arguments.check_count(1..=2, "one or two arguments")?;
    let number = arguments.number(0)?;
    if arguments.values.len() == 1 {
        return Ok(rounding::round_to_int(number));
    }
    rounding::round_to_digits(number, arguments.int(1)?)
}

fn pow(arguments: Arguments<'_>) -> NumberResult {
    arguments.check_count(2..=3, "two or three arguments")?;
    if arguments.values.len() == 2 {
        let (base, exponent) = arguments.pair()?;
        return power::power(base, exponent);
    }
    power::compute_modular_power(arguments.int(0)?, arguments.int(1)?, arguments.int(2)?)
}

/// Computes the natural logarithm for `log(x)`, and the quotient of two natural logarithms for
/// `log(x, base)`, as Python does.
fn log(arguments: Arguments<'_>) -> NumberResult {
    arguments.check_count(1..=2, "one or two arguments")?;
    let natural_logarithm = |index| {
        let number = arguments.number(index)?.to_f64();
        if number > 0.0 {
            Ok(Number::Float(number.ln()))
        } else {
            Err(ArithmeticError::Domain)
        }
    };
    let logarithm = natural_logarithm(0)?;
    if arguments.values.len() == 1 {
        return Ok(logarithm);
    }
    arithmetic::divide(logarithm, natural_logarithm(1)?)
}

/// Returns the smallest or largest number of a list or of the arguments: the smallest if
/// `better_order` is [`Ordering::Less`], the largest if it is [`Ordering::Greater`]. Of equal
/// numbers, returns the first.
fn find_extreme(arguments: Arguments<'_>, better_order: Ordering) -> NumberResult {
    let function = arguments.function;
    let numbers = match (arguments.list(), arguments.values.len()) {
        (_, 0) => return Err(ArithmeticError::EmptyList { function }),
        (Some(items), 1) => items.numbers()?,
        (None, 1) => return Err(ArithmeticError::NeedsList { function }),
        _ => arguments.numbers()?,
    };
    numbers
        .into_iter()
        .reduce(|best_number, number| {
            if number.compare(best_number) == better_order {
                number
            } else {
                best_number
            }
        })
        .ok_or(ArithmeticError::EmptyList { function })
}

/// Adds the numbers of `sum(list)`, `sum(list, start)` and, in addition to Python, `sum(1, 2, 3)`.
/// Ints are added in 128 bits, so that only the total must fit 64 bits.
fn sum(arguments: Arguments<'_>) -> NumberResult {
    let function = arguments.function;
    let (start, numbers) = match (arguments.list(), arguments.values.len()) {
        (Some(items), 1) => (Number::Int(0), items.numbers()?),
        (Some(items), 2) => (arguments.number(1)?, items.numbers()?),
        (None, 2..) => (Number::Int(0), arguments.numbers()?),
        (None, 1) => return Err(ArithmeticError::NeedsList { function }),
        (_, count) => {
            return Err(ArithmeticError::ArgumentCount {
                function,
                expected_counts: "a list, a list and a start, or several numbers",
                count,
            });
        }
    };
    let mut numbers = std::iter::once(start).chain(numbers).peekable();
    let mut int_sum: i128 = 0;
    while let Some(Number::Int(int)) = numbers.next_if(|number| matches!(number, Number::Int(_))) {
        int_sum += i128::from(int);
    }
    numbers.try_fold(Number::from(int_sum), arithmetic::add)
}

/// Applies a function of one real number, if the number is within the domain of the function.
fn apply_to_real(
    arguments: Arguments<'_>,
    is_in_domain: fn(f64) -> bool,
    apply: fn(f64) -> f64,
) -> NumberResult {
    arguments.check_count(1..=1, "one argument")?;
    let number = arguments.number(0)?.to_f64();
    if is_in_domain(number) {
        Number::from_float(apply(number))
    } else {
        Err(ArithmeticError::Domain)
    }
}
