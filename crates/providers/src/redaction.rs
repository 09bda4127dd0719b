//! Decides which parts of a provider's message may be shown.

/// The maximum length of a message that is shown, in characters.
const MAX_SHOWN_CHARS: usize = 300;

/// The minimum length of a run of letters and digits that counts as a key.
const MIN_KEY_CHARS: usize = 32;

/// The prefixes of the providers' API keys.
const KEY_PREFIXES: [&str; 9] = [
    "sk-", "sk_", "pk-", "AIza", "AQ.", "xai-", "gsk_", "ya29.", "hf_",
];

/// Returns a provider's message on one line: shortened, with URLs reduced to their host, and
/// without anything that looks like a key or a part of a key. Returns `None` if nothing is left.
pub(crate) fn redact(text: &str) -> Option<String> {
    let mut redacted_text = String::new();
    // Truncates the text before redacting it, because the text may be several megabytes long.
    let beginning: String = text.chars().take(4 * MAX_SHOWN_CHARS).collect();
    for word in beginning.split_whitespace() {
        if !redacted_text.is_empty() {
            redacted_text.push(' ');
        }
        redacted_text.push_str(&redact_word(word));
    }
    let shortened_text: String = redacted_text.chars().take(MAX_SHOWN_CHARS).collect();
    let message = if shortened_text.len() < redacted_text.len() {
        format!("{shortened_text}…")
    } else {
        shortened_text
    };
    (!message.is_empty()).then_some(message)
}

fn redact_word(word: &str) -> String {
    if let Some((prefix, remainder)) = word.split_once("://") {
        let before_scheme = prefix.trim_end_matches(|c: char| c.is_ascii_alphanumeric());
        let authority = remainder.split(['/', '?', '#']).next().unwrap_or_default();
        // The text before an `@` may contain a password.
        let host_and_port = authority.rsplit('@').next().unwrap_or_default();
        let is_host_char = |c: &char| c.is_ascii_alphanumeric() || ".-:[]".contains(*c);
        let host: String = host_and_port.chars().take_while(is_host_char).collect();
        return if looks_like_key(before_scheme) {
            format!("[…]{host}")
        } else {
            format!("{before_scheme}{host}")
        };
    }
    if looks_like_key(word) {
        return "[…]".to_owned();
    }
    word.to_owned()
}

/// Returns whether a word looks like a key, a masked key, or any random text that could be a key. A
/// name like `claude-sonnet-4-5-20250929` does not look like a key: its runs of letters and digits
/// are short.
fn looks_like_key(word: &str) -> bool {
    if word.contains("**") || word.contains("key=") || word.contains("token=") {
        return true;
    }
    word.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)))
        .any(|key| {
            KEY_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
                || key.split(['-', '.']).any(|part| {
                    part.len() >= MIN_KEY_CHARS && part.bytes().any(|byte| byte.is_ascii_digit())
                })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h4_keys_are_removed_from_error_messages_of_providers() {
        for (message, redacted) in [
            (
                "Incorrect API key provided: sk-abc***xyz. You can find it at https://platform.openai.com/account/api-keys.",
                "Incorrect API key provided: […] You can find it at platform.openai.com",
            ),
            ("key 'sk-proj-1234567890'.", "key […]"),
            (
                "GET https://u:p@host.example:8443/v1?key=AIzaSyA1",
                "GET host.example:8443",
            ),
            ("„(https://ai.google.dev/x)", "„(ai.google.dev"),
            ("token 0123456789abcdef0123456789abcdef", "token […]"),
            (
                "The model claude-sonnet-4-5-20250929 is\n overloaded",
                "The model claude-sonnet-4-5-20250929 is overloaded",
            ),
        ] {
            assert_eq!(redact(message).as_deref(), Some(redacted));
        }
        assert_eq!(redact(" \n "), None);
        let shortened_text = redact(&"ä".repeat(100_000)).unwrap();
        assert_eq!(shortened_text.chars().count(), 301);
    }
}
