use std::fmt;

use serde_json::Value;

/// A JSON pointer (RFC 6901) into the data of a composed tool: `/input/...` refers to the
/// arguments, and `/steps/NAME/...` to the value of a step, with the members `result`, `data` and
/// `text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) source: PointerRoot,
    path: Vec<String>,
}

/// Where a pointer begins: at the arguments of the composed tool, or at the value of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PointerRoot {
    Input,
    Step(String),
}

/// The members of a step's value.
const STEP_MEMBERS: [&str; 3] = ["result", "data", "text"];

impl Pointer {
    /// Parses a pointer, or returns why the pointer is invalid.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let invalid_reference = || {
            format!(
                "'{text}' is not a reference: references begin with /input or /steps/NAME and \
                escape ~ as ~0 and / as ~1"
            )
        };
        let unescaped_tokens: Option<Vec<_>> = text
            .strip_prefix('/')
            .ok_or_else(invalid_reference)?
            .split('/')
            .map(unescape)
            .collect();
        let mut tokens = unescaped_tokens.ok_or_else(invalid_reference)?.into_iter();
        let source = match tokens.next().as_deref() {
            Some("input") => PointerRoot::Input,
            Some("steps") => PointerRoot::Step(tokens.next().ok_or_else(invalid_reference)?),
            _ => return Err(invalid_reference()),
        };
        let path: Vec<_> = tokens.collect();
        if let (PointerRoot::Step(_), Some(part)) = (&source, path.first())
            && !STEP_MEMBERS.contains(&part.as_str())
        {
            let reason =
                format!("'{text}': a step has 'result', 'data' and 'text', but no '{part}'");
            return Err(reason);
        }
        Ok(Self { source, path })
    }

    /// Returns a pointer to an argument.
    pub(super) fn to_argument(name: &str) -> Self {
        Self {
            source: PointerRoot::Input,
            path: vec![name.to_owned()],
        }
    }

    /// Returns the first reference token (RFC 6901) after `/input` or `/steps/NAME`, if any.
    pub(super) fn first_segment(&self) -> Option<&str> {
        self.path.first().map(String::as_str)
    }

    /// Returns the value at this pointer, if any. `root` is the value at which the pointer begins:
    /// the arguments, or the value of a step.
    pub(super) fn find<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.path.iter().try_fold(root, |value, token| match value {
            Value::Object(members) => members.get(token),
            Value::Array(items) => items.get(parse_index(token)?),
            _ => None,
        })
    }
}

/// Parses an array index without leading zeros.
fn parse_index(token: &str) -> Option<usize> {
    let is_canonical = token == "0" || !token.starts_with('0');
    let is_number = token.bytes().all(|byte| byte.is_ascii_digit());
    (is_canonical && is_number).then(|| token.parse().ok())?
}

fn unescape(token: &str) -> Option<String> {
    let mut text = String::with_capacity(token.len());
    let mut characters = token.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '~' => match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(text)
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escape = |token: &str| token.replace('~', "~0").replace('/', "~1");
        match &self.source {
            PointerRoot::Input => f.write_str("/input")?,
            PointerRoot::Step(name) => write!(f, "/steps/{}", escape(name))?,
        }
        let mut tokens = self.path.iter();
        tokens.try_for_each(|token| write!(f, "/{}", escape(token)))
    }
}
