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
/// not deeper than the nesting of the expression. The depth matters, because evalexpr walks the
/// tree recursively.
///
/// # Errors
/// [`CalculatorError::Invalid`] if the expression does not follow the grammar or is nested more
/// deeply than [`MAX_DEPTH`].
pub(super) fn parse(expression: &str) -> Result<Node, CalculatorError> {
    let mut parser = ExpressionParser {
        expression,
        tokens: lexer::tokenize(expression)?.into_iter().peekable(),
        tree: TreeBuilder::new().map_err(|error| CalculatorError::Engine(Box::new(error)))?,
        depth: 0,
    };
    let tree = parser.parse_sum_or_items()?;
    match parser.tokens.next() {
        None => Ok(tree),
        Some(_) => Err(parser.malformed_error()),
    }
}

struct ExpressionParser<'a> {
    expression: &'a str,
    tokens: Peekable<vec::IntoIter<Token<'a>>>,
    tree: TreeBuilder,
    depth: usize,
}

type ParseResult = Result<Node, CalculatorError>;

impl ExpressionParser<'_> {
    /// Parses a sum, or the items of a tuple if a comma follows the sum.
    fn parse_sum_or_items(&mut self) -> ParseResult {
        let first_item = self.parse_sum()?;
        if self.tokens.peek() != Some(&Token::Comma) {
            return Ok(first_item);
        }
        let mut items = vec![first_item];
        self.parse_more_items(&mut items)?;
        Ok(self.tree.sequence(items))
    }

    /// Parses the items up to the closing `bracket`, and the closing bracket itself.
    fn parse_items_until(&mut self, bracket: Bracket) -> Result<Vec<Node>, CalculatorError> {
        let mut items = Vec::new();
        if !self.take(Token::Close(bracket)) {
            items.push(self.parse_sum()?);
            self.parse_more_items(&mut items)?;
            self.expect_token(Token::Close(bracket))?;
        }
        Ok(items)
    }

    /// Parses the items after the first item. A comma precedes each of these items, and a trailing
    /// comma is optional.
    fn parse_more_items(&mut self, items: &mut Vec<Node>) -> Result<(), CalculatorError> {
        while self.take(Token::Comma) {
            if matches!(self.tokens.peek(), None | Some(Token::Close(_))) {
                break;
            }
            items.push(self.parse_sum()?);
        }
        Ok(())
    }

    fn parse_sum(&mut self) -> ParseResult {
        self.parse_chain(Self::parse_product, |operator| {
            matches!(operator, Operator::Plus | Operator::Minus)
        })
    }

    fn parse_product(&mut self) -> ParseResult {
        self.parse_chain(Self::parse_signed, |operator| {
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
    fn parse_chain(
        &mut self,
        parse_operand: fn(&mut Self) -> ParseResult,
        has_precedence: fn(Operator) -> bool,
    ) -> ParseResult {
        let first_operand = parse_operand(self)?;
        let mut chain = Vec::new();
        while let Some(&Token::Operator(operator)) = self.tokens.peek()
            && has_precedence(operator)
        {
            self.tokens.next();
            chain.push(self.tree.operator(operator));
            chain.push(parse_operand(self)?);
        }
        if chain.is_empty() {
            return Ok(first_operand);
        }
        chain.insert(0, first_operand);
        Ok(self.tree.call(operation::OPERATOR_CHAIN, chain))
    }

    fn parse_signed(&mut self) -> ParseResult {
        let sign = if self.take(Token::Operator(Operator::Minus)) {
            operation::UNARY_MINUS
        } else if self.take(Token::Operator(Operator::Plus)) {
            operation::UNARY_PLUS
        } else {
            return self.parse_power();
        };
        let operand = self.parse_nested(Self::parse_signed)?;
        Ok(self.tree.call(sign, vec![operand]))
    }

    fn parse_power(&mut self) -> ParseResult {
        let base = self.parse_atom()?;
        if !self.take(Token::Operator(Operator::Power)) {
            return Ok(base);
        }
        let exponent = self.parse_nested(Self::parse_signed)?;
        Ok(self.tree.call(operation::POWER, vec![base, exponent]))
    }

    fn parse_atom(&mut self) -> ParseResult {
        match self.tokens.next() {
            Some(Token::Number(number)) => Ok(self.tree.number(number)),
            Some(Token::Name(name)) if self.take(Token::Open(Bracket::Round)) => {
                let arguments =
                    self.parse_nested(|parser| parser.parse_items_until(Bracket::Round))?;
                Ok(self.tree.call(name, arguments))
            }
            Some(Token::Name(name)) => Ok(self.tree.variable(name)),
            Some(Token::Open(Bracket::Round)) => self.parse_nested(Self::parse_parenthesized),
            Some(Token::Open(Bracket::Square)) => {
                let items =
                    self.parse_nested(|parser| parser.parse_items_until(Bracket::Square))?;
                Ok(self.tree.sequence(items))
            }
            Some(Token::Operator(_) | Token::Close(_) | Token::Comma) | None => {
                Err(self.malformed_error())
            }
        }
    }

    /// Parses the text after an opening parenthesis; `()` is the empty tuple, as in Python.
    fn parse_parenthesized(&mut self) -> ParseResult {
        if self.take(Token::Close(Bracket::Round)) {
            return Ok(self.tree.sequence(Vec::new()));
        }
        let node = self.parse_sum_or_items()?;
        self.expect_token(Token::Close(Bracket::Round))?;
        Ok(node)
    }

    /// Runs `parse` one nesting level deeper, unless the level would exceed [`MAX_DEPTH`].
    fn parse_nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, CalculatorError>,
    ) -> Result<T, CalculatorError> {
        if self.depth == MAX_DEPTH {
            return Err(CalculatorError::from_syntax_error(
                self.expression,
                SyntaxError::TooDeep,
            ));
        }
        self.depth += 1;
        let output = parse(self)?;
        self.depth -= 1;
        Ok(output)
    }

    fn take(&mut self, token: Token<'_>) -> bool {
        self.tokens.next_if(|next| *next == token).is_some()
    }

    fn expect_token(&mut self, token: Token<'_>) -> Result<(), CalculatorError> {
        if self.take(token) {
            Ok(())
        } else {
            Err(self.malformed_error())
        }
    }

    fn malformed_error(&self) -> CalculatorError {
        CalculatorError::from_syntax_error(self.expression, SyntaxError::Malformed)
    }
}
