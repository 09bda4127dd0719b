use std::ops::RangeInclusive;

use evalexpr::Value;

use super::ArithmeticError;
use super::number::Number;

/// The arguments of one call, and the function's name for error messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<'a> {
    pub(super) function: &'static str,
    pub(super) values: &'a [Value],
}

impl Arguments<'_> {
    /// Checks that the number of arguments is in `counts`. `expected_counts` describes the valid
    /// numbers in the error message.
    pub(super) fn check_count(
        self,
        counts: RangeInclusive<usize>,
        expected_counts: &'static str,
    ) -> Result<(), ArithmeticError> {
        if counts.contains(&self.values.len()) {
            return Ok(());
        }
        Err(ArithmeticError::ArgumentCount {
            function: self.function,
            expected_counts,
            count: self.values.len(),
        })
    }

    /// Returns the argument at `index` as a number. Call [`check_count`](Self::check_count) first,
    /// because the index must be valid.
    pub(super) fn number(self, index: usize) -> Result<Number, ArithmeticError> {
        self.values
            .get(index)
            .and_then(Number::from_evalexpr)
            .ok_or(ArithmeticError::NeedsNumber {
                operation: self.function,
            })
    }

    /// Returns the first two arguments as numbers.
    pub(super) fn pair(self) -> Result<(Number, Number), ArithmeticError> {
        Ok((self.number(0)?, self.number(1)?))
    }

    /// Returns the argument at `index` as an int.
    pub(super) fn int(self, index: usize) -> Result<i64, ArithmeticError> {
        match self.number(index)? {
            Number::Int(int) => Ok(int),
            Number::Float(_) => Err(ArithmeticError::NeedsInteger {
                function: self.function,
            }),
        }
    }

    /// Returns all arguments as numbers.
    pub(super) fn numbers(self) -> Result<Vec<Number>, ArithmeticError> {
        (0..self.values.len())
            .map(|index| self.number(index))
            .collect()
    }

    /// Returns the items of the first argument, if it is a list.
    pub(super) fn list(self) -> Option<Self> {
        match self.values.first() {
            Some(Value::Tuple(items)) => Some(Self {
                values: items,
                ..self
            }),
            _ => None,
        }
    }
}
