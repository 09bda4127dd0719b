use std::fs::{self, File, OpenOptions};
use std::future::ready;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

use axum::body::Bytes;
use futures_util::stream::{self, Stream, StreamExt, try_unfold};
use pillion_core::tool::ToolOutput;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

/// The suffix of a file that is being written.
pub(super) const UNFINISHED_SUFFIX: &str = ".part";

/// Maximum length of the header line, in bytes.
const MAX_HEADER_BYTES: u64 = 16 * 1024;

/// Maximum size of the pieces in which a result is read, in bytes.
const MAX_PIECE_BYTES: u64 = 64 * 1024;

/// The header in the first line of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Header {
    pub(super) principal: Option<String>,
    pub(super) user: Option<String>,
    pub(super) tool: String,
    pub media_type: String,
}

/// A stored result whose header was read, and whose content can be read in pieces.
#[derive(Debug)]
pub struct OpenedResult {
    pub header: Header,
    /// The size of the result, in bytes.
    pub bytes: u64,
    pub(super) modified_at: SystemTime,
    file: File,
    /// The offset of the result in the file, in bytes.
    start: u64,
}

/// The part of a file that has not been read yet.
struct FileRange {
    file: File,
    start: u64,
    bytes: u64,
}

impl FileRange {
    /// Reads the next piece, and returns the piece and the unread rest of the range.
    async fn next_piece(mut self) -> io::Result<(Bytes, Self)> {
        let length = self.bytes.min(MAX_PIECE_BYTES);
        let read_piece = move || {
            let mut piece = vec![0; usize::try_from(length).map_err(io::Error::other)?];
            self.file.read_exact_at(&mut piece, self.start)?;
            self.start += length;
            self.bytes -= length;
            Ok((piece.into(), self))
        };
        spawn_blocking(read_piece).await.map_err(io::Error::other)?
    }
}

/// Returns the content of a result and its media type. Without `data`, a string is stored as text,
/// and any other value as JSON. With `data`, the content is a JSON object with `result` and `data`.
pub(super) fn serialize_content(output: &ToolOutput) -> (Vec<u8>, &'static str) {
    const JSON_MEDIA_TYPE: &str = "application/json";
    match (&output.result, &output.data) {
        (Value::String(text), None) => (text.clone().into_bytes(), "text/plain; charset=utf-8"),
        (result, None) => (result.to_string().into_bytes(), JSON_MEDIA_TYPE),
        (result, Some(data)) => {
            let object = json!({"result": result, "data": data});
            (object.to_string().into_bytes(), JSON_MEDIA_TYPE)
        }
    }
}

/// Writes a file atomically, readable only for the sidecar's user.
pub(super) fn write(path: &Path, header: &Header, content: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED_SUFFIX);
    let unfinished_path = Path::new(&name);
    let result = write_all(unfinished_path, header, content)
        .and_then(|()| fs::rename(unfinished_path, path));
    if result.is_err() {
        drop(fs::remove_file(unfinished_path));
    }
    result
}

/// Creates a file that only the sidecar's user can read.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path)
}

fn write_all(path: &Path, header: &Header, content: &[u8]) -> io::Result<()> {
    let mut file = create(path)?;
    let mut header_line = serde_json::to_vec(header)?;
    header_line.push(b'\n');
    file.write_all(&header_line)?;
    file.write_all(content)
}

impl OpenedResult {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut header_line = Vec::new();
        let mut reader = BufReader::new(&file).take(MAX_HEADER_BYTES);
        reader.read_until(b'\n', &mut header_line)?;
        let header = serde_json::from_slice(&header_line)?;
        let start = header_line.len() as u64;
        Ok(Self {
            header,
            bytes: metadata.len().saturating_sub(start),
            modified_at: metadata.modified()?,
            start,
            file,
        })
    }

    /// Returns the bytes of `range`, which must be within the result, in pieces of at most 64 KiB.
    /// A piece is read when the consumer polls for it, so that a large result takes little memory.
    ///
    /// # Errors
    /// The first piece cannot be read.
    pub async fn read(
        self,
        range: Range<u64>,
    ) -> io::Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>> {
        let Self { file, start, .. } = self;
        let mut rest = FileRange {
            file,
            start: start + range.start,
            bytes: range.end - range.start,
        };
        let first_piece;
        (first_piece, rest) = rest.next_piece().await?;
        let pieces = try_unfold(rest, async |rest| {
            if rest.bytes == 0 {
                return Ok(None);
            }
            rest.next_piece().await.map(Some)
        });
        Ok(stream::once(ready(Ok(first_piece))).chain(Box::pin(pieces)))
    }
}
