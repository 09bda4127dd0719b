use std::io::{stderr, stdout};

use serde_json::Value;

use crate::event_stream::StreamedEvent;
use crate::output::{OutputError, eprint, print_json, write};
use crate::table::truncate;
use pillion_gateway::pins::{visible, visible_line};

/// Maximum length of a line that shows a tool's arguments or result, in characters.
const MAX_LINE_CHARS: usize = 200;

/// The output of a chat: the model's text on standard output, everything else on standard error.
pub(super) struct ChatScreen {
    has_json_output: bool,
    /// Whether the last line of the model's text lacks its line break.
    is_line_open: bool,
    /// Whether the model has sent text since the last request.
    has_text: bool,
}

impl ChatScreen {
    pub(super) fn new(has_json_output: bool) -> Self {
        Self {
            has_json_output,
            is_line_open: false,
            has_text: false,
        }
    }

    pub(super) fn show(&mut self, event: &StreamedEvent) -> Result<(), OutputError> {
        if self.has_json_output {
            return print_json(&event.to_json());
        }
        let data = &event.data;
        let text_member = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
        match event.kind.as_str() {
            "chat" => self.has_text = false,
            "delta" => {
                self.has_text = true;
                self.write_text(text_member("text"))?;
            }
            // If the model had already given its final response, the sidecar sends no `delta`
            // events, and the text is in the event `done`.
            "done" if !self.has_text => self.write_text(text_member("content"))?,
            "tool_started" => {
                self.end_line()?;
                let arguments = data.get("arguments").unwrap_or(&Value::Null);
                self.note(&format!("· {} {arguments}", text_member("name")));
            }
            "tool_finished" => {
                let outcome_mark = if data["success"] == true { "=" } else { "!" };
                let (name, content) = (text_member("name"), text_member("content"));
                self.note(&format!("{outcome_mark} {name}: {content}"));
            }
            _ => {}
        }
        Ok(())
    }

    fn write_text(&mut self, text: &str) -> Result<(), OutputError> {
        let safe_text = remove_controls(text);
        self.is_line_open =
            !safe_text.ends_with('\n') && (self.is_line_open || !safe_text.is_empty());
        write(stdout(), safe_text.as_bytes())
    }

    /// Writes a prompt for the user to standard error, with invisible characters escaped.
    pub(super) fn prompt(&mut self, question: &str) -> Result<(), OutputError> {
        self.end_line()?;
        write(stderr(), visible(question).as_bytes())
    }

    /// Ends the current line of the model's text, if there is one.
    pub(super) fn end_line(&mut self) -> Result<(), OutputError> {
        if std::mem::take(&mut self.is_line_open) {
            return write(stdout(), b"\n");
        }
        Ok(())
    }

    /// Writes a line to standard error, truncated to the maximum length and with invisible
    /// characters escaped. A failure to write is ignored.
    pub(super) fn note(&mut self, line: &str) {
        if self.has_json_output {
            return;
        }
        let visible_text = truncate(&visible_line(line), MAX_LINE_CHARS, "…");
        eprint(&format!("{visible_text}\n"));
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
