//! JSON from outside, indented.

use maud::{Markup, html};

use super::byte_count;
use super::text::{beginning, fits, marked};

/// Maximum size of the JSON that a page shows at once, in bytes.
const MAX_SHOWN_BYTES: usize = 16 * 1024;

/// Maximum size of JSON on a page, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Maximum indentation, in levels. Without a maximum, the indentation of deeply nested JSON would be
/// many times as large as the JSON.
const MAX_INDENT: usize = 24;

/// Shows JSON, indented. With the URL of a page that shows all of it, shows at most the first
/// [`MAX_SHOWN_BYTES`] bytes and a link to this page. `id` is the ID of the element.
pub(crate) fn json(id: &str, text: &str, all_url: Option<&str>) -> Markup {
    let beginning = beginning(text, max_bytes(all_url));
    html! {
        pre #(id) .json tabindex="0" { bdi .untrusted { (marked(&indented(beginning))) } }
        @if beginning.len() < text.len() {
            p .muted.small {
                "The first " (byte_count(beginning.len() as u64)) " of " (byte_count(text.len() as u64)) ". "
                @if let Some(url) = all_url { a href=(url) { "Show all" } }
            }
        }
    }
}

/// Returns whether [`json`] shows the whole text.
pub(crate) fn shows_all_of(text: &str, all_url: Option<&str>) -> bool {
    fits(text, max_bytes(all_url))
}

fn max_bytes(all_url: Option<&str>) -> usize {
    match all_url {
        Some(_) => MAX_SHOWN_BYTES,
        None => MAX_BYTES,
    }
}

/// Indents JSON text without parsing it, so that text which is cut or not valid is shown as well.
pub(crate) fn indented(text: &str) -> String {
    let mut output = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                output.push('"');
                copy_string(&mut characters, &mut output);
            }
            '{' | '[' => {
                output.push(character);
                while characters
                    .next_if(|next| next.is_ascii_whitespace())
                    .is_some()
                {}
                let is_empty = matches!(
                    (character, characters.peek()),
                    ('{', Some('}')) | ('[', Some(']'))
                );
                match characters.next_if(|_| is_empty) {
                    Some(end) => output.push(end),
                    None => {
                        depth += 1;
                        break_line(&mut output, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut output, depth);
                output.push(character);
            }
            ',' => {
                output.push(',');
                break_line(&mut output, depth);
            }
            ':' => output.push_str(": "),
            _ if character.is_ascii_whitespace() => {}
            _ => output.push(character),
        }
    }
    output
}

/// Copies a JSON string up to and including its closing quotation mark.
fn copy_string(characters: &mut impl Iterator<Item = char>, output: &mut String) {
    let mut is_escaped = false;
    for character in characters {
        output.push(character);
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return,
            _ => {}
        }
    }
}

fn break_line(output: &mut String, depth: usize) {
    output.push('\n');
    output.extend(std::iter::repeat_n("  ", depth.min(MAX_INDENT)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_strings_stay_unchanged() {
        let text = r#"{"a":[1,{}, []],"b":"x,\"{y}\\"}"#;
        let lines = [
            "{",
            "  \"a\": [",
            "    1,",
            "    {},",
            "    []",
            "  ],",
            r#"  "b": "x,\"{y}\\""#,
            "}",
        ];
        assert_eq!(indented(text), lines.join("\n"));
    }

    #[test]
    fn deep_or_broken_json_stays_small() {
        let deep = "[".repeat(8_000);
        assert!(indented(&deep).len() < 60 * deep.len());
        assert_eq!(indented("}}\"a"), "\n}\n}\"a");
    }
}
