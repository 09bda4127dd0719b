use std::io::Write;

use serde_json::Value;

use super::super::event_stream::StreamedEvent;
use super::{CliError, print_json, write};
use crate::pins::{visible, visible_line};

/// Maximum length of a line with a tool's arguments or result, in characters.
const MAX_LINE_CHARS: usize = 200;

/// The output of a chat: the model's text on standard output, everything else on standard error.
pub(super) struct Screen {
    json: bool,
    /// Whether the current line of text has not ended.
    is_in_line: bool,
    /// Whether text has arrived since the last request.
    was_heard: bool,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            is_in_line: false,
            was_heard: false,
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
            "chat" => self.was_heard = false,
            "delta" => {
                self.was_heard = true;
                self.say(text("text"))?;
            }
            // The answer of an already answered chat is not streamed in pieces.
            "done" if !self.was_heard => self.say(text("content"))?,
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
    fn say(&mut self, words: &str) -> Result<(), CliError> {
        let words = harmless(words);
        self.is_in_line = !words.ends_with('\n') && (self.is_in_line || !words.is_empty());
        write(&words)
    }

    /// Writes a question to standard error, with invisible characters escaped.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub(super) fn prompt(&mut self, question: &str) -> Result<(), CliError> {
        self.end_line()?;
        let mut output = std::io::stderr().lock();
        let asked = output.write_all(visible(question).as_bytes());
        asked
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
fn harmless(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_a_model_cannot_move_the_cursor() {
        assert_eq!(harmless("a\u{1b}[2J\tb\nc\u{9b}d\r"), "a[2J\tb\ncd");
    }
}
