use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_egress::Proxies;
use toml::Table;

use super::builtins;
use super::config_text::ConfigText;
use super::effective::{ConfigSources, EffectiveConfig};
use super::entry::EntryError;
use super::environment;
use super::error_locator::ErrorLocator;
use super::models_file::ModelsFile;
use super::servers::{self, EntryFilter, ServerEntries};
use super::{
    Config, ConfigError, ConfigFile, DeclaredTools, KeyPath, KeyStep, McpServerSection,
    strict_value, variable_names,
};

impl Config {
    /// Reads the configuration from an optional file and the environment.
    ///
    /// # Errors
    /// [`ConfigError`]: the file cannot be read or is not valid TOML, or a key is unknown or has an
    /// invalid value.
    pub fn load(
        path: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let file = path.map(ConfigFile::read).transpose()?;
        Self::from_file(file.as_ref(), variables)
    }

    /// Reads the configuration from the text of an optional file and the environment.
    ///
    /// # Errors
    /// The same errors as [`load`](Self::load), except that no file is read.
    pub fn from_file(
        file: Option<&ConfigFile>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let (parsed_config, server_entries) = read_file(file, variables, EntryFilter::All)?;
        let config = Self {
            file: file.cloned(),
            ..parsed_config
        };
        Ok(config.with_servers(server_entries.servers))
    }

    /// Reads the MCP server with this label from an optional file and the environment. Errors in
    /// the entries of other servers are ignored, and the environment variables that those entries
    /// name need not be set. Returns the known labels as `Err` if no server has this label.
    ///
    /// # Errors
    /// The same errors as [`load`](Self::load).
    pub fn load_server(
        path: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        label: &str,
    ) -> Result<Result<McpServerSection, Vec<String>>, ConfigError> {
        let file = path.map(ConfigFile::read).transpose()?;
        let filter = EntryFilter::Labeled(label);
        let (_, mut server_entries) = read_file(file.as_ref(), variables, filter)?;
        Ok(server_entries
            .servers
            .pop()
            .ok_or(server_entries.skipped_labels))
    }

    /// Reads the configuration from the text of a file, without the environment. `name` is the
    /// file's name in errors.
    ///
    /// # Errors
    /// The same errors as [`load`](Self::load).
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let (config, server_entries) = read(&ConfigText { name, text }, [], EntryFilter::All)?;
        Ok(config.with_servers(server_entries.servers))
    }

    /// Returns the paths of other files that the configuration names: OpenAPI documents, the tokens
    /// file and the models file. If the configuration is invalid, returns only the paths that can
    /// be determined.
    pub fn referenced_files(
        file: Option<&ConfigFile>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<PathBuf> {
        let parsed_table = file.and_then(|file| file.text().parse::<Table>().ok());
        let mut table = parsed_table.unwrap_or_default();
        // An error of an environment variable is ignored here; the variables that were applied
        // before the error keep their effect.
        drop(environment::overlay(&mut table, variables));
        let documents = DeclaredTools::find_document_values(&table);
        let tokens_file = table.get("tcp").and_then(|tcp| tcp.get("tokens_file"));
        let values = documents.into_iter().chain(tokens_file);
        let paths = values.filter_map(|path| Some(path.as_str()?.into()));
        paths
            .chain(file.and_then(|file| ModelsFile::find_path(&table, file.path())))
            .collect()
    }

    /// Sets the path of the Unix socket from the command line, which overrides all other sources.
    pub fn set_socket_path(&mut self, path: PathBuf) {
        let value = toml::Value::from(path.display().to_string());
        let key = KeyPath::from_names(["socket", "path"]);
        Arc::make_mut(&mut self.effective).set_from_command_line(&key, &value);
        self.socket.path = Some(path);
    }

    fn with_servers(mut self, mcp_servers: Vec<McpServerSection>) -> Self {
        self.mcp_servers = mcp_servers;
        self
    }
}

fn read_file(
    optional_file: Option<&ConfigFile>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    filter: EntryFilter<'_>,
) -> Result<(Config, ServerEntries), ConfigError> {
    let Some(file) = optional_file else {
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
    let mut table = source.parse()?;
    let all_variables: Vec<_> = variables.into_iter().collect();
    // An invalid proxy variable is reported as an error of the configuration, because no HTTP
    // client could send requests with it.
    Proxies::from_variables(|name| {
        let (_, value) = all_variables
            .iter()
            .find(|(variable, _)| variable == name)?;
        Some(value.clone().into_string().map_err(drop))
    })?;
    let origins = environment::overlay(&mut table, all_variables.iter().cloned())?;
    let mut error_locator = ErrorLocator {
        source,
        origins,
        models: None,
    };
    if let Some(key) = find_blank_key(&table) {
        return Err(error_locator.locate(key, "the value is empty: set a value, or remove the key"));
    }
    let models_file_value = table.get("models_file").cloned();
    error_locator.models = match filter {
        EntryFilter::All => ModelsFile::take(&mut table, &error_locator)?,
        EntryFilter::Labeled(_) => {
            ModelsFile::skip(&mut table);
            None
        }
    };
    // The sections below are taken out of the table, so the settings are listed from a copy.
    let mut complete_table = table.clone();
    complete_table.extend(models_file_value.map(|value| ("models_file".to_owned(), value)));
    let mut variable_table = Table::new();
    // The variables are valid, because the overlay above has succeeded.
    drop(environment::overlay(
        &mut variable_table,
        all_variables.iter().cloned(),
    ));
    let unknown_variables = match filter {
        EntryFilter::All => variable_names::find_unknown(&all_variables, &table)?,
        EntryFilter::Labeled(_) => Vec::new(),
    };
    let text_variables = all_variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .collect();
    let to_error = |error: EntryError| error_locator.locate(error.key, &error.message);
    let server_entries = servers::take(&mut table, &text_variables, filter).map_err(to_error)?;
    let declared_tools = match filter {
        EntryFilter::All => DeclaredTools::take(&mut table, &text_variables).map_err(to_error)?,
        EntryFilter::Labeled(_) => {
            DeclaredTools::skip(&mut table);
            DeclaredTools::default()
        }
    };
    let builtins = builtins::take(&mut table).map_err(to_error)?;
    let mut config =
        deserialize(table).map_err(|(key, message)| error_locator.locate(key, &message))?;
    if matches!(filter, EntryFilter::All) {
        let has_vault = config.vault.has_key_source();
        let resolved_tools = builtins.resolve(&config.tools, &text_variables, has_vault);
        config.builtins = resolved_tools.map_err(to_error)?;
    }
    if matches!(filter, EntryFilter::All)
        && let Some((key, message)) = config.find_model_fault(&server_entries.servers)
    {
        return Err(error_locator.locate(key, &message));
    }
    for (section, key_fault) in [
        ("socket", config.socket.find_fault()),
        ("tcp", config.tcp.find_fault()),
        ("results", config.results.find_fault()),
        ("vault", config.vault.find_fault()),
    ] {
        if let Some((key, message)) = key_fault {
            let path = KeyPath::from_names([section, key]);
            return Err(error_locator.locate(path, message));
        }
    }
    for tool in environment::list_tool_names(&error_locator.origins) {
        let sections = config.tools.iter_mut();
        for (_, section) in sections.filter(|(name, _)| name.eq_ignore_ascii_case(&tool)) {
            section.is_case_insensitive = true;
        }
    }
    if matches!(filter, EntryFilter::All) {
        let sources = ConfigSources {
            table: complete_table,
            variable_table,
            origins: error_locator.origins,
            file: source,
            models: error_locator.models.as_ref(),
        };
        let read_variable = |name: &str| text_variables.get(name)?.clone().into_string().ok();
        config.effective = Arc::new(EffectiveConfig::new(sources, read_variable));
    }
    config.declared = declared_tools;
    config.unknown_variables = unknown_variables;
    config.models_file = error_locator.models.map(|models| models.file);
    Ok((config, server_entries))
}

/// Returns the configuration, or the key of the first invalid value and why it is invalid.
fn deserialize(mut table: Table) -> Result<Config, (KeyPath, String)> {
    let read_config = |table: Table| {
        strict_value::read(table).map_err(|error| {
            let key = KeyPath::from(error.path());
            (key, error.into_inner().message().to_owned())
        })
    };
    let key_fault = match read_config(table.clone()) {
        Err(key_fault) if key_fault.1.ends_with("expected string only") => key_fault,
        outcome => return outcome,
    };
    // Reads the configuration again, with an unknown string in place of the invalid value, because
    // only the error message about an unknown string lists the accepted strings.
    if let Some(value) = find_value(&mut table, &key_fault.0) {
        *value = toml::Value::from(" ");
        if let Err((key, message)) = read_config(table)
            && key == key_fault.0
            && let Some((_, expected)) = message.split_once(", expected ")
        {
            return Err((key, format!("invalid type, expected {expected}")));
        }
    }
    Err(key_fault)
}

fn find_value<'t>(table: &'t mut Table, key: &KeyPath) -> Option<&'t mut toml::Value> {
    let (KeyStep::Name(first_name), rest) = key.steps().split_first()? else {
        return None;
    };
    rest.iter()
        .try_fold(table.get_mut(first_name)?, |value, key| match key {
            KeyStep::Name(name) => value.get_mut(name),
            KeyStep::Index(index) => value.get_mut(*index),
        })
}

/// The keys whose value must not be blank. Most values name a file, a directory or an environment
/// variable, and an empty name would refer to the working directory or to nothing.
const NON_BLANK_KEYS: [[&str; 2]; 9] = [
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

/// Returns the first key of [`NON_BLANK_KEYS`] whose value is blank.
fn find_blank_key(table: &Table) -> Option<KeyPath> {
    let blank_path = NON_BLANK_KEYS.into_iter().find(|[section, key]| {
        let value = table.get(*section).and_then(|section| section.get(*key));
        let text = value.and_then(toml::Value::as_str);
        text.is_some_and(|text| text.trim().is_empty())
    });
    blank_path.map(KeyPath::from_names)
}

#[cfg(test)]
mod misplaced_credentials;
#[cfg(test)]
mod tests;
