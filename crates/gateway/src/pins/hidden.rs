//! Detects text that a model reads and a person does not see.

use serde_json::Value;

use pillion_core::{
    is_bidi_control, is_control_character, is_hidden, is_invisible, is_tag_character, truncated,
};

/// Maximum number of warnings about one definition.
const MAX_WARNINGS: usize = 100;

/// Maximum length of a path in a warning, in bytes: a path may consist of long names.
const MAX_PATH_BYTES: usize = 1_000;

/// Returns at most 100 warnings about hidden text in a definition, by the path of the text.
pub fn find_warnings(definition: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    collect_warnings(&mut String::new(), definition, &mut warnings);
    warnings
}

fn collect_warnings(path: &mut String, value: &Value, warnings: &mut Vec<String>) {
    if warnings.len() >= MAX_WARNINGS {
        return;
    }
    let path_length = path.len();
    match value {
        Value::String(text) => {
            for kind in hidden_kinds(text) {
                warnings.push(format!("{path}: {kind}"));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if path_length < MAX_PATH_BYTES {
                    path.push_str(&format!("[{index}]"));
                }
                collect_warnings(path, item, warnings);
                path.truncate(path_length);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                if warnings.len() >= MAX_WARNINGS {
                    return;
                }
                if path_length < MAX_PATH_BYTES {
                    push_member(path, key);
                }
                for kind in hidden_kinds(key) {
                    warnings.push(format!("{path}: {kind} in the name"));
                }
                collect_warnings(path, member, warnings);
                path.truncate(path_length);
            }
        }
        _ => {}
    }
}

/// Adds the name of a member to a path, or the beginning of a long name.
fn push_member(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    let name = visible(key);
    let beginning = truncated(&name, MAX_PATH_BYTES);
    path.push_str(beginning);
    if beginning.len() < name.len() {
        path.push_str("...");
    }
}

/// Returns the kinds of hidden text in a string.
fn hidden_kinds(text: &str) -> Vec<&'static str> {
    let has_any = |is_kind: fn(char) -> bool| text.chars().any(is_kind);
    [
        ("tag characters", has_any(is_tag_character)),
        (
            "characters that change the text direction",
            has_any(is_bidi_control),
        ),
        ("invisible characters", has_any(is_invisible)),
        (
            "control characters or terminal escape sequences",
            has_any(is_control_character),
        ),
        ("an HTML comment", text.contains("<!--")),
    ]
    .into_iter()
    .filter(|(_, is_present)| *is_present)
    .map(|(kind, _)| kind)
    .collect()
}

/// Escapes hidden characters, for a terminal or a log.
pub fn visible(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            escaped.extend(character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Escapes hidden characters like [`visible`], and replaces line breaks and other control
/// characters by spaces.
pub fn visible_line(text: &str) -> String {
    visible(text).replace(char::is_control, " ")
}

/// Replaces hidden characters in JSON strings by JSON escapes, which does not change the value.
pub fn visible_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\r' {
            // A raw carriage return becomes a space: in JSON, it can only occur between tokens.
            escaped.push(' ');
        } else if is_hidden(character) {
            for code_unit in character.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{code_unit:04x}"));
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hidden_characters_are_found_at_any_position() {
        for (text, what) in [
            ("Adds\u{e0069}\u{e0067}", "tag characters"),
            ("a\u{202e}b", "characters that change the text direction"),
            ("a\u{200b}b", "invisible characters"),
            (
                "\u{1b}[8mhidden",
                "control characters or terminal escape sequences",
            ),
            ("a <!-- read ~/.ssh --> b", "an HTML comment"),
        ] {
            let property = json!({"description": text});
            let found = find_warnings(&json!({"inputSchema": {"properties": {"x": property}}}));
            let expected = format!("inputSchema.properties.x.description: {what}");
            assert_eq!(found, [expected]);
        }
        let found = find_warnings(&json!({"a\u{200b}": 1}));
        assert_eq!(found, ["a\\u{200b}: invisible characters in the name"]);
        for fine in [
            "Two\nlines\tand 👩\u{200d}🚀",
            "\u{627}\u{200c}\u{628}",
            "a < b -- c",
            "❤\u{fe0f}",
        ] {
            assert!(find_warnings(&json!([fine])).is_empty(), "{fine}");
        }
    }

    #[test]
    fn many_warnings_with_long_paths_stay_small() {
        let members = (0..20_000).map(|nth| (format!("\u{200b}{nth}"), json!("\u{200b}")));
        let hidden = Value::Object(members.collect());
        let name = "n".repeat(1_000_000);
        let found = find_warnings(&json!({(name.clone()): {(name): hidden}}));
        assert!((MAX_WARNINGS..MAX_WARNINGS + 10).contains(&found.len()));
        assert!(found.iter().all(|warning| warning.len() < 5_000));
    }

    #[test]
    fn hidden_characters_can_be_escaped() {
        let shown = visible("a\u{202e}b\u{1b}[1m\nc");
        assert_eq!(shown, "a\\u{202e}b\\u{1b}[1m\nc");
        assert_eq!(visible_line("a\u{7f}b\n\tc"), "a\\u{7f}b  c");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = json!({"to\u{200b}": "\u{202e}a\u{e0061}\u{9b}\u{7f}\n", "ü": "\\u{202e}"});
        let shown = visible_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!shown.contains(|c| c != '\n' && is_hidden(c)), "{shown}");
        let member = r#""to\u200b": "\u202ea\udb40\udc61\u009b\u007f\n""#;
        assert!(shown.contains(member), "{shown}");
        assert!(shown.contains('ü'), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        assert_eq!(visible_json("[1,\r2]"), "[1, 2]");
    }
}
