/// The error messages of serde_json for the escape of an unpaired surrogate.
const LONE_SURROGATE_MESSAGES: [&str; 2] = [
    "lone leading surrogate in hex escape",
    "unexpected end of hex escape",
];

/// Returns whether text is invalid JSON because of the escape of an unpaired surrogate, which no
/// Unicode text can contain.
#[must_use]
pub fn is_lone_surrogate(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    LONE_SURROGATE_MESSAGES
        .iter()
        .any(|message| text.contains(message))
}

/// Returns why text is invalid JSON, with the position. The message names a lone surrogate as such.
///
/// ```
/// use pillion_core::json_error_text;
/// let error = serde_json::from_str::<String>(r#""\ud83d""#).unwrap_err();
/// let expected = r"lone surrogate in a \u escape at line 1";
/// assert!(json_error_text(&error).starts_with(expected));
/// ```
#[must_use]
pub fn json_error_text(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    for message in LONE_SURROGATE_MESSAGES {
        text = text.replace(message, r"lone surrogate in a \u escape");
    }
    text
}
