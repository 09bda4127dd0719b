use std::cell::Cell;

use evalexpr::{Context, EvalexprError, EvalexprResult, Node, Value};

use super::arguments::Arguments;
use super::functions::{CONSTANTS, Function};
use super::lexer::Operator;
use super::number::Number;
use super::tree::operation;
use super::{ArithmeticError, CalculatedValue, CalculatorError, arithmetic, power};
use crate::Excerpt;

/// Evaluates `tree` with evalexpr and the calculator's operators and functions.
///
/// # Errors
/// [`CalculatorError::UnknownName`] or [`CalculatorError::Arithmetic`]: the first error from left
/// to right.
pub(super) fn evaluate(tree: &Node) -> Result<CalculatedValue, CalculatorError> {
    let context = PythonContext::new();
    match tree.eval_with_context(&context) {
        Ok(value) => CalculatedValue::from_evalexpr(value).ok_or_else(|| {
            let engine_error =
                EvalexprError::CustomMessage("expected a number or a list".to_owned());
            CalculatorError::Engine(Box::new(engine_error))
        }),
        Err(error) => Err(context.to_calculator_error(error)),
    }
}

/// The operators, functions and constants that a tree may use: Python's, and none of evalexpr's.
struct PythonContext {
    constants: [(&'static str, Value); CONSTANTS.len()],
    /// The error of the function that failed last, which is stored here because an error of
    /// evalexpr can carry only text.
    failure: Cell<Option<ArithmeticError>>,
}

impl PythonContext {
    fn new() -> Self {
        Self {
            constants: CONSTANTS.map(|(name, value)| (name, Value::Float(value))),
            failure: Cell::new(None),
        }
    }

    fn to_calculator_error(&self, error: EvalexprError) -> CalculatorError {
        match (self.failure.take(), error) {
            (Some(failure), _) => CalculatorError::Arithmetic(failure),
            (None, EvalexprError::VariableIdentifierNotFound(name)) => {
                match Function::from_name(&name) {
                    Some(Function { name, .. }) => {
                        ArithmeticError::FunctionNotCalled { function: name }.into()
                    }
                    None => unknown_name_error(&name),
                }
            }
            (None, EvalexprError::FunctionIdentifierNotFound(name)) => {
                match self.constants.iter().find(|(key, _)| *key == name) {
                    Some((constant, _)) => ArithmeticError::ConstantCalled { constant }.into(),
                    None => unknown_name_error(&name),
                }
            }
            (None, error) => CalculatorError::Engine(Box::new(error)),
        }
    }
}

/// Runs an operation or a function; `None` if no operation or function has this name.
fn apply(identifier: &str, values: &[Value]) -> Option<Result<Number, ArithmeticError>> {
    let arguments_for = |function| Arguments { function, values };
    match identifier {
        operation::OPERATOR_CHAIN => apply_chain(values),
        operation::POWER => Some(
            arguments_for("**")
                .pair()
                .and_then(|(x, y)| power::power(x, y)),
        ),
        operation::UNARY_MINUS => Some(arguments_for("-").number(0).map(arithmetic::negate)),
        operation::UNARY_PLUS => Some(arguments_for("+").number(0)),
        name => Function::from_name(name).map(|function| function.call(values)),
    }
}

/// Applies operators of the same precedence from left to right. `values` alternates between
/// operands and operators, starting with an operand; returns `None` for any other list.
fn apply_chain(values: &[Value]) -> Option<Result<Number, ArithmeticError>> {
    let (first_operand, operator_pairs) = values.split_first()?;
    let mut result = Number::from_evalexpr(first_operand);
    for operator_pair in operator_pairs.chunks(2) {
        let [Value::String(symbol), operand] = operator_pair else {
            return None;
        };
        let operator = Operator::from_symbol(symbol)?;
        let operation = operator.symbol();
        let (Some(left), Some(right)) = (result, Number::from_evalexpr(operand)) else {
            return Some(Err(ArithmeticError::NeedsNumber { operation }));
        };
        match arithmetic::apply(operator, left, right) {
            Ok(number) => result = Some(number),
            Err(error) => return Some(Err(error)),
        }
    }
    result.map(Ok)
}

fn unknown_name_error(name: &str) -> CalculatorError {
    let name = Excerpt::new(name);
    CalculatorError::UnknownName { name }
}

impl Context for PythonContext {
    fn get_value(&self, identifier: &str) -> Option<&Value> {
        self.constants
            .iter()
            .find_map(|(name, value)| (*name == identifier).then_some(value))
    }

    fn call_function(&self, identifier: &str, argument: &Value) -> EvalexprResult<Value> {
        let Value::Tuple(values) = argument else {
            return Err(EvalexprError::expected_tuple(argument.clone()));
        };
        let outcome = apply(identifier, values)
            .ok_or_else(|| EvalexprError::FunctionIdentifierNotFound(identifier.to_owned()))?;
        outcome.map(Value::from).map_err(|failure| {
            let message = failure.to_string();
            self.failure.set(Some(failure));
            EvalexprError::CustomMessage(message)
        })
    }

    fn are_builtin_functions_disabled(&self) -> bool {
        true
    }

    fn set_builtin_functions_disabled(&mut self, disabled: bool) -> EvalexprResult<()> {
        if disabled {
            Ok(())
        } else {
            Err(EvalexprError::BuiltinFunctionsCannotBeEnabled)
        }
    }
}
