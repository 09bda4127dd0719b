use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::message::{ResponseIdScan, RpcRequestId};

/// Capacity that an empty buffer keeps, in bytes; a larger buffer is released.
const IDLE_BUFFER_BYTES: usize = 64 * 1024;

/// One line of a server's output.
#[derive(Debug)]
pub(super) enum OutputLine {
    /// A line without its line break.
    Whole(Bytes),
    /// A line longer than the maximum line length. The text was discarded, except for the ID if the
    /// line is a response.
    TooLong(Option<RpcRequestId>),
}

/// Splits a stream into lines. Buffers at most one line of the maximum length.
pub(super) struct LineReader<R> {
    input: R,
    buffer: BytesMut,
    /// Length of the part of the buffer that is known to have no line break.
    searched_bytes: usize,
    max_line_bytes: usize,
    /// Searches an overlong line for the ID of a response while the line is discarded; `None` if no
    /// line is being discarded.
    skipped_line_scan: Option<ResponseIdScan>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R, max_line_bytes: usize) -> Self {
        Self {
            input,
            buffer: BytesMut::new(),
            searched_bytes: 0,
            max_line_bytes,
            skipped_line_scan: None,
        }
    }

    /// Returns the next line; `None` at the end of the stream. Text after the last line break is a
    /// line, too. Cancel-safe: dropping the future loses nothing.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub(super) async fn next_line(&mut self) -> io::Result<Option<OutputLine>> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.buffer.is_empty() && self.buffer.capacity() != IDLE_BUFFER_BYTES {
                self.buffer = BytesMut::with_capacity(IDLE_BUFFER_BYTES);
            }
            self.buffer.reserve(IDLE_BUFFER_BYTES / 8);
            if self.input.read_buf(&mut self.buffer).await? == 0 {
                return Ok(self.take_rest());
            }
        }
    }

    fn take_line(&mut self) -> Option<OutputLine> {
        let end = self.buffer[self.searched_bytes..]
            .iter()
            .position(|&byte| byte == b'\n')
            .map(|position| self.searched_bytes + position);
        let line_part_len = end.unwrap_or(self.buffer.len());
        if self.skipped_line_scan.is_none() && line_part_len > self.max_line_bytes {
            self.skipped_line_scan = Some(ResponseIdScan::default());
        }
        if let Some(id_scan) = &mut self.skipped_line_scan {
            id_scan.read(&self.buffer[..line_part_len]);
            let skipped_len = end.map_or(line_part_len, |end| end + 1);
            let _ = self.buffer.split_to(skipped_len);
            self.searched_bytes = 0;
            end?;
            let id_scan = self.skipped_line_scan.take()?;
            return Some(OutputLine::TooLong(id_scan.finish()));
        }
        let Some(end) = end else {
            self.searched_bytes = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(end + 1).freeze();
        self.searched_bytes = 0;
        Some(OutputLine::Whole(line.slice(..end)))
    }

    fn take_rest(&mut self) -> Option<OutputLine> {
        self.searched_bytes = 0;
        if let Some(id_scan) = self.skipped_line_scan.take() {
            return Some(OutputLine::TooLong(id_scan.finish()));
        }
        let rest = self.buffer.split().freeze();
        (!rest.is_empty()).then_some(OutputLine::Whole(rest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Returns the lines of `input`, read in pieces of `piece` bytes; `Err` for an overlong line.
    fn lines(
        input: &[u8],
        piece: usize,
        limit: usize,
    ) -> Vec<Result<Vec<u8>, Option<RpcRequestId>>> {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(async {
                let (mut writer, reader) = tokio::io::duplex(piece);
                let input = input.to_vec();
                tokio::spawn(async move { writer.write_all(&input).await });
                let mut lines = LineReader::new(reader, limit);
                let mut all = Vec::new();
                while let Some(line) = lines.next_line().await.unwrap() {
                    all.push(match line {
                        OutputLine::Whole(line) => Ok(line.to_vec()),
                        OutputLine::TooLong(id) => Err(id),
                    });
                }
                all
            })
    }

    #[test]
    fn lines_of_any_length_are_split() {
        let long = format!(r#"{{"result":"{}","id":3}}"#, "x".repeat(100));
        let input = format!("a\n\n{long}\nb\r\n{long}\nlast");
        for piece in [1, 2, 3, 7, 50, 1000] {
            let expected = [
                Ok(b"a".to_vec()),
                Ok(vec![]),
                Err(Some(RpcRequestId::Number(3))),
                Ok(b"b\r".to_vec()),
                Err(Some(RpcRequestId::Number(3))),
                Ok(b"last".to_vec()),
            ];
            assert_eq!(lines(input.as_bytes(), piece, 20), expected, "{piece}");
        }
        let expected = [Ok(b"12345".to_vec()), Err(None), Err(None)];
        assert_eq!(lines(b"12345\n123456\n123456", 4, 5), expected);
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_lines(
            input in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            piece in 1usize..20,
        ) {
            prop_assert_eq!(lines(&input, piece, 10), lines(&input, 200, 10));
        }
    }
}
