use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

/// The parameters of a Postgres URL that sqlx supports, in addition to `options[NAME]`. sqlx
/// ignores other parameters, and logs them with their values.
const POSTGRES_PARAMETERS: [&str; 18] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

/// The location of a store.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
#[non_exhaustive]
pub enum StoreLocation {
    /// The store is in memory, and is lost when the process ends.
    Memory,
    /// The store is an SQLite file, which is created if it does not exist.
    File(PathBuf),
    /// The store is in a Postgres database. The URL may contain a password.
    Postgres(SecretString),
}

impl PartialEq for StoreLocation {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memory, Self::Memory) => true,
            (Self::File(path), Self::File(other_path)) => path == other_path,
            (Self::Postgres(url), Self::Postgres(other_url)) => {
                url.expose_secret() == other_url.expose_secret()
            }
            _ => false,
        }
    }
}

impl TryFrom<String> for StoreLocation {
    type Error = LocationError;

    fn try_from(text: String) -> Result<Self, LocationError> {
        text.parse()
    }
}

impl FromStr for StoreLocation {
    type Err = LocationError;

    /// Parses `memory`, `postgres://...`, `sqlite:PATH` or a path.
    ///
    /// ```
    /// use pillion_store::StoreLocation;
    /// assert!(matches!("sqlite:/var/lib/p.db".parse(), Ok(StoreLocation::File(_))));
    /// assert!("mysql://localhost/p".parse::<StoreLocation>().is_err());
    /// assert!("postgres://localhost/p?sslmod=require".parse::<StoreLocation>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, LocationError> {
        if text == "memory" {
            return Ok(Self::Memory);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            check_parameters(text)?;
            return Ok(Self::Postgres(text.to_owned().into()));
        }
        let path = text
            .strip_prefix("sqlite://")
            .or(text.strip_prefix("sqlite:"))
            .unwrap_or(text);
        if path.is_empty() || path.contains("://") {
            return Err(LocationError::Unknown);
        }
        if text.starts_with("sqlite:") && path.contains('?') {
            return Err(LocationError::SqliteParameters);
        }
        Ok(Self::File(path.into()))
    }
}

/// Checks that sqlx knows each parameter of a Postgres URL.
fn check_parameters(text: &str) -> Result<(), LocationError> {
    let Ok(url) = Url::parse(text) else {
        return Err(LocationError::InvalidUrl);
    };
    let is_known = |key: &str| {
        let option = key.strip_prefix("options[");
        option.is_some_and(|option| option.ends_with(']')) || POSTGRES_PARAMETERS.contains(&key)
    };
    let mut keys = url.query_pairs().map(|(key, _)| key);
    let Some(unknown_key) = keys.find(|key| !is_known(key)) else {
        return Ok(());
    };
    // The error names the parameter only if it looks like a name, because the text after `?` may be
    // a part of a password that is not percent-encoded, or a value without a key.
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let query = url.query().unwrap_or_default();
    let has_value = query.split('&').any(|pair| {
        let value = pair.strip_prefix(&*unknown_key);
        value.is_some_and(|value| value.starts_with('='))
    });
    let is_short = (1..=64).contains(&unknown_key.len());
    if has_value && !query.contains('@') && is_short && unknown_key.bytes().all(is_name_byte) {
        return Err(LocationError::UnknownParameter(unknown_key.into_owned()));
    }
    Err(LocationError::UnnamedParameter)
}

/// Error for a text that is not a store location. The error messages do not contain the text, which
/// may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LocationError {
    /// The text is neither a path nor a known kind of URL.
    #[error("a store must be a path, sqlite:PATH, postgres://... or memory")]
    Unknown,
    /// The URL of a Postgres database is invalid.
    #[error("the URL of the Postgres database is not a valid URL")]
    InvalidUrl,
    /// The URL of a Postgres database has an unknown parameter, with this name.
    #[error("the URL of the Postgres database has an unknown parameter `{0}`: remove it")]
    UnknownParameter(String),
    /// The URL of a Postgres database has an unknown parameter that may be a part of a password.
    #[error(
        "the URL of the Postgres database has an unknown parameter: remove it, or percent-encode \
         the special characters of the user and the password"
    )]
    UnnamedParameter,
    /// The location of an SQLite file has parameters.
    #[error(
        "a location of the form sqlite:PATH takes no parameters: if the path contains `?`, omit \
         the prefix sqlite:"
    )]
    SqliteParameters,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_parameter_of_a_location_is_an_error_without_its_value() {
        let parse_error = |query: &str| {
            let url = format!("postgres://me:secret@localhost/p?{query}");
            url.parse::<StoreLocation>().unwrap_err()
        };
        for key in [
            "sslpassword",
            "passwd",
            "PASSWORD",
            "pass-word",
            "optionsx",
            "sslmode2",
        ] {
            let error = parse_error(&format!("sslmode=require&{key}=secret"));
            assert_eq!(error, LocationError::UnknownParameter(key.to_owned()));
            assert!(error.to_string().contains(key));
        }
        let ambiguous_queries = [
            "secret",
            "secret&sslmode=require",
            "secret&sslmode=secret=1",
            "=secret",
            "secret%3d",
            "se%20cret=1",
            "secret=1@host/db",
            "options[secret=1",
        ];
        for query in ambiguous_queries {
            let error = parse_error(query);
            assert_eq!(error, LocationError::UnnamedParameter, "{query}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{query}");
        }
        // The password contains an unencoded `?`.
        let url = "postgres://me:123?secret=1@localhost/p";
        assert_eq!(
            url.parse::<StoreLocation>().unwrap_err(),
            LocationError::UnnamedParameter
        );
        let url = "postgres://me:sec?ret@localhost/p";
        assert_eq!(
            url.parse::<StoreLocation>().unwrap_err(),
            LocationError::InvalidUrl
        );
        let sqlite = "sqlite:p.db?password=secret".parse::<StoreLocation>();
        assert_eq!(sqlite.unwrap_err(), LocationError::SqliteParameters);
        for parameter in POSTGRES_PARAMETERS
            .into_iter()
            .chain(["options[search_path]"])
        {
            let url = format!("postgresql://localhost/p?{parameter}=1");
            assert!(url.parse::<StoreLocation>().is_ok(), "{parameter}");
        }
        assert!("what?.db".parse::<StoreLocation>().is_ok());
    }
}

/// The failures that a committed write to an SQLite file survives. For Postgres, the server's
/// setting `synchronous_commit` determines these failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Durability {
    /// A committed write survives any end of the process. After a power failure, the last writes
    /// may be missing, but the store is consistent (`synchronous = NORMAL`).
    #[default]
    Process,
    /// A committed write also survives a power failure; each write waits for the disk (`synchronous
    /// = FULL`).
    PowerLoss,
}

/// The location and the limits of a store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The memory, file or Postgres database of the store.
    pub location: StoreLocation,
    /// The failures that a committed write survives. Default: [`Process`](Durability::Process).
    pub durability: Durability,
    /// How long a write waits for other writers, including other processes, before it fails as
    /// `unavailable`. Default: 2 s; 5 s for Postgres.
    pub busy_timeout: Duration,
    /// The timeout of a Postgres statement, in addition to the time to get a connection. After the
    /// timeout, the statement fails as `unavailable` and the connection is closed, because an
    /// unresponsive server never reports an error. Default: 15 s.
    pub statement_timeout: Duration,
    /// The number of reading connections; for Postgres, the number of all connections. Default: 4.
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
