use super::number::Number;
use super::{CalculatorError, SyntaxError};

/// Words of code that no arithmetic has. They could do no harm here, but a model that
/// writes them should be told so in these words (requirement D1).
const FORBIDDEN: [&str; 6] = ["import", "exec", "eval", "open", "file", "compile"];

/// One word of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    Number(Number),
    Name(&'a str),
    Operator(Operator),
    Open(Bracket),
    Close(Bracket),
    Comma,
}

/// The operators of the grammar. `PercentOf` is `15% of 40`; no other is outside Python.
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
    /// Longer ones come before those that they start with. `PercentOf` comes last: it is
    /// made of two tokens and never found in the text as it is written here.
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

    pub(super) fn of_symbol(symbol: &str) -> Option<Self> {
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

/// The first forbidden word in `expression`, in any letter case. An underscore separates
/// words, so that `__import__` counts; `profile` and `evaluate` do not.
pub(super) fn forbidden_keyword(expression: &str) -> Option<&'static str> {
    expression
        .split(|char: char| !char.is_alphanumeric())
        .find_map(|word| {
            FORBIDDEN
                .into_iter()
                .find(|keyword| word.eq_ignore_ascii_case(keyword))
        })
}

/// Cuts an expression into tokens.
///
/// # Errors
/// [`CalculatorError::Invalid`] at a character or number that is not in the grammar, and
/// [`TooLarge`](super::ArithmeticError::TooLarge) at a number that no float can hold.
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

    /// A decimal int or float in Python's spelling: `7`, `1_000`, `.5`, `2.`, `1e-3`.
    fn number(&mut self) -> Result<Token<'a>, CalculatorError> {
        let text = self.take(number_length(self.rest));
        let (has_digit, is_float) = (
            text.contains(|char: char| char.is_ascii_digit()),
            text.contains(['.', 'e', 'E']),
        );
        // `2pi`, `0x10`, `1.2.3`, `1__0`, and `007`, which is octal to some and an error
        // to Python.
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

/// How many bytes at the start of `text` are a number: digits, a point, an exponent.
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

/// Where the digits that start at `start` end; single underscores between two of them count.
fn digits_end(bytes: &[u8], start: usize) -> usize {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = start;
    while digit(end) || (end > start && bytes.get(end) == Some(&b'_') && digit(end + 1)) {
        end += 1;
    }
    end
}
