/// Returns whether a character is a bidirectional control, which changes the display order of the
/// text around it and can make one text look like another.
///
/// ```
/// assert!(pillion_core::is_bidi_control('\u{202e}'));
/// assert!(!pillion_core::is_bidi_control('a'));
/// ```
#[must_use]
pub fn is_bidi_control(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}
