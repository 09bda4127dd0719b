use pillion_core::tool::ToolFailure;

use super::{MAX_DEPTH, MAX_EXPRESSION_BYTES};
use crate::Excerpt;

/// Why an expression has no answer. The messages are those of requirement D1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalculatorError {
    /// The expression is empty or blank.
    #[error("No expression provided")]
    NoExpression,
    /// The expression holds a word that belongs to code, not to arithmetic.
    #[error("Forbidden keyword: {keyword}")]
    ForbiddenKeyword {
        /// The word, in lower case.
        keyword: &'static str,
    },
    /// The expression is not arithmetic, or exceeds a bound.
    #[error("Invalid expression: {expression}{reason}")]
    Invalid {
        /// The beginning of the expression.
        expression: Excerpt,
        /// What is wrong with it.
        reason: SyntaxError,
    },
    /// A name is neither a function nor a constant.
    #[error("Unknown function or variable: {name}")]
    UnknownName {
        /// The name, cut where it is long.
        name: Excerpt,
    },
    /// The expression was understood and has no answer.
    #[error("Calculation error: {0}")]
    Arithmetic(#[from] ArithmeticError),
    /// `evalexpr` refused a tree that we built: a fault of ours, not of the expression.
    #[error("Calculation error: the expression could not be evaluated")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What is wrong with an expression; in a message it follows the expression, as a hint
/// where there is one to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxError {
    /// It does not follow the grammar.
    #[error("")]
    Malformed,
    /// It has a `^`, which is a power in some languages and exclusive or in Python.
    #[error(" (use ** for powers, not ^)")]
    Caret,
    /// It is longer than [`MAX_EXPRESSION_BYTES`].
    #[error(" (longer than {MAX_EXPRESSION_BYTES} bytes)")]
    TooLong,
    /// It nests deeper than [`MAX_DEPTH`].
    #[error(" (nested more than {MAX_DEPTH} deep)")]
    TooDeep,
}

/// Arithmetic that has no answer, for the most part in Python's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArithmeticError {
    /// `/`, `//`, `%` or a logarithm of base 1.
    #[error("division by zero")]
    DivisionByZero,
    /// A number beyond the range of a 64-bit float.
    #[error("number too large")]
    TooLarge,
    /// A square root or logarithm outside its domain.
    #[error("math domain error")]
    Domain,
    /// A negative number to the power of a fraction.
    #[error("the result is a complex number")]
    Complex,
    /// Zero to a negative power.
    #[error("0.0 cannot be raised to a negative power")]
    ZeroToNegativePower,
    /// `pow(x, y, 0)`.
    #[error("pow() 3rd argument cannot be 0")]
    ZeroModulus,
    /// `pow(x, -y, m)` where x and m have a common factor.
    #[error("base is not invertible for the given modulus")]
    NotInvertible,
    /// A float where only an int makes sense.
    #[error("{function}() needs integers here")]
    NeedsInteger {
        /// The function's name.
        function: &'static str,
    },
    /// A list where a number is needed.
    #[error("{operation} needs a number, not a list")]
    NeedsNumber {
        /// The operator or function.
        operation: &'static str,
    },
    /// A single number where a list is needed.
    #[error("{function}() needs a list or several numbers")]
    NeedsList {
        /// The function's name.
        function: &'static str,
    },
    /// The smallest or largest of nothing.
    #[error("{function}() arg is an empty sequence")]
    EmptyList {
        /// The function's name.
        function: &'static str,
    },
    /// Too few or too many arguments.
    #[error("{function}() takes {takes} ({given} given)")]
    ArgumentCount {
        /// The function's name.
        function: &'static str,
        /// How many it takes, in words.
        takes: &'static str,
        /// How many there were.
        given: usize,
    },
    /// A function's name without brackets.
    #[error("{function} is a function: write {function}(...)")]
    FunctionNotCalled {
        /// The function's name.
        function: &'static str,
    },
    /// A constant with brackets.
    #[error("{constant} is a number, not a function")]
    ConstantCalled {
        /// The constant's name.
        constant: &'static str,
    },
}

impl CalculatorError {
    pub(super) fn invalid(expression: &str, reason: SyntaxError) -> Self {
        Self::Invalid {
            expression: Excerpt::of(expression),
            reason,
        }
    }
}

impl From<CalculatorError> for ToolFailure {
    fn from(error: CalculatorError) -> Self {
        match error {
            CalculatorError::Engine(_) => Self::internal(error.to_string()),
            CalculatorError::NoExpression
            | CalculatorError::ForbiddenKeyword { .. }
            | CalculatorError::Invalid { .. }
            | CalculatorError::UnknownName { .. }
            | CalculatorError::Arithmetic(_) => Self::invalid_input(error.to_string()),
        }
    }
}
