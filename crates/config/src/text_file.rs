use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Maximum size of a configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Reads a text file of the configuration. Reading stops at the maximum size, so an endless device
/// cannot exhaust memory.
///
/// # Errors
/// An I/O error of the file; `InvalidData` if the file is larger than 16 MiB or not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let mut text = Vec::new();
    File::open(path)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let message = format!("the file is larger than {MAX_FILE_BYTES} bytes");
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    String::from_utf8(text).map_err(|error| Error::new(ErrorKind::InvalidData, error.utf8_error()))
}
