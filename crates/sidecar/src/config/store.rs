use std::env;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use pillion_store::{Durability, StoreLocation, StoreOptions, UnknownLocation};
use secrecy::ExposeSecret;
use serde::Deserialize;

use super::{Config, millis};

/// `[store]`: where the sidecar keeps what must outlive it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSection {
    /// A path, `sqlite:PATH`, `postgres://...` or `memory`. `PILLION__STORE__LOCATION`.
    /// Default: `pillion.db` in the state directory: `$STATE_DIRECTORY` of systemd,
    /// `/var/lib/pillion` for root, else `$XDG_STATE_HOME/pillion` or
    /// `~/.local/state/pillion`.
    pub location: Option<LocationText>,
    /// What a write survives that was acknowledged. Default `process`.
    pub durability: DurabilityName,
    /// How long Postgres may take over a statement. `PILLION__STORE__STATEMENT_TIMEOUT_MS`. Default
    /// 15,000 ms.
    #[serde(rename = "statement_timeout_ms", deserialize_with = "millis::positive")]
    pub statement_timeout: Duration,
    /// What this host is called in a Postgres that others share, where neither its name nor what
    /// is in its state directory tells it apart. `PILLION__STORE__INSTANCE`. Default both.
    pub instance: Option<String>,
}

impl Default for StoreSection {
    fn default() -> Self {
        Self {
            location: None,
            durability: DurabilityName::default(),
            statement_timeout: Duration::from_secs(15),
            instance: None,
        }
    }
}

/// Where a store is. Its text may hold a password, and no error repeats it.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct LocationText(pub(crate) StoreLocation);

impl PartialEq for LocationText {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (StoreLocation::Memory, StoreLocation::Memory) => true,
            (StoreLocation::File(path), StoreLocation::File(other)) => path == other,
            (StoreLocation::Postgres(url), StoreLocation::Postgres(other)) => {
                url.expose_secret() == other.expose_secret()
            }
            _ => false,
        }
    }
}

impl TryFrom<String> for LocationText {
    type Error = UnknownLocation;

    fn try_from(text: String) -> Result<Self, UnknownLocation> {
        StoreLocation::from_str(&text).map(Self)
    }
}

/// What a write to a file survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityName {
    /// The death of the process.
    #[default]
    Process,
    /// The loss of power too; every write waits for the disk.
    PowerLoss,
}

impl StoreSection {
    /// The options of the store, if the configuration or this user's directories say where
    /// it is.
    pub(crate) fn options(&self) -> Option<StoreOptions> {
        let location = match &self.location {
            Some(LocationText(location)) => location.clone(),
            None => StoreLocation::File(state_directory()?.join("pillion.db")),
        };
        let mut options = StoreOptions::new(location);
        options.durability = match self.durability {
            DurabilityName::Process => Durability::Process,
            DurabilityName::PowerLoss => Durability::PowerLoss,
        };
        options.statement_timeout = self.statement_timeout;
        Some(options)
    }
}

impl Config {
    /// Where large results go, if the configuration or this user's directories say where.
    pub(crate) fn results_directory(&self) -> Option<PathBuf> {
        if let Some(directory) = &self.results.directory {
            return Some(directory.clone());
        }
        Some(self.beside_the_store()?.join("results"))
    }

    /// Where processes that share the store without a socket show that they live; none for a
    /// store that nobody shares.
    pub(crate) fn lives_directory(&self) -> Option<PathBuf> {
        match &self.store.location {
            Some(LocationText(StoreLocation::Memory)) => None,
            _ => Some(self.beside_the_store()?.join("lives")),
        }
    }

    fn beside_the_store(&self) -> Option<PathBuf> {
        match &self.store.location {
            Some(LocationText(StoreLocation::File(path))) => Some(path.parent()?.to_owned()),
            _ => state_directory(),
        }
    }
}

/// Where this user's programs keep what must last.
pub(crate) fn state_directory() -> Option<PathBuf> {
    let directory = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    if let Some(list) = env::var_os("STATE_DIRECTORY") {
        return env::split_paths(&list).next();
    }
    if let Some(state) = directory("XDG_STATE_HOME") {
        return Some(state.join("pillion"));
    }
    if nix::unistd::geteuid().is_root() {
        return Some("/var/lib/pillion".into());
    }
    // A program that is started with no environment has a user all the same.
    let home = directory("HOME").or_else(|| {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid());
        user.ok().flatten().map(|user| user.dir)
    });
    Some(home?.join(".local/state/pillion"))
}
