use pillion_core::tool::ToolFailure;

use super::{MAX_DEPTH, MAX_EXPRESSION_BYTES};
use crate::Excerpt;

/// The reason why an expression has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalculatorError {
    /// The expression is empty or blank.
    #[error("No expression provided")]
    NoExpression,
    /// The expression contains a word that belongs to code, not to arithmetic.
    #[error("Forbidden keyword: {keyword}")]
    ForbiddenKeyword {
        /// The forbidden word, in lower case.
        keyword: &'static str,
    },
    /// The expression is not arithmetic, or exceeds a limit.
    #[error("Invalid expression: {expression}{reason}")]
    Invalid {
        /// The beginning of the invalid expression.
        expression: Excerpt,
        /// What is wrong with the expression.
        reason: SyntaxError,
    },
    /// The expression contains a name that is neither a function nor a constant.
    #[error("Unknown function or variable: {name}")]
    UnknownName {
        /// The unknown name, cut if it is long.
        name: Excerpt,
    },
    /// The expression is valid, but has no result.
    #[error("Calculation error: {0}")]
    Arithmetic(#[from] ArithmeticError),
    /// `evalexpr` rejected a tree that the calculator has built. This is a bug of the calculator,
    /// not an error in the expression.
    #[error("Calculation error: the expression could not be evaluated")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What is wrong with an expression. `Display` writes a suffix of the error message, possibly
/// empty.
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

/// The reason why arithmetic has no result. Most messages are those of Python.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArithmeticError {
    /// The expression divides by zero with `/`, `//` or `%`, or has a logarithm of base 1.
    #[error("division by zero")]
    DivisionByZero,
    /// A number is beyond the range of a 64-bit float.
    #[error("number too large")]
    TooLarge,
    /// A square root or logarithm has an argument outside its domain.
    #[error("math domain error")]
    Domain,
    /// A negative number is raised to the power of a fraction, which gives a complex number.
    #[error("the result is a complex number")]
    Complex,
    /// Zero is raised to a negative power.
    #[error("0.0 cannot be raised to a negative power")]
    ZeroToNegativePower,
    /// The modulus of a power is zero, as in `pow(x, y, 0)`.
    #[error("pow() 3rd argument cannot be 0")]
    ZeroModulus,
    /// The base of `pow(x, -y, m)` has no modular inverse, because `x` and `m` have a common
    /// factor.
    #[error("base is not invertible for the given modulus")]
    NotInvertible,
    /// A function that needs an int got a float.
    #[error("{function}() got a float where it needs an int")]
    NeedsInteger {
        /// The name of the function that needs an int.
        function: &'static str,
    },
    /// A function or an operator that needs a number got a list.
    #[error("{operation} needs a number, not a list")]
    NeedsNumber {
        /// The symbol of the operator, or the name of the function.
        operation: &'static str,
    },
    /// A function that needs a list got a single number.
    #[error("{function}() needs a list or several numbers")]
    NeedsList {
        /// The name of the function that needs a list.
        function: &'static str,
    },
    /// The list of a minimum or a maximum is empty.
    #[error("{function}() arg is an empty sequence")]
    EmptyList {
        /// The name of the function, `min` or `max`.
        function: &'static str,
    },
    /// A call has too few or too many arguments.
    #[error("{function}() takes {expected_counts} ({count} given)")]
    ArgumentCount {
        /// The name of the called function.
        function: &'static str,
        /// A description of the valid numbers of arguments.
        expected_counts: &'static str,
        /// The number of arguments of the call.
        count: usize,
    },
    /// The expression contains the name of a function without parentheses.
    #[error("{function} is a function: write {function}(...)")]
    FunctionNotCalled {
        /// The name of the function without parentheses.
        function: &'static str,
    },
    /// The expression contains the name of a constant followed by parentheses.
    #[error("{constant} is a number, not a function")]
    ConstantCalled {
        /// The name of the constant with parentheses.
        constant: &'static str,
    },
}

impl CalculatorError {
    pub(super) fn from_syntax_error(expression: &str, reason: SyntaxError) -> Self {
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
