use pillion_core::tool::ToolFailure;

use super::{MAX_DEPTH, MAX_EXPRESSION_BYTES};
use crate::Excerpt;

/// Why an expression has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalculatorError {
    /// The expression is empty or blank.
    #[error("No expression provided")]
    NoExpression,
    /// The expression contains a word that belongs to code, not to arithmetic.
    #[error("Forbidden keyword: {keyword}")]
    ForbiddenKeyword {
        /// The word, in lower case.
        keyword: &'static str,
    },
    /// The expression is not arithmetic, or exceeds a limit.
    #[error("Invalid expression: {expression}{reason}")]
    Invalid {
        /// The beginning of the expression.
        expression: Excerpt,
        /// The problem of the expression.
        reason: SyntaxError,
    },
    /// A name that is neither a function nor a constant.
    #[error("Unknown function or variable: {name}")]
    UnknownName {
        /// The name, cut if it is long.
        name: Excerpt,
    },
    /// The expression is valid, but has no result.
    #[error("Calculation error: {0}")]
    Arithmetic(#[from] ArithmeticError),
    /// `evalexpr` rejected the calculator's own tree: a bug, not an error of the expression.
    #[error("Calculation error: the expression could not be evaluated")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The problem of an expression. Its `Display` is a suffix of the error message, possibly empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxError {
    /// The expression does not follow the grammar.
    #[error("")]
    Malformed,
    /// The expression has a `^`, which is the power operator in some languages and exclusive or in
    /// Python.
    #[error(" (use ** for powers, not ^)")]
    Caret,
    /// The expression is longer than [`MAX_EXPRESSION_BYTES`].
    #[error(" (longer than {MAX_EXPRESSION_BYTES} bytes)")]
    TooLong,
    /// The expression is nested more deeply than [`MAX_DEPTH`].
    #[error(" (nested more than {MAX_DEPTH} deep)")]
    TooDeep,
}

/// Arithmetic without a result; most messages are Python's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArithmeticError {
    /// Division by zero with `/`, `//` or `%`, or a logarithm of base 1.
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
        /// The operator's symbol or function's name.
        operation: &'static str,
    },
    /// A single number where a list is needed.
    #[error("{function}() needs a list or several numbers")]
    NeedsList {
        /// The function's name.
        function: &'static str,
    },
    /// The minimum or maximum of an empty list.
    #[error("{function}() arg is an empty sequence")]
    EmptyList {
        /// The function's name.
        function: &'static str,
    },
    /// Too few or too many arguments.
    #[error("{function}() takes {takes} ({count} given)")]
    ArgumentCount {
        /// The function's name.
        function: &'static str,
        /// The valid numbers of arguments, in words.
        takes: &'static str,
        /// The number of arguments of the call.
        count: usize,
    },
    /// A function's name without parentheses.
    #[error("{function} is a function: write {function}(...)")]
    FunctionNotCalled {
        /// The function's name.
        function: &'static str,
    },
    /// A constant with parentheses.
    #[error("{constant} is a number, not a function")]
    ConstantCalled {
        /// The constant's name.
        constant: &'static str,
    },
}

impl CalculatorError {
    pub(super) fn invalid(expression: &str, reason: SyntaxError) -> Self {
        Self::Invalid {
            expression: Excerpt::new(expression),
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
