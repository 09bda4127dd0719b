use super::number::Number;
use super::{CalculatorError, SyntaxError};

/// Words of code that do not occur in arithmetic. The words are harmless here, but a model that
/// writes them should get a specific error.
const FORBIDDEN: [&str; 6] = ["import", "exec", "eval", "open", "file", "compile"];

/// A token of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    Number(Number),
    Name(&'a str),
    Operator(Operator),
    Open(Bracket),
    Close(Bracket),
    Comma,
}

/// The operators of the grammar. Only `PercentOf` (`15% of 40`) is not part of Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Divide,
    FloorDivide,
    Modulo,
    Power,
    PercentOf,
}

impl Operator {
    /// All operators. Longer symbols come before their prefixes. `PercentOf` comes last: it
    /// consists of two tokens, and the lexer never finds `PercentOf` as one symbol.
    const ALL: [Self; 8] = [
        Self::Power,
        Self::FloorDivide,
        Self::Plus,
        Self::Minus,
        Self::Times,
        Self::Divide,
        Self::Modulo,
        Self::PercentOf,
    ];

    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Modulo => "%",
            Self::Power => "**",
            Self::PercentOf => "% of",
        }
    }

    pub(super) fn from_symbol(symbol: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operator| operator.symbol() == symbol)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bracket {
    Round,
    Square,
}

/// Returns the first forbidden word in `expression`, case-insensitively. An underscore separates
/// words, so `__import__` matches; `profile` and `evaluate` do not.
pub(super) fn forbidden_keyword(expression: &str) -> Option<&'static str> {
    expression
        .split(|char: char| !char.is_alphanumeric())
        .find_map(|word| {
            FORBIDDEN
                .into_iter()
                .find(|keyword| word.eq_ignore_ascii_case(keyword))
        })
}

/// Splits an expression into tokens.
///
/// # Errors
/// [`CalculatorError::Invalid`] for a character or number outside the grammar, and
/// [`TooLarge`](super::ArithmeticError::TooLarge) for a number beyond the range of a float.
pub(super) fn tokens(expression: &str) -> Result<Vec<Token<'_>>, CalculatorError> {
    let mut lexer = Lexer {
        expression,
        rest: expression,
    };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        match (tokens.last_mut(), token) {
            (Some(last @ Token::Operator(Operator::Modulo)), Token::Name("of")) => {
                *last = Token::Operator(Operator::PercentOf);
            }
            _ => tokens.push(token),
        }
    }
    Ok(tokens)
}

struct Lexer<'a> {
    expression: &'a str,
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Result<Option<Token<'a>>, CalculatorError> {
        self.rest = self
            .rest
            .trim_start_matches(|char: char| char.is_ascii_whitespace());
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        let token = match first {
            '0'..='9' | '.' => self.number()?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let rest = self.rest;
                let end = rest.find(|char| !is_word(char)).unwrap_or(rest.len());
                Token::Name(self.take(end))
            }
            '^' => return Err(self.invalid(SyntaxError::Caret)),
            '(' => self.single(Token::Open(Bracket::Round)),
            ')' => self.single(Token::Close(Bracket::Round)),
            '[' => self.single(Token::Open(Bracket::Square)),
            ']' => self.single(Token::Close(Bracket::Square)),
            ',' => self.single(Token::Comma),
            _ => self.operator()?,
        };
        Ok(Some(token))
    }

    fn operator(&mut self) -> Result<Token<'a>, CalculatorError> {
        let operator = Operator::ALL
            .into_iter()
            .find(|operator| self.rest.starts_with(operator.symbol()))
            .ok_or_else(|| self.invalid(SyntaxError::Malformed))?;
        self.take(operator.symbol().len());
        Ok(Token::Operator(operator))
    }

    fn single(&mut self, token: Token<'a>) -> Token<'a> {
        self.take(1);
        token
    }

    /// Reads a decimal int or float in Python's syntax: `7`, `1_000`, `.5`, `2.`, `1e-3`.
    fn number(&mut self) -> Result<Token<'a>, CalculatorError> {
        let text = self.take(number_length(self.rest));
        let (has_digit, is_float) = (
            text.contains(|char: char| char.is_ascii_digit()),
            text.contains(['.', 'e', 'E']),
        );
        // Rejects `2pi`, `0x10`, `1.2.3`, `1__0`, and `007`, which is octal in some languages and
        // an error in Python.
        let runs_on = self.rest.starts_with(|char| is_word(char) || char == '.');
        let padded =
            !is_float && text.starts_with('0') && text.contains(|char| matches!(char, '1'..='9'));
        if !has_digit || runs_on || padded {
            return Err(self.invalid(SyntaxError::Malformed));
        }
        let digits = text.replace('_', "");
        if !is_float && let Ok(int) = digits.parse() {
            return Ok(Token::Number(Number::Int(int)));
        }
        let float = digits
            .parse()
            .map_err(|_| self.invalid(SyntaxError::Malformed))?;
        Ok(Token::Number(Number::finite(float)?))
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn invalid(&self, reason: SyntaxError) -> CalculatorError {
        CalculatorError::invalid(self.expression, reason)
    }
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Returns the length in bytes of the number at the start of `text`: digits, a point, an exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = digits_end(bytes, 0);
    if bytes.get(end) == Some(&b'.') {
        end = digits_end(bytes, end + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let signed = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        let exponent = end + 1 + usize::from(signed);
        let exponent_end = digits_end(bytes, exponent);
        if exponent_end > exponent {
            end = exponent_end;
        }
    }
    end
}

/// Returns the end of the digits that start at `start`, including single underscores between two
/// digits.
fn digits_end(bytes: &[u8], start: usize) -> usize {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = start;
    while digit(end) || (end > start && bytes.get(end) == Some(&b'_') && digit(end + 1)) {
        end += 1;
    }
    end
}
