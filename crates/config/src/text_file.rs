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

/// Reads a text file of the configuration. Only regular files are read, because a reload could not
/// read the data of a pipe or a terminal again.
///
/// # Errors
/// An I/O error of the file; `InvalidData` if the file is not a regular file, is larger than 16 MiB
/// or is not UTF-8.
fn read_text(path: &Path) -> Result<String> {
    let invalid_data = |message: String| Error::new(ErrorKind::InvalidData, message);
    // The file is opened with O_NONBLOCK, because opening a FIFO would otherwise wait for a writer.
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    let file_type = file.metadata()?.file_type();
    if !file_type.is_file() {
        let file_kind = if file_type.is_dir() {
            "a directory"
        } else {
            "a pipe or a device"
        };
        let message = format!("{file_kind} was found, expected a regular file");
        return Err(invalid_data(message));
    }
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let message = format!("the file is larger than {MAX_FILE_BYTES} bytes");
        return Err(invalid_data(message));
    }
    String::from_utf8(text).map_err(|error| Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

/// A configuration file that was read. Each load of the configuration uses only this text of the
/// file, so that no load mixes two versions of the file.
#[derive(Clone)]
pub struct ConfigFile {
    path: PathBuf,
    text: Arc<str>,
}

/// Why a file looks incompletely written and is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IncompleteFile {
    /// The file is empty.
    #[error(
        "the file is empty: if the defaults are intended, write a comment (#) into the file, or \
         omit the file's path"
    )]
    Blank,
    /// The file is empty, but the file that it replaces was not.
    #[error(
        "the file is empty, but was not empty before: if this is intended, write a comment (#) \
         into the file"
    )]
    Emptied,
    /// The file ends in the middle of a line of its previous text.
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
    /// The file ends with a line after which its previous text had further settings.
    #[error(
        "the file ends with a line after which its previous text continued: if the rest was \
         removed on purpose, end the file with a new comment line (#)"
    )]
    LostLines,
}

/// Returns whether the text does not end with a line break. A text without a final line break may
/// be incompletely written, but some editors also write such texts.
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
    let text = line.trim();
    text.is_empty() || text.starts_with('#')
}

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ConfigError::Read`]: an I/O error, or the file is not a regular file, is larger than 16
    /// MiB or is not UTF-8.
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
    /// Returns `false` for JSON, because parsing truncated JSON fails.
    pub(super) fn ends_within_line(&self) -> bool {
        !self.text.trim_start().starts_with('{') && ends_within_line(&self.text)
    }

    /// Fails if the file contains only white space, because an emptied file would remove all
    /// configured restrictions.
    pub(super) fn check_not_blank(&self) -> std::result::Result<(), ConfigError> {
        self.return_first_error([(self.is_blank(), IncompleteFile::Blank)])
    }

    /// Fails if this text looks incompletely written. Does not consider what the file contained
    /// before.
    ///
    /// # Errors
    /// [`ConfigError::Incomplete`].
    pub fn check_complete(&self) -> std::result::Result<(), ConfigError> {
        self.return_first_error([
            (self.is_blank(), IncompleteFile::Blank),
            (self.ends_within_line(), IncompleteFile::NoLineBreak),
        ])
    }

    /// Fails if this text looks like an incompletely written new version of the text of `previous`.
    /// An incomplete text may be valid TOML but lack the settings that restrict access.
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
        self.return_first_error([
            (self.is_blank(), IncompleteFile::Emptied),
            (is_cut_off, IncompleteFile::CutOff),
            (
                ends_within_line && !self.may_lack_line_break(previous),
                IncompleteFile::NoLineBreak,
            ),
        ])
    }

    /// Fails if this text may be the result of a write that ended between two lines: the text ends
    /// with a line of `previous`, and lacks settings that follow that line in `previous`.
    ///
    /// # Errors
    /// [`ConfigError::Incomplete`].
    pub fn check_keeps_end(&self, previous: &Self) -> std::result::Result<(), ConfigError> {
        let has_lost_lines = || {
            let final_line = self.text.trim_end().rsplit('\n').next()?.trim_end();
            let previous_lines = previous.text.lines().map(str::trim_end);
            let following_lines: Vec<_> = previous_lines
                .rev()
                .take_while(|line| *line != final_line)
                .collect();
            // Whether lines are missing can only be determined if `previous` contains the final
            // line of this text.
            let has_final_line = following_lines.len() < previous.text.lines().count();
            let current_lines: HashSet<_> = self.text.lines().map(str::trim).collect();
            let mut settings = following_lines.iter().filter(|line| !has_no_setting(line));
            let is_setting_lost = settings.any(|line| !current_lines.contains(line.trim()));
            Some(has_final_line && is_setting_lost)
        };
        self.return_first_error([(has_lost_lines() == Some(true), IncompleteFile::LostLines)])
    }

    /// Returns whether the missing final line break is acceptable, because the previous text also
    /// lacked one, and the last line is not a truncated line of the previous text.
    fn may_lack_line_break(&self, previous: &Self) -> bool {
        let (final_line, previous_final_line) = (last_line(&self.text), last_line(&previous.text));
        let mut previous_lines = previous.text.lines();
        let is_line_start = previous_lines.any(|line| line.starts_with(final_line));
        ends_within_line(&previous.text) && (final_line == previous_final_line || !is_line_start)
    }

    fn return_first_error<const N: usize>(
        &self,
        reasons: [(bool, IncompleteFile); N],
    ) -> std::result::Result<(), ConfigError> {
        match reasons.into_iter().find(|(has_problem, _)| *has_problem) {
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
        // Debug output omits the text of the file, which may contain credentials.
        f.debug_struct("ConfigFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
