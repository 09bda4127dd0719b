//! Reads and writes messages as lines: one JSON text per line.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::outbox::Outgoing;

/// Maximum length of a line of a client, in bytes.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Reads the next line of a client into `line`. Returns `false` at the end of the input.
///
/// # Errors
/// `input` cannot be read, or the line is too long.
pub(crate) async fn read_line(
    input: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    line.clear();
    let mut limited_input = input.take(MAX_LINE_BYTES + 1);
    let read_bytes = limited_input.read_until(b'\n', line).await?;
    if line.len() as u64 > MAX_LINE_BYTES {
        let reason = "a line is longer than 16 MiB";
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(read_bytes > 0)
}

/// Returns the message of a line, without white space and byte order marks. Windows PowerShell and
/// .NET write a byte order mark before the first line, and some editors before each line.
pub(crate) fn trim_message(line: &str) -> &str {
    line.trim_matches(|char: char| char.is_whitespace() || char == '\u{feff}')
}

/// Writes each message as a line.
pub(crate) async fn write_lines(
    mut output: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<impl Into<Outgoing>>,
) -> io::Result<()> {
    while let Some(outgoing) = messages.recv().await {
        let Outgoing { message, _permit } = outgoing.into();
        // Line breaks can be replaced by spaces, because raw line breaks in JSON only occur between
        // tokens.
        let is_line_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
        // The conversion does not copy the message if the message has no other owner.
        let mut line = Vec::from(message);
        for byte in line.iter_mut().filter(|byte| is_line_break(byte)) {
            *byte = b' ';
        }
        line.push(b'\n');
        output.write_all(&line).await?;
        if messages.is_empty() {
            output.flush().await?;
        }
    }
    Ok(())
}
