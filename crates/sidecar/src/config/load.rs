use std::ffi::OsString;
use std::path::Path;

use toml::Table;

use super::environment::{self, Origins};
use super::{Config, ConfigError, KeyPath, locate, servers};

/// A file's name and text, for errors to point into.
struct Source<'a> {
    name: &'a str,
    text: &'a str,
}

impl Config {
    /// The configuration from a file, if there is one, and the environment.
    ///
    /// # Errors
    /// [`ConfigError`]: the file cannot be read or is no TOML, or a key or a value is not
    /// what it can be.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let Some(path) = file else {
            return read(&Source { name: "", text: "" }, variables);
        };
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let name = path.display().to_string();
        read(
            &Source {
                name: &name,
                text: &text,
            },
            variables,
        )
    }

    /// The configuration from the text of a file; `name` is what errors call it. The
    /// environment is left alone.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        read(&Source { name, text }, [])
    }
}

fn read(
    source: &Source<'_>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Config, ConfigError> {
    let mut table = parse(source)?;
    let variables: Vec<_> = variables.into_iter().collect();
    let origins = environment::overlay(&mut table, variables.iter().cloned())?;
    let named = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mcp_servers = servers::take(&mut table, &named.collect())
        .map_err(|fault| blame(source, &origins, fault.key, &fault.message))?;
    let config: Config = serde_path_to_error::deserialize(table).map_err(|error| {
        let key = KeyPath::from(error.path());
        blame(source, &origins, key, error.into_inner().message())
    })?;
    Ok(Config {
        mcp_servers,
        ..config
    })
}

fn parse(source: &Source<'_>) -> Result<Table, ConfigError> {
    source.text.parse().map_err(|error: toml::de::Error| {
        let offset = error.span().map_or(0, |span| span.start);
        ConfigError::Syntax {
            file: source.name.to_owned(),
            line: locate::line_at(source.text, offset),
            message: one_line(error.message()),
        }
    })
}

/// Says where the bad value came from: a variable that set the key or something around it,
/// else the file.
fn blame(source: &Source<'_>, origins: &Origins, key: KeyPath, message: &str) -> ConfigError {
    let message = one_line(message);
    let line = locate::line_of(source.text, &key);
    let by_variable = origins.iter().find(|(set, _)| {
        // A table that only a variable brought in is to blame on that variable.
        key.starts_with(set) || (line.is_none() && set.starts_with(&key))
    });
    match by_variable {
        Some((_, variable)) => ConfigError::Variable {
            variable: variable.clone(),
            key,
            message,
        },
        None => ConfigError::FileValue {
            file: source.name.to_owned(),
            line: line.unwrap_or(1),
            key,
            message,
        },
    }
}

fn one_line(message: &str) -> String {
    let lines: Vec<_> = message.lines().map(str::trim).collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests;
