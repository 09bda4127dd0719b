use std::io;
use std::path::PathBuf;

use pillion_egress::InvalidProxy;

use super::{IncompleteFile, KeyPath};

/// An error of the configuration. Each message is one line that names the file and the line, or the
/// environment variable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file looks incompletely written, and does not replace the configuration in effect.
    #[error("{}: {reason}", path.display())]
    Incomplete {
        /// The path of the file.
        path: PathBuf,
        /// Why the file is not accepted.
        reason: IncompleteFile,
    },
    /// The file is not valid TOML.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// The name of the file, as the caller passed it.
        file: String,
        /// The line number, from 1.
        line: usize,
        /// Why the line is not valid TOML.
        message: String,
    },
    /// A key of the file is unknown or has an invalid value.
    #[error("{file}:{line}: {key}: {message}")]
    FileValue {
        /// The name of the file, as the caller passed it.
        file: String,
        /// The line number of the key, from 1.
        line: usize,
        /// The path of the key.
        key: KeyPath,
        /// Why the key is not accepted.
        message: String,
    },
    /// An environment variable is probably meant to set a key but has no effect.
    #[error(
        "environment variable {variable}: the variable of a key is `PILLION__` and the key's path \
         in capital letters with `__` between its parts, as in PILLION__LOG__FORMAT"
    )]
    MisspelledVariable {
        /// The name of the environment variable.
        variable: String,
    },
    /// An environment variable is probably meant for Pillion but is not read.
    #[error("environment variable {variable}: unknown variable: did you mean {similar_name}?")]
    UnknownVariable {
        /// The name of the environment variable.
        variable: String,
        /// The known variable with the most similar name.
        similar_name: &'static str,
    },
    /// The value of an environment variable for proxies is not a valid proxy address.
    #[error(transparent)]
    Proxy(#[from] InvalidProxy),
    /// An environment variable has an invalid value or names an unknown key.
    #[error("environment variable {variable}: {key}: {message}")]
    Variable {
        /// The name of the environment variable.
        variable: String,
        /// The path of the key that the variable sets.
        key: KeyPath,
        /// Why the value is not accepted.
        message: String,
    },
}
