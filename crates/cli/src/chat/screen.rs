use std::io::{stderr, stdout};

use serde_json::Value;

use crate::event_stream::StreamedEvent;
use crate::output::{OutputError, eprint, print_json, write};
use crate::table::truncate;
use pillion_gateway::pins::{visible, visible_line};

/// Maximum length of a line with a tool's arguments or result, in characters.
const MAX_LINE_CHARS: usize = 200;

/// The output of a chat: the model's text on standard output, everything else on standard error.
pub(super) struct Screen {
    json: bool,
    /// Whether the current line of the model's text has not ended.
    is_in_line: bool,
    /// Whether text of the model has arrived since the last request.
    has_text: bool,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            is_in_line: false,
            has_text: false,
        }
    }

    pub(super) fn show(&mut self, event: &StreamedEvent) -> Result<(), OutputError> {
        if self.json {
            return print_json(&event.to_json());
        }
        let data = &event.data;
        let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
        match event.kind.as_str() {
            "chat" => self.has_text = false,
            "delta" => {
                self.has_text = true;
                self.write_text(text("text"))?;
            }
            // An answer from the store was not streamed in pieces.
            "done" if !self.has_text => self.write_text(text("content"))?,
            "tool_started" => {
                self.end_line()?;
                let arguments = data.get("arguments").unwrap_or(&Value::Null);
                self.note(&format!("· {} {arguments}", text("name")));
            }
            "tool_finished" => {
                let sign = if data["success"] == true { "=" } else { "!" };
                self.note(&format!("{sign} {}: {}", text("name"), text("content")));
            }
            _ => {}
        }
        Ok(())
    }

    fn write_text(&mut self, text: &str) -> Result<(), OutputError> {
        let safe_text = remove_controls(text);
        self.is_in_line = !safe_text.ends_with('\n') && (self.is_in_line || !safe_text.is_empty());
        write(stdout(), safe_text.as_bytes())
    }

    /// Writes a question to standard error, with invisible characters escaped.
    pub(super) fn prompt(&mut self, question: &str) -> Result<(), OutputError> {
        self.end_line()?;
        write(stderr(), visible(question).as_bytes())
    }

    /// Ends the current line of text, if there is one.
    pub(super) fn end_line(&mut self) -> Result<(), OutputError> {
        if std::mem::take(&mut self.is_in_line) {
            return write(stdout(), b"\n");
        }
        Ok(())
    }

    /// Writes a line to standard error, with invisible characters escaped and truncated to the
    /// maximum length. A failure to write is ignored.
    pub(super) fn note(&mut self, line: &str) {
        if self.json {
            return;
        }
        let shown = truncate(&visible_line(line), MAX_LINE_CHARS, "…");
        eprint(&format!("{shown}\n"));
    }
}

/// Removes control characters, except line breaks and tabs: untrusted text must not control the
/// terminal.
fn remove_controls(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_a_model_cannot_move_the_cursor() {
        assert_eq!(remove_controls("a\u{1b}[2J\tb\nc\u{9b}d\r"), "a[2J\tb\ncd");
    }
}
