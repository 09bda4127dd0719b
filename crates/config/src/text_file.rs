use std::collections::HashSet;
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
fn read_text(path: &Path) -> Result<String> {
    let invalid = |message: String| Error::new(ErrorKind::InvalidData, message);
    // Without O_NONBLOCK, opening a FIFO would wait for a writer.
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

/// A configuration file that was read. Each load of the configuration uses this text wherever it
/// needs the file, so that it never mixes two versions of the file.
#[derive(Clone)]
pub struct ConfigFile {
    path: PathBuf,
    text: Arc<str>,
}

/// Why a file looks like an unfinished write and is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IncompleteFile {
    /// The file is empty.
    #[error(
        "the file is empty: if the defaults are intended, write a comment (#) into the file, or \
         name no file"
    )]
    Blank,
    /// The file is empty, but the file that it replaces was not.
    #[error(
        "the file is empty, and was not before: if this is intended, write a comment (#) into the \
         file"
    )]
    Emptied,
    /// The file ends within a line of the previous text.
    #[error(
        "the file ends within a line of its previous text: if this is intended, end the file with \
         a line break"
    )]
    CutOff,
    /// The last line has no line break.
    #[error(
        "the last line has no line break at its end, so the file may be incomplete: if the file \
         is complete, end it with a line break"
    )]
    NoLineBreak,
    /// The file ends with a line after which the previous text continued with further settings.
    #[error(
        "the file ends with a line after which its previous text continued: if the rest was \
         removed on purpose, end the file with a new comment line (#)"
    )]
    LostLines,
}

/// Returns whether a text ends within a line, as an unfinished write does. Some editors leave such
/// a text as well.
#[must_use]
pub fn ends_within_line(text: &str) -> bool {
    !last_line(text).trim().is_empty()
}

/// Returns the text after the last line break.
fn last_line(text: &str) -> &str {
    text.rsplit_once('\n').map_or(text, |(_, line)| line)
}

/// Returns whether a line is a comment or blank, in TOML and YAML.
fn has_no_setting(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ConfigError::Read`]: an I/O error, or the file is not a regular file, is larger than 16 MiB
    /// or is not UTF-8.
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
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the file contains only white space.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.text.trim_start_matches('\u{feff}').trim().is_empty()
    }

    /// Returns whether the text may be truncated because it [ends within a line](ends_within_line).
    /// JSON cannot be truncated unnoticed.
    pub(super) fn ends_within_line(&self) -> bool {
        !self.text.trim_start().starts_with('{') && ends_within_line(&self.text)
    }

    /// Fails if the file contains only white space: an emptied file would remove every restriction.
    pub(super) fn check_not_blank(&self) -> std::result::Result<(), ConfigError> {
        self.check([(self.is_blank(), IncompleteFile::Blank)])
    }

    /// Fails if this text looks like an unfinished write, regardless of what the file contained
    /// before.
    ///
    /// # Errors
    /// [`ConfigError::Incomplete`].
    pub fn check_complete(&self) -> std::result::Result<(), ConfigError> {
        self.check([
            (self.is_blank(), IncompleteFile::Blank),
            (self.ends_within_line(), IncompleteFile::NoLineBreak),
        ])
    }

    /// Fails if this text looks like an unfinished write over the text of `previous`. Such a text
    /// can be valid TOML without the settings that restrict access.
    ///
    /// # Errors
    /// [`ConfigError::Incomplete`].
    pub fn check_replaces(&self, previous: &Self) -> std::result::Result<(), ConfigError> {
        if previous.is_blank() {
            return Ok(());
        }
        let ends_within_line = self.ends_within_line();
        let is_cut_off = ends_within_line
            && self.text.len() < previous.text.len()
            && previous.text.starts_with(&*self.text);
        self.check([
            (self.is_blank(), IncompleteFile::Emptied),
            (is_cut_off, IncompleteFile::CutOff),
            (
                ends_within_line && !self.may_lack_line_break(previous),
                IncompleteFile::NoLineBreak,
            ),
        ])
    }

    /// Fails if this text ends with a line of `previous` after which `previous` had settings that
    /// this text lacks: a write that ended between two lines.
    ///
    /// # Errors
    /// [`ConfigError::Incomplete`].
    pub fn check_keeps_end(&self, previous: &Self) -> std::result::Result<(), ConfigError> {
        let has_lost_lines = || {
            let last = self.text.trim_end().rsplit('\n').next()?.trim_end();
            let end = previous.text.lines().map(str::trim_end);
            let lost: Vec<_> = end.rev().take_while(|line| *line != last).collect();
            // If `previous` does not contain the last line, nothing can be said about lost lines.
            let is_known = lost.len() < previous.text.lines().count();
            let current: HashSet<_> = self.text.lines().map(str::trim).collect();
            let mut settings = lost.into_iter().filter(|line| !has_no_setting(line));
            let is_lost = settings.any(|line| !current.contains(line.trim()));
            Some(is_known && is_lost)
        };
        self.check([(has_lost_lines() == Some(true), IncompleteFile::LostLines)])
    }

    /// Returns whether the last line may lack its line break: the previous text also lacked it, and
    /// the last line is not the truncated beginning of another line of that text.
    fn may_lack_line_break(&self, previous: &Self) -> bool {
        let (last, previous_last) = (last_line(&self.text), last_line(&previous.text));
        let is_start = || previous.text.lines().any(|line| line.starts_with(last));
        ends_within_line(&previous.text) && (last == previous_last || !is_start())
    }

    fn check<const N: usize>(
        &self,
        reasons: [(bool, IncompleteFile); N],
    ) -> std::result::Result<(), ConfigError> {
        match reasons.into_iter().find(|(is_so, _)| *is_so) {
            None => Ok(()),
            Some((_, reason)) => Err(ConfigError::Incomplete {
                path: self.path.clone(),
                reason,
            }),
        }
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
