use std::fmt;

/// The beginning of something that a caller sent, fit to be shown in an error message: at
/// most 100 characters, control characters replaced, `…` where it was cut.
///
/// ```
/// use pillion_builtins::Excerpt;
/// assert_eq!(Excerpt::of("2 +").to_string(), "2 +");
/// assert_eq!(Excerpt::of(&"9".repeat(1_000_000)).to_string().chars().count(), 101);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt(String);

const MAX_CHARS: usize = 100;

impl Excerpt {
    /// The beginning of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut chars = text.chars();
        let mut shown: String = chars
            .by_ref()
            .take(MAX_CHARS)
            .map(|char| if char.is_control() { '\u{fffd}' } else { char })
            .collect();
        if chars.next().is_some() {
            shown.push('…');
        }
        Self(shown)
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
