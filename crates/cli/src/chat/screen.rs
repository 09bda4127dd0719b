use std::io::Write;

use serde_json::Value;

use super::super::event_stream::StreamedEvent;
use super::{CliError, print_json, write};
use pillion_gateway::pins::{visible, visible_line};

/// Maximum length of a line with a tool's arguments or result, in characters.
const MAX_LINE_CHARS: usize = 200;

/// The output of a chat: the model's text on standard output, everything else on standard error.
pub(super) struct Screen {
    json: bool,
    /// Whether the current line of text has not ended.
    is_in_line: bool,
    /// Whether text has arrived since the last request.
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

    /// Shows an event.
    ///
    /// # Errors
    /// [`CliError`]: the event cannot be parsed or written.
    pub(super) fn show(&mut self, event: &StreamedEvent) -> Result<(), CliError> {
        let mut data: Value = serde_json::from_str(&event.data).map_err(CliError::Answer)?;
        if self.json {
            data["type"] = Value::from(event.kind.as_str());
            return print_json(&data.to_string());
        }
        let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
        match event.kind.as_str() {
            "chat" => self.has_text = false,
            "delta" => {
                self.has_text = true;
                self.write_text(text("text"))?;
            }
            // The answer of an already answered chat is not streamed in pieces.
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

    /// Writes text of the model.
    fn write_text(&mut self, text: &str) -> Result<(), CliError> {
        let text = remove_controls(text);
        self.is_in_line = !text.ends_with('\n') && (self.is_in_line || !text.is_empty());
        write(&text)
    }

    /// Writes a question to standard error, with invisible characters escaped.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub(super) fn prompt(&mut self, question: &str) -> Result<(), CliError> {
        self.end_line()?;
        let mut output = std::io::stderr().lock();
        let written = output.write_all(visible(question).as_bytes());
        written
            .and_then(|()| output.flush())
            .map_err(CliError::Output)
    }

    /// Ends the current line of text, if there is one.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub(super) fn end_line(&mut self) -> Result<(), CliError> {
        if std::mem::take(&mut self.is_in_line) {
            return write("\n");
        }
        Ok(())
    }

    /// Writes a line to standard error, with invisible characters escaped and truncated to the
    /// maximum length. A failure to write is ignored.
    pub(super) fn note(&mut self, line: &str) {
        if self.json {
            return;
        }
        let line = visible_line(line);
        let mut short: String = line.chars().take(MAX_LINE_CHARS).collect();
        if short.len() < line.len() {
            short.push('…');
        }
        drop(writeln!(std::io::stderr(), "{short}"));
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
