//! A calculator for one expression of Python arithmetic.
//!
//! A custom lexer and parser read an expression of Python's grammar, with limits on the size of the
//! expression, and build an operator tree of `evalexpr`. The crate `evalexpr` walks the tree,
//! resolves names and holds the values. All operators and functions in the tree are custom, because
//! those of `evalexpr` do not follow Python. See `docs/adr/0003-calculator-on-evalexpr.md`.

mod arguments;
mod arithmetic;
mod error;
mod evaluate;
mod functions;
mod lexer;
mod number;
mod parser;
mod power;
mod rounding;
mod tree;
mod value;

use std::sync::Arc;
use std::time::Duration;

use pillion_core::tool::{
    CallContext, JsonObject, ParameterType, Tool, ToolDefinition, ToolFailure, ToolFuture,
    ToolOutput, ToolParameter,
};
use serde_json::json;

pub use error::{ArithmeticError, CalculatorError, SyntaxError};
pub use value::CalculatedValue;

/// Maximum length of an expression, in bytes.
pub const MAX_EXPRESSION_BYTES: usize = 8_192;

/// Maximum nesting depth of brackets, calls, signs and `**`.
pub const MAX_DEPTH: usize = 64;

/// Timeout of an evaluation, unless the executor sets another timeout.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

const DESCRIPTION: &str = "Perform mathematical calculations: + - * /, // (division rounded down), \
    % (remainder), ** (power, not ^) and parentheses, lists such as [1, 2], the functions abs, \
    round, min, max, sum, sqrt, pow, sin, cos, tan (in radians), log (natural, or with a base), \
    log10, and the constants pi and e. Also '15% of 47.5'.";

/// The tool `calculator`. Argument: `{expression}`. Result: text for the model,
/// `data = {expression, result}`, and the metadata `type`: `int`, `float` or `list`.
#[derive(Debug, Clone)]
pub struct Calculator {
    definition: ToolDefinition,
}

impl Default for Calculator {
    fn default() -> Self {
        let expression = ToolParameter::new("expression", ParameterType::String)
            .describe("Mathematical expression to evaluate (e.g., '2 + 2', 'sqrt(16)', '2**10')");
        let definition = ToolDefinition::builder("calculator", DESCRIPTION)
            .category("math")
            .parameter(expression)
            .build()
            .expect("the definition is constant and a test builds it");
        Self { definition }
    }
}

impl Tool for Calculator {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(DEFAULT_TIMEOUT)
    }

    fn call(self: Arc<Self>, arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async move { calculate(&arguments) })
    }
}

fn calculate(arguments: &JsonObject) -> Result<ToolOutput, ToolFailure> {
    let expression = crate::arguments::text(arguments, "expression");
    let value = evaluate(expression)?;
    Ok(ToolOutput::text(value.to_string())
        .with_data(json!({"expression": expression, "result": value.to_json()}))
        .with_metadata("type", json!(value.kind())))
}

/// Evaluates one expression.
///
/// Ints are exact up to 64 bits; larger ints become floats. Lists and tuples are one type; a value
/// of this type may be the result or an argument of a function, but not an operand. Numbers may
/// have underscores between digits. Infinity, NaN and complex numbers are errors.
///
/// # Errors
/// [`CalculatorError`] if the expression is empty, contains a forbidden word, a syntax error or an
/// unknown name, exceeds a limit, or has no result. The message says what to change.
///
/// ```
/// use pillion_builtins::calculator::{CalculatedValue, evaluate};
/// assert_eq!(evaluate("-7 // 2")?, CalculatedValue::Int(-4));
/// assert_eq!(evaluate("10 / 5")?, CalculatedValue::Float(2.0));
/// assert_eq!(evaluate("15% of 47.5")?.to_string(), "7.125");
/// assert_eq!(evaluate("1 / 0").unwrap_err().to_string(), "Calculation error: division by zero");
/// # Ok::<(), pillion_builtins::calculator::CalculatorError>(())
/// ```
pub fn evaluate(expression: &str) -> Result<CalculatedValue, CalculatorError> {
    if expression.trim().is_empty() {
        return Err(CalculatorError::NoExpression);
    }
    if let Some(keyword) = lexer::find_forbidden_keyword(expression) {
        return Err(CalculatorError::ForbiddenKeyword { keyword });
    }
    if expression.len() > MAX_EXPRESSION_BYTES {
        return Err(CalculatorError::from_syntax_error(
            expression,
            SyntaxError::TooLong,
        ));
    }
    evaluate::evaluate(&parser::parse(expression)?)
}
