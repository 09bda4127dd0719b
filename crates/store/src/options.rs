use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;

/// The location of a store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StoreLocation {
    /// In memory; lost when the process ends.
    Memory,
    /// An SQLite file.
    File(PathBuf),
    /// A Postgres database. The URL may contain a password.
    Postgres(SecretString),
}

impl FromStr for StoreLocation {
    type Err = UnknownLocation;

    /// Parses `memory`, `postgres://...`, `sqlite:PATH` or a path.
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

/// The text is not a store location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownLocation;

impl fmt::Display for UnknownLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store must be a path, sqlite:PATH, postgres://... or memory")
    }
}

impl std::error::Error for UnknownLocation {}

/// What a committed write to an SQLite file survives. For Postgres, the server's
/// `synchronous_commit` decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Any end of the process. After a power failure, the last writes may be missing, but the store
    /// is consistent (`synchronous = NORMAL`).
    #[default]
    Process,
    /// Also a power failure; each write waits for the disk (`synchronous = FULL`).
    PowerLoss,
}

/// The location and the limits of a store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The location.
    pub location: StoreLocation,
    /// What a committed write survives. Default: any end of the process.
    pub durability: Durability,
    /// How long a write waits for other writers, including other processes, before it fails as
    /// `unavailable`. Default: 2 s; 5 s for Postgres.
    pub busy_timeout: Duration,
    /// The timeout of a Postgres statement, in addition to the time to get a connection. After the
    /// timeout, the statement fails as `unavailable` and the connection is closed, because an
    /// unresponsive server never reports an error. Default: 15 s.
    pub statement_timeout: Duration,
    /// The number of connections for reading; for Postgres, of all connections. Default: 4.
    pub connections: u32,
    /// The maximum size of an SQLite file, in bytes; larger writes fail as `unavailable`. Default:
    /// no limit.
    pub max_file_bytes: Option<u64>,
}

impl StoreOptions {
    /// Creates options for this location, with the default limits.
    #[must_use]
    pub fn new(location: StoreLocation) -> Self {
        let busy_timeout = match location {
            StoreLocation::Memory | StoreLocation::File(_) => Duration::from_secs(2),
            StoreLocation::Postgres(_) => Duration::from_secs(5),
        };
        Self {
            location,
            durability: Durability::default(),
            busy_timeout,
            statement_timeout: Duration::from_secs(15),
            connections: 4,
            max_file_bytes: None,
        }
    }

    /// Creates options for a store in an SQLite file.
    #[must_use]
    pub fn at_file(path: impl AsRef<Path>) -> Self {
        Self::new(StoreLocation::File(path.as_ref().to_owned()))
    }
}
