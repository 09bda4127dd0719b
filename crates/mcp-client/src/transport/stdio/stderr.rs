use std::sync::Arc;
use std::time::Duration;

use crate::secrets::Secrets;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

/// Maximum length of a logged line, in bytes; the rest is discarded.
const MAX_LINE_BYTES: usize = 2048;

/// Maximum number of logged lines per time window; further lines are only counted.
const MAX_LINES_PER_WINDOW: u32 = 50;
const WINDOW_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum length of the last standard error line in an error, in characters.
const MAX_LAST_LINE_CHARS: usize = 300;

/// The last line on a server's standard error, which usually explains a crash.
#[derive(Clone, Default)]
pub(super) struct LastStderrLine(Arc<Mutex<String>>);

impl LastStderrLine {
    pub(super) fn get(&self) -> String {
        self.0.lock().clone()
    }

    fn set(&self, line: &str) {
        *self.0.lock() = line.chars().take(MAX_LAST_LINE_CHARS).collect();
    }
}

/// Copies a server's standard error to the log, line by line. A server that writes very many lines
/// is not blocked: its lines are still read, but not stored.
pub(super) struct StderrLog {
    label: String,
    /// Values of the server's environment, which may be credentials.
    secrets: Secrets,
    last_line: LastStderrLine,
    line: Vec<u8>,
    window: LogWindow,
}

impl StderrLog {
    pub(super) fn new(label: String, secrets: Secrets, last_line: LastStderrLine) -> Self {
        Self {
            label,
            secrets,
            last_line,
            line: Vec::new(),
            window: LogWindow::new(),
        }
    }

    /// Copies lines to the log until the server closes its standard error.
    pub(super) async fn copy_lines(mut self, mut error_output: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 8 * 1024];
        loop {
            match error_output.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(length) => self.add(&buffer[..length]),
            }
        }
        self.end_line();
        self.window.log_dropped_lines(&self.label);
    }

    fn add(&mut self, bytes: &[u8]) {
        let mut lines = bytes.split(|&byte| byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            let remaining_bytes = MAX_LINE_BYTES - self.line.len();
            self.line
                .extend_from_slice(&part[..part.len().min(remaining_bytes)]);
            if lines.peek().is_some() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let text = String::from_utf8_lossy(&self.line);
        let trimmed_text = text.trim_end();
        if !trimmed_text.trim_start().is_empty() {
            let is_logged = self.window.admit_line(&self.label);
            let line = self.clean_line(trimmed_text);
            self.last_line.set(&line);
            if is_logged {
                tracing::info!(mcp.server = self.label, "{line}");
            }
        }
        self.line.clear();
    }

    /// Returns a line for the log, without control characters and secrets.
    fn clean_line(&self, line: &str) -> String {
        let mut text = line.replace(char::is_control, " ");
        self.secrets.redact(&mut text);
        text
    }
}

/// Counts the standard error lines that were logged in the current time window.
struct LogWindow {
    started_at: Instant,
    logged_line_count: u32,
    dropped_line_count: u64,
}

impl LogWindow {
    fn new() -> Self {
        Self {
            started_at: Instant::now(),
            logged_line_count: 0,
            dropped_line_count: 0,
        }
    }

    fn admit_line(&mut self, label: &str) -> bool {
        if self.started_at.elapsed() >= WINDOW_INTERVAL {
            self.log_dropped_lines(label);
            *self = Self::new();
        }
        if self.logged_line_count == MAX_LINES_PER_WINDOW {
            self.dropped_line_count += 1;
            return false;
        }
        self.logged_line_count += 1;
        true
    }

    fn log_dropped_lines(&self, label: &str) {
        let dropped_line_count = self.dropped_line_count;
        if dropped_line_count > 0 {
            tracing::info!(
                mcp.server = label,
                lines = dropped_line_count,
                "Dropped lines of a server's standard error"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Authentication;

    async fn last_words_of(input: &[u8], piece: usize) -> String {
        let last_line = LastStderrLine::default();
        let secrets = Secrets::new(["s3cret", "1"], &Authentication::None, 4);
        let log = StderrLog::new("test".to_owned(), secrets, last_line.clone());
        let (mut writer, reader) = tokio::io::duplex(piece);
        let copying = tokio::spawn(log.copy_lines(reader));
        tokio::io::AsyncWriteExt::write_all(&mut writer, input)
            .await
            .unwrap();
        drop(writer);
        copying.await.unwrap();
        last_line.get()
    }

    #[tokio::test]
    async fn l1_the_last_line_has_no_secrets_and_no_control_characters() {
        for piece in [1, 7, 1000] {
            let words =
                last_words_of(b"first\n\x1b[31mbad key s3cret 1\x1b[0m\r\n \n", piece).await;
            assert_eq!(words, " [31mbad key [redacted] 1 [0m");
            assert_eq!(last_words_of(b"a\nno end", piece).await, "no end");
            assert_eq!(last_words_of(b"\n\n", piece).await, "");
        }
    }

    #[tokio::test]
    async fn the_last_line_of_a_flood_is_kept() {
        let mut flood = b"x".repeat(1_000_000);
        flood.push(b'\n');
        flood.extend(b"y\n".repeat(100_000));
        assert_eq!(last_words_of(&flood, 64 * 1024).await, "y");
        let words = last_words_of(&b"\xff".repeat(100_000), 64 * 1024).await;
        assert_eq!(words.chars().count(), MAX_LAST_LINE_CHARS);
    }

    #[test]
    fn lines_of_a_flood_are_counted_instead_of_logged() {
        let mut window = LogWindow::new();
        let admitted = (0..1000).filter(|_| window.admit_line("test")).count();
        assert_eq!(admitted, 50);
        assert_eq!(window.dropped_line_count, 950);
    }
}
