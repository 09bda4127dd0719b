use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

use pillion_core::tool::ToolOutput;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

/// The suffix of a file that is being written.
pub(super) const UNFINISHED_SUFFIX: &str = ".part";

/// Maximum length of the header line, in bytes.
const MAX_HEADER_LEN: u64 = 16 * 1024;

/// The header in the first line of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Header {
    pub(super) principal: Option<String>,
    pub(super) user: Option<String>,
    pub(super) tool: String,
    pub media_type: String,
}

/// An opened result.
#[derive(Debug)]
pub struct OpenedResult {
    pub header: Header,
    /// The size of the result, in bytes.
    pub bytes: u64,
    pub(super) since: SystemTime,
    file: File,
    /// The position of the result in the file.
    start: u64,
}

/// Returns the content of a result and its media type: a string as text, any other value as JSON,
/// together with `data` if present.
pub(super) fn content_of(output: &ToolOutput) -> (Vec<u8>, &'static str) {
    const JSON: &str = "application/json";
    match (&output.result, &output.data) {
        (Value::String(text), None) => (text.clone().into_bytes(), "text/plain; charset=utf-8"),
        (result, None) => (result.to_string().into_bytes(), JSON),
        (result, Some(data)) => {
            let both = json!({"result": result, "data": data});
            (both.to_string().into_bytes(), JSON)
        }
    }
}

/// Writes a file atomically, readable only for the sidecar's user.
pub(super) fn write(path: &Path, header: &Header, content: &[u8]) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(UNFINISHED_SUFFIX);
    let unfinished = Path::new(&unfinished);
    let written = write_all(unfinished, header, content);
    let written = written.and_then(|()| fs::rename(unfinished, path));
    if written.is_err() {
        drop(fs::remove_file(unfinished));
    }
    written
}

fn write_all(path: &Path, header: &Header, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    let mut first = serde_json::to_vec(header)?;
    first.push(b'\n');
    file.write_all(&first)?;
    file.write_all(content)
}

impl OpenedResult {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut first = Vec::new();
        let mut reader = BufReader::new(&file).take(MAX_HEADER_LEN);
        reader.read_until(b'\n', &mut first)?;
        let header = serde_json::from_slice(&first)?;
        let start = first.len() as u64;
        Ok(Self {
            header,
            bytes: metadata.len().saturating_sub(start),
            since: metadata.modified()?,
            start,
            file,
        })
    }

    /// Reads a range of the result, which must exist.
    pub async fn read(self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let Self {
            mut file, start, ..
        } = self;
        let read = move || {
            file.seek(SeekFrom::Start(start + range.start))?;
            let length = range.end - range.start;
            let mut bytes = Vec::new();
            file.take(length).read_to_end(&mut bytes)?;
            if bytes.len() as u64 == length {
                Ok(bytes)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        };
        spawn_blocking(read).await.map_err(io::Error::other)?
    }
}
