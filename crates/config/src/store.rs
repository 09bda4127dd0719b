use std::env;
use std::path::PathBuf;
use std::time::Duration;

use pillion_store::{Durability, StoreLocation, StoreOptions};
use serde::Deserialize;

use super::{Config, millis};

/// `[store]`: the database for data that survives a restart.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StoreSection {
    /// The location of the database: a path, `sqlite:PATH`, `postgres://...` or `memory`. Default:
    /// `pillion.db` in the state directory; see [the store](../how-to/store.md).
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub location: Option<StoreLocation>,
    /// The failure that a write to a SQLite file survives: a crash of the process (`process`), or
    /// also a power failure (`power-loss`). With `power-loss`, every write waits for the disk.
    #[cfg_attr(test, schemars(with = "String", extend("enum" = ["process", "power-loss"])))]
    pub durability: Durability,
    /// Timeout of a PostgreSQL statement; after the timeout, the statement fails and its connection
    /// is closed.
    #[serde(rename = "statement_timeout_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub statement_timeout: Duration,
    /// The name of this host in a PostgreSQL database that [several hosts
    /// share](../how-to/store.md). Needed only if neither the host name nor the ID in the state
    /// directory is unique. Default: the host name, with an ID in the state directory.
    pub instance: Option<String>,
}

impl Default for StoreSection {
    fn default() -> Self {
        Self {
            location: None,
            durability: Durability::default(),
            statement_timeout: Duration::from_secs(15),
            instance: None,
        }
    }
}

impl StoreSection {
    /// Returns the options of the store; `None` if neither the configuration nor the environment
    /// determines the location.
    pub fn options(&self) -> Option<StoreOptions> {
        let location = match &self.location {
            Some(location) => location.clone(),
            None => StoreLocation::File(state_directory()?.join("pillion.db")),
        };
        let mut options = StoreOptions::new(location);
        options.durability = self.durability;
        options.statement_timeout = self.statement_timeout;
        Some(options)
    }
}

impl Config {
    /// Returns the directory of stored results; `None` if neither the configuration nor the
    /// environment determines the directory.
    pub fn results_directory(&self) -> Option<PathBuf> {
        if let Some(directory) = &self.results.directory {
            return Some(directory.clone());
        }
        Some(self.store_directory()?.join("results"))
    }

    /// Returns the directory for the lock files of processes that have no socket. A locked file
    /// shows that its process is running. Returns `None` for a store in memory, because no other
    /// process shares such a store, and if the environment determines no directory.
    pub fn process_locks_directory(&self) -> Option<PathBuf> {
        match &self.store.location {
            Some(StoreLocation::Memory) => None,
            _ => Some(self.store_directory()?.join("processes")),
        }
    }

    fn store_directory(&self) -> Option<PathBuf> {
        match &self.store.location {
            Some(StoreLocation::File(path)) => Some(path.parent()?.to_owned()),
            _ => state_directory(),
        }
    }
}

/// Returns the directory for data that survives a restart; `None` if the environment determines
/// none.
pub fn state_directory() -> Option<PathBuf> {
    let read_absolute_directory = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    // Relative directories are skipped, because they would depend on the working directory.
    let state_directories = env::var_os("STATE_DIRECTORY").unwrap_or_default();
    if let Some(directory) = env::split_paths(&state_directories).find(|path| path.is_absolute()) {
        return Some(directory);
    }
    if let Some(directory) = read_absolute_directory("XDG_STATE_HOME") {
        return Some(directory.join("pillion"));
    }
    if nix::unistd::geteuid().is_root() {
        return Some("/var/lib/pillion".into());
    }
    // If `HOME` is not set, the home directory comes from the user database.
    let home_directory = read_absolute_directory("HOME").or_else(|| {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid());
        user.ok().flatten().map(|user| user.dir)
    });
    Some(home_directory?.join(".local/state/pillion"))
}
