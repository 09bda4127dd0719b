use std::io;
use std::path::PathBuf;

use super::KeyPath;

/// Why there is no configuration. Each is one line that says where to look.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is no TOML.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// The file as it was named.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// A key of the file does not exist or has a value that it cannot have.
    #[error("{file}:{line}: {key}: {message}")]
    FileValue {
        /// The file as it was named.
        file: String,
        /// The line of the key, from 1.
        line: usize,
        /// The key.
        key: KeyPath,
        /// What is wrong with it.
        message: String,
    },
    /// A variable of the environment has a value that its key cannot have, or names a key
    /// that does not exist.
    #[error("environment variable {variable}: {key}: {message}")]
    Variable {
        /// The variable's name.
        variable: String,
        /// The key that it sets.
        key: KeyPath,
        /// What is wrong with it.
        message: String,
    },
}
