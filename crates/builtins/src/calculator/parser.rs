use std::iter::Peekable;
use std::vec;

use evalexpr::Node;

use super::lexer::{self, Bracket, Operator, Token};
use super::tree::{TreeBuilder, operation};
use super::{CalculatorError, MAX_DEPTH, SyntaxError};

/// Parses an expression of this grammar, a subset of Python's, and returns its operator tree:
///
/// ```text
/// whole   = sum | items
/// items   = sum { "," sum } [ "," ]
/// sum     = product { ("+" | "-") product }
/// product = signed { ("*" | "/" | "//" | "%" | "% of") signed }
/// signed  = ("+" | "-") signed | power
/// power   = atom [ "**" signed ]
/// atom    = number | name [ "(" [ items ] ")" ] | "(" [ sum | items ] ")" | "[" [ items ] "]"
/// ```
///
/// A chain of operators of the same precedence is one node with many children, so that the tree is
/// not deeper than the nesting of the expression: evalexpr walks the tree recursively.
///
/// # Errors
/// [`CalculatorError::Invalid`] if the expression does not follow the grammar or is nested more
/// deeply than [`MAX_DEPTH`].
pub(super) fn parse(expression: &str) -> Result<Node, CalculatorError> {
    let mut parser = ExpressionParser {
        expression,
        tokens: lexer::tokens(expression)?.into_iter().peekable(),
        tree: TreeBuilder::new().map_err(|error| CalculatorError::Engine(Box::new(error)))?,
        depth: 0,
    };
    let tree = parser.sum_or_items()?;
    match parser.tokens.next() {
        None => Ok(tree),
        Some(_) => Err(parser.malformed()),
    }
}

struct ExpressionParser<'a> {
    expression: &'a str,
    tokens: Peekable<vec::IntoIter<Token<'a>>>,
    tree: TreeBuilder,
    depth: usize,
}

type Parsed = Result<Node, CalculatorError>;

impl ExpressionParser<'_> {
    /// Parses a sum, or the items of a tuple if a comma follows the sum.
    fn sum_or_items(&mut self) -> Parsed {
        let first = self.sum()?;
        if self.tokens.peek() != Some(&Token::Comma) {
            return Ok(first);
        }
        let mut items = vec![first];
        self.more_items(&mut items)?;
        Ok(self.tree.sequence(items))
    }

    /// Parses the items up to the bracket `close`, and the bracket itself.
    fn items_until(&mut self, close: Bracket) -> Result<Vec<Node>, CalculatorError> {
        let mut items = Vec::new();
        if !self.take(Token::Close(close)) {
            items.push(self.sum()?);
            self.more_items(&mut items)?;
            self.require(Token::Close(close))?;
        }
        Ok(items)
    }

    /// Parses the items after the first item: a comma before each item, and an optional trailing
    /// comma.
    fn more_items(&mut self, items: &mut Vec<Node>) -> Result<(), CalculatorError> {
        while self.take(Token::Comma) {
            if matches!(self.tokens.peek(), None | Some(Token::Close(_))) {
                break;
            }
            items.push(self.sum()?);
        }
        Ok(())
    }

    fn sum(&mut self) -> Parsed {
        self.chain(Self::product, |operator| {
            matches!(operator, Operator::Plus | Operator::Minus)
        })
    }

    fn product(&mut self) -> Parsed {
        self.chain(Self::signed, |operator| {
            matches!(
                operator,
                Operator::Times
                    | Operator::Divide
                    | Operator::FloorDivide
                    | Operator::Modulo
                    | Operator::PercentOf
            )
        })
    }

    /// Parses operands separated by operators of the same precedence.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Parsed,
        has_precedence: fn(Operator) -> bool,
    ) -> Parsed {
        let first = operand(self)?;
        let mut links = Vec::new();
        while let Some(&Token::Operator(operator)) = self.tokens.peek()
            && has_precedence(operator)
        {
            self.tokens.next();
            links.push(self.tree.operator(operator));
            links.push(operand(self)?);
        }
        if links.is_empty() {
            return Ok(first);
        }
        links.insert(0, first);
        Ok(self.tree.call(operation::CHAIN, links))
    }

    fn signed(&mut self) -> Parsed {
        let sign = if self.take(Token::Operator(Operator::Minus)) {
            operation::MINUS
        } else if self.take(Token::Operator(Operator::Plus)) {
            operation::PLUS
        } else {
            return self.power();
        };
        let operand = self.parse_nested(Self::signed)?;
        Ok(self.tree.call(sign, vec![operand]))
    }

    fn power(&mut self) -> Parsed {
        let base = self.atom()?;
        if !self.take(Token::Operator(Operator::Power)) {
            return Ok(base);
        }
        let exponent = self.parse_nested(Self::signed)?;
        Ok(self.tree.call(operation::POWER, vec![base, exponent]))
    }

    fn atom(&mut self) -> Parsed {
        match self.tokens.next() {
            Some(Token::Number(number)) => Ok(self.tree.number(number)),
            Some(Token::Name(name)) if self.take(Token::Open(Bracket::Round)) => {
                let arguments = self.parse_nested(|parser| parser.items_until(Bracket::Round))?;
                Ok(self.tree.call(name, arguments))
            }
            Some(Token::Name(name)) => Ok(self.tree.variable(name)),
            Some(Token::Open(Bracket::Round)) => self.parse_nested(Self::parenthesized),
            Some(Token::Open(Bracket::Square)) => {
                let items = self.parse_nested(|parser| parser.items_until(Bracket::Square))?;
                Ok(self.tree.sequence(items))
            }
            Some(Token::Operator(_) | Token::Close(_) | Token::Comma) | None => {
                Err(self.malformed())
            }
        }
    }

    /// Parses the text after an opening parenthesis; `()` is the empty tuple, as in Python.
    fn parenthesized(&mut self) -> Parsed {
        if self.take(Token::Close(Bracket::Round)) {
            return Ok(self.tree.sequence(Vec::new()));
        }
        let inner = self.sum_or_items()?;
        self.require(Token::Close(Bracket::Round))?;
        Ok(inner)
    }

    /// Runs `parse` one nesting level deeper, unless the level exceeds the limit.
    fn parse_nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, CalculatorError>,
    ) -> Result<T, CalculatorError> {
        if self.depth == MAX_DEPTH {
            return Err(CalculatorError::invalid(
                self.expression,
                SyntaxError::TooDeep,
            ));
        }
        self.depth += 1;
        let parsed = parse(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    fn take(&mut self, token: Token<'_>) -> bool {
        self.tokens.next_if(|next| *next == token).is_some()
    }

    fn require(&mut self, token: Token<'_>) -> Result<(), CalculatorError> {
        if self.take(token) {
            Ok(())
        } else {
            Err(self.malformed())
        }
    }

    fn malformed(&self) -> CalculatorError {
        CalculatorError::invalid(self.expression, SyntaxError::Malformed)
    }
}
