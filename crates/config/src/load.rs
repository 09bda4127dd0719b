use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pillion_egress::Proxies;
use toml::Table;

use super::builtins;
use super::entry::EntryError;
use super::environment::{self, Origins};
use super::models_file::ModelsFile;
use super::servers::{self, EntryFilter, ServerEntries};
use super::{
    Config, ConfigError, ConfigFile, DeclaredTools, Key, KeyPath, McpServerSection, error_messages,
    locate, strict_value, variable_names,
};

/// The name and the text of a file, to which errors refer.
pub(super) struct ConfigText<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Config {
    /// Reads the configuration from an optional file and the environment.
    ///
    /// # Errors
    /// [`ConfigError`]: the file cannot be read or is not valid TOML, or a key is unknown or has an
    /// invalid value.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let file = file.map(ConfigFile::read).transpose()?;
        Self::from_file(file.as_ref(), variables)
    }

    /// Reads the configuration from the text of an optional file and the environment.
    ///
    /// # Errors
    /// As for [`load`](Self::load); the file has already been read.
    pub fn from_file(
        file: Option<&ConfigFile>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let (config, taken) = read_file(file, variables, EntryFilter::All)?;
        let config = Self {
            file: file.cloned(),
            ..config
        };
        Ok(config.with(taken.servers))
    }

    /// Reads one MCP server, by label, from an optional file and the environment. Errors in the
    /// entries of other servers are ignored, and the variables that those entries name need not be
    /// set. Returns the known labels as `Err` if no server has this label.
    ///
    /// # Errors
    /// The same as [`load`](Self::load).
    pub fn load_server(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        label: &str,
    ) -> Result<Result<McpServerSection, Vec<String>>, ConfigError> {
        let file = file.map(ConfigFile::read).transpose()?;
        let filter = EntryFilter::Labelled(label);
        let (_, mut taken) = read_file(file.as_ref(), variables, filter)?;
        Ok(taken.servers.pop().ok_or(taken.others))
    }

    /// Reads the configuration from the text of a file, without the environment. `name` is the
    /// file's name in errors.
    ///
    /// # Errors
    /// The same as [`load`](Self::load).
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let (config, taken) = read(&ConfigText { name, text }, [], EntryFilter::All)?;
        Ok(config.with(taken.servers))
    }

    /// Returns the other files to which a configuration refers, as far as the configuration can be
    /// read: it may be invalid.
    pub fn files_named(
        file: Option<&ConfigFile>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<PathBuf> {
        let parsed = file.and_then(|file| file.text().parse::<Table>().ok());
        let mut table = parsed.unwrap_or_default();
        // An invalid variable is ignored here; the variables before it are applied.
        drop(environment::overlay(&mut table, variables));
        let documents = DeclaredTools::documents_named(&table);
        let tokens = table.get("tcp").and_then(|tcp| tcp.get("tokens_file"));
        let values = documents.into_iter().chain(tokens);
        let paths = values.filter_map(|path| Some(path.as_str()?.into()));
        paths
            .chain(file.and_then(|file| ModelsFile::named(&table, file.path())))
            .collect()
    }

    fn with(self, mcp_servers: Vec<McpServerSection>) -> Self {
        Self {
            mcp_servers,
            ..self
        }
    }
}

fn read_file(
    file: Option<&ConfigFile>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    filter: EntryFilter<'_>,
) -> Result<(Config, ServerEntries), ConfigError> {
    let Some(file) = file else {
        return read(&ConfigText { name: "", text: "" }, variables, filter);
    };
    file.check_not_blank()?;
    let name = file.path().display().to_string();
    let source = ConfigText {
        name: &name,
        text: file.text(),
    };
    read(&source, variables, filter)
}

/// Reads the configuration without MCP servers, and separately its MCP servers.
fn read(
    source: &ConfigText<'_>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    filter: EntryFilter<'_>,
) -> Result<(Config, ServerEntries), ConfigError> {
    let mut table = parse(source)?;
    let variables: Vec<_> = variables.into_iter().collect();
    // With an invalid proxy, no client could send requests.
    Proxies::from_variables(|name| {
        let (_, value) = variables.iter().find(|(known, _)| known == name)?;
        Some(value.clone().into_string().map_err(drop))
    })?;
    let origins = environment::overlay(&mut table, variables.iter().cloned())?;
    let mut blame = ErrorLocator {
        source,
        origins,
        models: None,
    };
    if let Some(key) = blank_key(&table) {
        return Err(blame.on(key, "the value is empty: set a value, or remove the key"));
    }
    blame.models = match filter {
        EntryFilter::All => ModelsFile::take(&mut table, &blame)?,
        EntryFilter::Labelled(_) => {
            ModelsFile::skip(&mut table);
            None
        }
    };
    let unknown_variables = match filter {
        EntryFilter::All => variable_names::unknown(&variables, &table)?,
        EntryFilter::Labelled(_) => Vec::new(),
    };
    let named = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .collect();
    let blamed = |fault: EntryError| blame.on(fault.key, &fault.message);
    let taken = servers::take(&mut table, &named, filter).map_err(blamed)?;
    let declared = match filter {
        EntryFilter::All => DeclaredTools::take(&mut table, &named).map_err(blamed)?,
        EntryFilter::Labelled(_) => {
            DeclaredTools::skip(&mut table);
            DeclaredTools::default()
        }
    };
    let builtins = builtins::take(&mut table).map_err(blamed)?;
    let mut config = deserialize(table).map_err(|(key, message)| blame.on(key, &message))?;
    if matches!(filter, EntryFilter::All) {
        let resolved = builtins.resolve(&config.tools, &named, config.vault.is_there());
        config.builtins = resolved.map_err(blamed)?;
    }
    if matches!(filter, EntryFilter::All)
        && let Some((key, message)) = config.fault_of_models(&taken.servers)
    {
        return Err(blame.on(key, &message));
    }
    for (section, fault) in [
        ("socket", config.socket.fault()),
        ("tcp", config.tcp.fault()),
        ("results", config.results.fault()),
        ("vault", config.vault.fault()),
    ] {
        if let Some((key, message)) = fault {
            let key = KeyPath::from_names([section, key]);
            return Err(blame.on(key, message));
        }
    }
    for tool in environment::tools_of(&blame.origins) {
        let sections = config.tools.iter_mut();
        for (_, section) in sections.filter(|(name, _)| name.eq_ignore_ascii_case(&tool)) {
            section.in_any_case = true;
        }
    }
    config.declared = declared;
    config.unknown_variables = unknown_variables;
    config.models_file = blame.models.map(|models| models.file);
    Ok((config, taken))
}

/// Returns the configuration, or the key of the first invalid value and why it is invalid.
fn deserialize(mut table: Table) -> Result<Config, (KeyPath, String)> {
    let fault_of = |table: Table| {
        strict_value::read(table).map_err(|error| {
            let key = KeyPath::from(error.path());
            (key, error.into_inner().message().to_owned())
        })
    };
    let fault = match fault_of(table.clone()) {
        Err(fault) if fault.1.ends_with("expected string only") => fault,
        outcome => return outcome,
    };
    // This message does not name the accepted strings, but the message about an unknown string
    // does.
    if let Some(value) = value_at(&mut table, &fault.0) {
        *value = toml::Value::from(" ");
        if let Err((key, message)) = fault_of(table)
            && key == fault.0
            && let Some((_, expected)) = message.split_once(", expected ")
        {
            return Err((key, format!("invalid type, expected {expected}")));
        }
    }
    Err(fault)
}

fn value_at<'t>(table: &'t mut Table, key: &KeyPath) -> Option<&'t mut toml::Value> {
    let (Key::Name(first), rest) = key.keys().split_first()? else {
        return None;
    };
    rest.iter()
        .try_fold(table.get_mut(first)?, |value, key| match key {
            Key::Name(name) => value.get_mut(name),
            Key::Index(index) => value.get_mut(*index),
        })
}

/// The keys whose value names a file, a directory or a variable: an empty name would mean the working
/// directory, or nothing.
const NAMES: [[&str; 2]; 9] = [
    ["socket", "path"],
    ["tcp", "tokens_env"],
    ["tcp", "tokens_file"],
    ["store", "location"],
    ["store", "instance"],
    ["results", "directory"],
    ["vault", "key_file"],
    ["vault", "key_env"],
    ["wasm_tools", "folder"],
];

/// Returns the first key of [`NAMES`] whose value is blank.
fn blank_key(table: &Table) -> Option<KeyPath> {
    let blank = NAMES.into_iter().find(|[section, key]| {
        let value = table.get(*section).and_then(|section| section.get(*key));
        let text = value.and_then(toml::Value::as_str);
        text.is_some_and(|text| text.trim().is_empty())
    });
    blank.map(KeyPath::from_names)
}

pub(super) fn parse(source: &ConfigText<'_>) -> Result<Table, ConfigError> {
    source.text.parse().map_err(|error: toml::de::Error| {
        let offset = error.span().map_or(0, |span| span.start);
        ConfigError::Syntax {
            file: source.name.to_owned(),
            line: locate::line_at(source.text, offset),
            message: error_messages::to_config_terms(&KeyPath::default(), error.message()),
        }
    })
}

/// Finds the source of an invalid value.
pub(super) struct ErrorLocator<'a> {
    pub(super) source: &'a ConfigText<'a>,
    origins: Origins,
    models: Option<ModelsFile>,
}

impl ErrorLocator<'_> {
    /// Returns the error for an invalid value, with its source: the models file, the variable that
    /// set the key or a parent of it, or else the configuration file.
    pub(super) fn on(&self, key: KeyPath, message: &str) -> ConfigError {
        let message = error_messages::to_config_terms(&key, message);
        if let Some(models) = &self.models
            && let Some(key) = models.key_in_file(&key)
        {
            return models.error(key, message);
        }
        let line = locate::find_line(self.source.text, &key);
        let by_variable = self.origins.iter().find(|(set, _)| {
            // A table that is not in the file comes from the variable that set a key in it.
            key.starts_with(set) || (line.is_none() && set.starts_with(&key))
        });
        match by_variable {
            Some((_, variable)) => ConfigError::Variable {
                variable: variable.clone(),
                key,
                message,
            },
            None => ConfigError::FileValue {
                file: self.source.name.to_owned(),
                line: line.unwrap_or(1),
                key,
                message,
            },
        }
    }
}

#[cfg(test)]
mod misplaced_credentials;
#[cfg(test)]
mod tests;
