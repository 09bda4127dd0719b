use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;

/// Where a store is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StoreLocation {
    /// In memory, and gone with the process.
    Memory,
    /// A file of SQLite.
    File(PathBuf),
    /// A Postgres database, by its URL, which may hold a password.
    Postgres(SecretString),
}

impl FromStr for StoreLocation {
    type Err = UnknownLocation;

    /// `memory`, `postgres://...`, `sqlite:PATH`, or a path.
    ///
    /// ```
    /// use pillion_store::StoreLocation;
    /// assert!(matches!("sqlite:/var/lib/p.db".parse(), Ok(StoreLocation::File(_))));
    /// assert!("mysql://localhost/p".parse::<StoreLocation>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, UnknownLocation> {
        if text == "memory" {
            return Ok(Self::Memory);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned().into()));
        }
        let path = text.strip_prefix("sqlite://");
        let path = path.or(text.strip_prefix("sqlite:")).unwrap_or(text);
        if path.is_empty() || path.contains("://") {
            return Err(UnknownLocation);
        }
        Ok(Self::File(path.into()))
    }
}

/// The text names no store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownLocation;

impl fmt::Display for UnknownLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store is a path, sqlite:PATH, postgres://... or memory")
    }
}

impl std::error::Error for UnknownLocation {}

/// What an acknowledged write survives, in a file of SQLite. Postgres decides for itself
/// (`synchronous_commit`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// The death of the process, in whatever way. When the machine loses power, the last writes
    /// may be missing; what there is, is consistent (`synchronous = NORMAL`).
    #[default]
    Process,
    /// The loss of power too, at the price of waiting for the disk at each write
    /// (`synchronous = FULL`).
    PowerLoss,
}

/// Where a store is, and its bounds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Where.
    pub location: StoreLocation,
    /// What a write survives. Default: the death of the process.
    pub durability: Durability,
    /// How long a write waits for others, another process's included, before it fails as
    /// `unavailable`. Default: 5 s.
    pub busy_timeout: Duration,
    /// How long Postgres may take over a statement, beside the time that getting a connection
    /// takes, before it fails as `unavailable` and the connection is given up: a server that has
    /// gone silent says nothing by itself. Default: 15 s.
    pub statement_timeout: Duration,
    /// Connections that read; for Postgres, all connections. Default: 4.
    pub connections: u32,
    /// The most bytes that a file may have; writing more fails as `unavailable`. Default:
    /// none, which is the disk.
    pub max_file_bytes: Option<u64>,
}

impl StoreOptions {
    /// A store there, with the defaults.
    #[must_use]
    pub fn new(location: StoreLocation) -> Self {
        Self {
            location,
            durability: Durability::default(),
            busy_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(15),
            connections: 4,
            max_file_bytes: None,
        }
    }

    /// A store in a file of SQLite.
    #[must_use]
    pub fn at_file(path: impl AsRef<Path>) -> Self {
        Self::new(StoreLocation::File(path.as_ref().to_owned()))
    }
}
