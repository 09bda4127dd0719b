//! Reads standard input, which may be endless.

use std::io::{BufRead, Error, ErrorKind, Read, Result, stdin};

use secrecy::SecretString;
use zeroize::Zeroizing;

/// Maximum size of the input, in bytes. A sidecar's default limit for request bodies is lower.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

/// Why standard input cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("cannot read standard input: {0}")]
    Read(#[source] Error),
    #[error("standard input is larger than {MAX_INPUT_BYTES} bytes")]
    TooLarge,
}

impl From<Error> for InputError {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::FileTooLarge => Self::TooLarge,
            _ => Self::Read(error),
        }
    }
}

/// Reads all of standard input.
pub(super) fn read_all() -> std::result::Result<Vec<u8>, InputError> {
    Ok(read_bytes(stdin().lock())?)
}

/// Reads a line of standard input, without its line break; `None` at the end of the input.
pub(super) fn read_line() -> std::result::Result<Option<String>, InputError> {
    Ok(read_limited_line(stdin().lock())?)
}

/// Reads a source to its end.
///
/// # Errors
/// [`ErrorKind::FileTooLarge`] for more than 64 MiB.
pub(super) fn read_bytes(source: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes)?;
    check_size(bytes)
}

fn read_limited_line(source: impl BufRead) -> Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut limited_source = source.take(MAX_INPUT_BYTES + 1);
    if limited_source.read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    let line = to_text(check_size(bytes)?)?;
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Reads a secret of up to `max_bytes` bytes and trims white space.
pub(super) fn read_secret(source: impl Read, max_bytes: u64) -> Result<SecretString> {
    let mut text = Zeroizing::new(String::new());
    source.take(max_bytes).read_to_string(&mut text)?;
    Ok(text.trim().into())
}

/// Returns the text of UTF-8 bytes, or [`ErrorKind::InvalidData`].
pub(super) fn to_text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

fn check_size(bytes: Vec<u8>) -> Result<Vec<u8>> {
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        let message = format!("the input is larger than {MAX_INPUT_BYTES} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, repeat};

    use super::*;

    #[test]
    fn endless_input_is_not_read_to_the_end() {
        let input_error = read_bytes(repeat(7)).unwrap_err();
        assert_eq!(input_error.kind(), ErrorKind::FileTooLarge);
        let line_error = read_limited_line(BufReader::new(repeat(0))).unwrap_err();
        assert_eq!(line_error.kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn lines_are_read_without_line_ends() {
        let mut source = &b"one\r\n\ntwo"[..];
        let mut next = || read_limited_line(&mut source).unwrap();
        let lines = [next(), next(), next(), next()];
        let expected = [Some("one"), Some(""), Some("two"), None];
        assert_eq!(lines.each_ref().map(|line| line.as_deref()), expected);
        assert_eq!(read_bytes(&b"{}"[..]).unwrap(), b"{}");
        let error = read_limited_line(&b"\xff\n"[..]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
