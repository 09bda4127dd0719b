use std::sync::Arc;
use std::time::Duration;

use crate::secrets::Secrets;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

/// Maximum length of a logged line, in bytes; the rest is discarded.
const MAX_LINE_LEN: usize = 2048;

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

/// Copies a server's standard error to the log, line by line. A server that writes a flood is not
/// blocked, and costs time but no memory.
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

    /// Copies until the server closes its standard error.
    pub(super) async fn copy(mut self, mut errors: impl AsyncRead + Unpin) {
        let mut piece = vec![0; 8 * 1024];
        loop {
            match errors.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(read) => self.take(&piece[..read]),
            }
        }
        self.end_line();
        self.window.log_dropped_lines(&self.label);
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut lines = bytes.split(|&byte| byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            let remaining = MAX_LINE_LEN - self.line.len();
            self.line
                .extend_from_slice(&part[..part.len().min(remaining)]);
            if lines.peek().is_some() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let text = String::from_utf8_lossy(&self.line);
        let trimmed = text.trim_end();
        if !trimmed.trim_start().is_empty() {
            let is_logged = self.window.admits(&self.label);
            let line = self.presentable(trimmed);
            self.last_line.set(&line);
            if is_logged {
                tracing::info!(mcp.server = self.label, "{line}");
            }
        }
        self.line.clear();
    }

    /// Returns a line for the log, without control characters and secrets.
    fn presentable(&self, line: &str) -> String {
        let mut text: String = line
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        self.secrets.redact(&mut text);
        text
    }
}

/// Counts the lines that were logged in the current time window.
struct LogWindow {
    since: Instant,
    logged: u32,
    dropped: u64,
}

impl LogWindow {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            logged: 0,
            dropped: 0,
        }
    }

    fn admits(&mut self, label: &str) -> bool {
        if self.since.elapsed() >= WINDOW_INTERVAL {
            self.log_dropped_lines(label);
            *self = Self::new();
        }
        if self.logged == MAX_LINES_PER_WINDOW {
            self.dropped += 1;
            return false;
        }
        self.logged += 1;
        true
    }

    fn log_dropped_lines(&self, label: &str) {
        let lines = self.dropped;
        if lines > 0 {
            tracing::info!(
                mcp.server = label,
                lines,
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
        let copying = tokio::spawn(log.copy(reader));
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
        let admitted = (0..1000).filter(|_| window.admits("test")).count();
        assert_eq!(admitted, 50);
        assert_eq!(window.dropped, 950);
    }
}
