use std::fmt;

/// The beginning of a caller's input for use in error messages: at most 100 characters, with
/// control characters replaced, and `…` at the end if the input was cut.
///
/// ```
/// use pillion_builtins::Excerpt;
/// assert_eq!(Excerpt::new("2 +").to_string(), "2 +");
/// assert_eq!(Excerpt::new(&"9".repeat(1_000_000)).to_string().chars().count(), 101);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt(String);

const MAX_EXCERPT_CHARS: usize = 100;

impl Excerpt {
    /// Returns the beginning of `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut chars = text.chars();
        let mut beginning: String = chars
            .by_ref()
            .take(MAX_EXCERPT_CHARS)
            .map(|char| if char.is_control() { '\u{fffd}' } else { char })
            .collect();
        if chars.next().is_some() {
            beginning.push('…');
        }
        Self(beginning)
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
