use super::number::Number;
use super::{CalculatorError, SyntaxError};

/// Words of code that do not occur in arithmetic. The words are harmless here, but a model that
/// writes them should get a specific error.
const FORBIDDEN_KEYWORDS: [&str; 6] = ["import", "exec", "eval", "open", "file", "compile"];

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
pub(super) fn find_forbidden_keyword(expression: &str) -> Option<&'static str> {
    expression
        .split(|char: char| !char.is_alphanumeric())
        .find_map(|word| {
            FORBIDDEN_KEYWORDS
                .into_iter()
                .find(|keyword| word.eq_ignore_ascii_case(keyword))
        })
}

/// Splits an expression into tokens.
///
/// # Errors
/// [`CalculatorError::Invalid`] for a character or number outside the grammar, and
/// [`TooLarge`](super::ArithmeticError::TooLarge) for a number beyond the range of a float.
pub(super) fn tokenize(expression: &str) -> Result<Vec<Token<'_>>, CalculatorError> {
    let mut lexer = Lexer {
        expression,
        rest: expression,
    };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        match (tokens.last_mut(), token) {
            (Some(last_token @ Token::Operator(Operator::Modulo)), Token::Name("of")) => {
                *last_token = Token::Operator(Operator::PercentOf);
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
        let Some(first_char) = self.rest.chars().next() else {
            return Ok(None);
        };
        let token = match first_char {
            '0'..='9' | '.' => self.read_number()?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let rest = self.rest;
                let end = rest.find(|char| !is_word_char(char)).unwrap_or(rest.len());
                Token::Name(self.take(end))
            }
            '^' => return Err(self.syntax_error(SyntaxError::Caret)),
            '(' => self.take_one_char(Token::Open(Bracket::Round)),
            ')' => self.take_one_char(Token::Close(Bracket::Round)),
            '[' => self.take_one_char(Token::Open(Bracket::Square)),
            ']' => self.take_one_char(Token::Close(Bracket::Square)),
            ',' => self.take_one_char(Token::Comma),
            _ => self.read_operator()?,
        };
        Ok(Some(token))
    }

    fn read_operator(&mut self) -> Result<Token<'a>, CalculatorError> {
        let operator = Operator::ALL
            .into_iter()
            .find(|operator| self.rest.starts_with(operator.symbol()))
            .ok_or_else(|| self.syntax_error(SyntaxError::Malformed))?;
        self.take(operator.symbol().len());
        Ok(Token::Operator(operator))
    }

    fn take_one_char(&mut self, token: Token<'a>) -> Token<'a> {
        self.take(1);
        token
    }

    /// Reads a decimal int or float in Python's syntax: `7`, `1_000`, `.5`, `2.`, `1e-3`.
    fn read_number(&mut self) -> Result<Token<'a>, CalculatorError> {
        let text = self.take(find_number_length(self.rest));
        let (has_digit, is_float) = (
            text.contains(|char: char| char.is_ascii_digit()),
            text.contains(['.', 'e', 'E']),
        );
        // Rejects `2pi`, `0x10`, `1.2.3`, `1__0`, and `007`, which is octal in some languages and
        // an error in Python.
        let has_trailing_word = self
            .rest
            .starts_with(|char| is_word_char(char) || char == '.');
        let has_leading_zero =
            !is_float && text.starts_with('0') && text.contains(|char| matches!(char, '1'..='9'));
        if !has_digit || has_trailing_word || has_leading_zero {
            return Err(self.syntax_error(SyntaxError::Malformed));
        }
        let digits = text.replace('_', "");
        if !is_float && let Ok(int) = digits.parse() {
            return Ok(Token::Number(Number::Int(int)));
        }
        let float = digits
            .parse()
            .map_err(|_| self.syntax_error(SyntaxError::Malformed))?;
        Ok(Token::Number(Number::from_float(float)?))
    }

    fn take(&mut self, byte_count: usize) -> &'a str {
        let (token_text, rest) = self.rest.split_at(byte_count);
        self.rest = rest;
        token_text
    }

    fn syntax_error(&self, reason: SyntaxError) -> CalculatorError {
        CalculatorError::from_syntax_error(self.expression, reason)
    }
}

fn is_word_char(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Returns the length in bytes of the number at the start of `text`, including its fraction and its
/// exponent.
fn find_number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = find_digits_end(bytes, 0);
    if bytes.get(end) == Some(&b'.') {
        end = find_digits_end(bytes, end + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let has_sign = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        let exponent_start = end + 1 + usize::from(has_sign);
        let exponent_end = find_digits_end(bytes, exponent_start);
        if exponent_end > exponent_start {
            end = exponent_end;
        }
    }
    end
}

/// Returns the end of the digits that start at `start`, including single underscores between two
/// digits.
fn find_digits_end(bytes: &[u8], start: usize) -> usize {
    let is_digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_digit);
    let mut end = start;
    while is_digit(end) || (end > start && bytes.get(end) == Some(&b'_') && is_digit(end + 1)) {
        end += 1;
    }
    end
}
