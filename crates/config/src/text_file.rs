use std::fmt;
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ConfigError;

/// Maximum size of a configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Reads a text file of the configuration. Only regular files are read: what a pipe or a terminal
/// has delivered cannot be read again by a reload.
///
/// # Errors
/// An I/O error of the file; `InvalidData` if the file is not a regular file, is larger than 16 MiB
/// or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let invalid = |message: String| Error::new(ErrorKind::InvalidData, message);
    // Without O_NONBLOCK, opening a FIFO waits for a writer.
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let kind = if kind.is_dir() {
            "a directory"
        } else {
            "a pipe or a device"
        };
        return Err(invalid(format!(
            "{kind} was found, expected a regular file"
        )));
    }
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(invalid(format!(
            "the file is larger than {MAX_FILE_BYTES} bytes"
        )));
    }
    String::from_utf8(text).map_err(|error| Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

/// A configuration file that was read. Everything that one load of the configuration needs from the
/// file uses this text, so that no part of the load sees another version of the file.
#[derive(Clone)]
pub struct ConfigFile {
    path: PathBuf,
    text: Arc<str>,
}

/// Why a text is not accepted as the replacement of a previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IncompleteFile {
    /// The file is empty.
    #[error(
        "the file is empty, and was not before: if this is intended, write a comment (#) into the \
         file"
    )]
    Empty,
    /// The file ends within a line of the previous text.
    #[error(
        "the file ends within a line of its previous text: if this is intended, end the file with \
         a line break"
    )]
    CutOff,
}

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ConfigError::Read`], as for [`read_text`].
    pub fn read(path: &Path) -> std::result::Result<Self, ConfigError> {
        let text = read_text(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            text: text.into(),
        })
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the text of the file, which may contain credentials.
    #[must_use]
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the file contains only white space.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.text.trim_start_matches('\u{feff}').trim().is_empty()
    }

    /// Fails if this text looks like an unfinished write of a file that had the text of `previous`.
    /// Such a text can be valid TOML, and lacks settings that restrict access.
    ///
    /// # Errors
    /// [`ConfigError::Incomplete`].
    pub fn check_replaces(&self, previous: &Self) -> std::result::Result<(), ConfigError> {
        let is_cut_off = self.text.len() < previous.text.len()
            && previous.text.starts_with(&*self.text)
            && !self.text.ends_with('\n');
        let reason = match previous.is_blank() {
            true => return Ok(()),
            false if self.is_blank() => IncompleteFile::Empty,
            false if is_cut_off => IncompleteFile::CutOff,
            false => return Ok(()),
        };
        let path = self.path.clone();
        Err(ConfigError::Incomplete { path, reason })
    }
}

impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may contain credentials.
        f.debug_struct("ConfigFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
