//! The configuration in force, for display: the value and the origin of each key. A value that may
//! be a credential is never shown.

mod masking;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use toml::{Table, Value};

use super::config_text::ConfigText;
use super::environment::KeyVariables;
use super::locate::KeyLines;
use super::models_file::ModelsFile;
use super::{KeyPath, KeyStep};
use masking::{is_opaque, mask_key, mask_value};

/// The keys that have defaults, in the order of the sections: one line for each key, with a tab
/// between the key and the default. The test of `reference` generates the list.
const DEFAULTS: &str = include_str!("effective/defaults.tsv");

/// Keys that the generated list lacks, because their types are in other crates.
const OTHER_DEFAULTS: &[(&str, &str)] = &[
    ("call_log.redact.keys", "the usual names of credentials"),
    ("call_log.redact.arguments", "true"),
    ("call_log.redact.results", "true"),
    ("call_log.redact.max_bytes", "65536"),
    ("models_file", "none"),
];

/// The keys of `[wasm_tools]`, whose types are in another crate, too.
#[cfg(feature = "wasm")]
const WASM_DEFAULTS: &[(&str, &str)] = &[
    ("wasm_tools.folder", "none"),
    ("wasm_tools.egress", "as for [[mcp_servers]]"),
    ("wasm_tools.limits.max_memory_bytes", "67108864"),
    ("wasm_tools.limits.timeout_ms", "10000"),
    ("wasm_tools.limits.max_fuel", "10000000000"),
    ("wasm_tools.limits.max_output_bytes", "1048576"),
    ("wasm_tools.limits.max_answer_bytes", "1048576"),
    ("wasm_tools.limits.max_folder_bytes", "268435456"),
    ("wasm_tools.limits.max_file_bytes", "33554432"),
    ("wasm_tools.limits.compile_timeout_ms", "60000"),
];

#[cfg(not(feature = "wasm"))]
const WASM_DEFAULTS: &[(&str, &str)] = &[];

/// Keys of `[telemetry]`, and the variables of OpenTelemetry that override each key; the first
/// variable that is set applies.
const TELEMETRY_VARIABLES: [(&str, &[&str]); 3] = [
    (
        "endpoint",
        &[
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ],
    ),
    ("service_name", &["OTEL_SERVICE_NAME"]),
    ("sample_ratio", &["OTEL_TRACES_SAMPLER"]),
];

/// The settings of a configuration, each with its value and its origin, grouped by section. Values
/// that may be credentials are hidden.
///
/// ```
/// use pillion_config::{Config, SettingOrigin, SettingValue};
/// let config = Config::parse("[executor]\ntimeout_ms = 500", "pillion.toml")?;
/// let mut settings = config.effective.settings().iter();
/// let timeout = settings.find(|setting| setting.key == "executor.timeout_ms").unwrap();
/// assert_eq!(timeout.value, SettingValue::Shown("500".to_owned()));
/// let file = SettingOrigin::File { path: "pillion.toml".into(), line: Some(2) };
/// assert_eq!(timeout.origin, file);
/// # Ok::<(), pillion_config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct EffectiveConfig {
    settings: Vec<EffectiveSetting>,
}

/// One setting of a configuration.
#[derive(Debug, Clone)]
pub struct EffectiveSetting {
    /// The path of the key, such as `mcp_servers[0].url`. A part of the path that may be a
    /// credential is replaced by `…`.
    pub key: String,
    /// The value.
    pub value: SettingValue,
    /// Where the value comes from.
    pub origin: SettingOrigin,
    /// The default, as TOML or in words; `None` if the key has no default or the default is
    /// unknown.
    pub default: Option<&'static str>,
    digest: ValueDigest,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    /// The value as TOML, or a default in words. Of a URL, only the scheme and the host are shown.
    Shown(String),
    /// The value is not shown, because it may be a credential.
    Hidden,
}

/// Where the value of a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// The default.
    Default,
    /// A file.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The line number of the key, from 1; `None` if unknown.
        line: Option<usize>,
    },
    /// An environment variable.
    Variable(String),
    /// The command line.
    CommandLine,
}

/// A hash of a value, by which changes are detected. The hash is never displayed, because guessable
/// secrets could be recovered from it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ValueDigest([u8; 32]);

impl ValueDigest {
    fn new(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

impl fmt::Debug for ValueDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueDigest")
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::File {
                path,
                line: Some(line),
            } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

impl EffectiveSetting {
    /// Returns the name of the section to which the setting belongs, such as `executor`.
    #[must_use]
    pub fn section(&self) -> &str {
        section_of(&self.key)
    }

    /// Returns whether the value is the default, whether or not a file or a variable sets it.
    #[must_use]
    pub fn is_default(&self) -> bool {
        match (&self.origin, &self.value) {
            (SettingOrigin::Default, _) => true,
            (_, SettingValue::Hidden) => false,
            (_, SettingValue::Shown(value)) => self
                .default
                .is_some_and(|default| default.trim_matches('"') == value.trim_matches('"')),
        }
    }
}

/// The sources from which a configuration was read.
pub(super) struct ConfigSources<'a> {
    /// The values of all sources together. `models_file` is included.
    pub(super) table: Table,
    /// The values that environment variables set.
    pub(super) variable_table: Table,
    /// The variable that set each key.
    pub(super) origins: KeyVariables,
    pub(super) file: &'a ConfigText<'a>,
    pub(super) models: Option<&'a ModelsFile>,
}

impl EffectiveConfig {
    /// Lists the settings. `variable` returns the value of an environment variable.
    pub(super) fn new(
        mut sources: ConfigSources<'_>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        for (key, names) in TELEMETRY_VARIABLES {
            let set_variable = names.iter().find_map(|name| {
                let value = variable(name).filter(|value| !value.is_empty())?;
                Some((*name, value))
            });
            if let Some((name, value)) = set_variable {
                sources.set_telemetry(key, name, &value);
            }
        }
        let mut leaves = BTreeMap::new();
        for (name, value) in &sources.table {
            collect_leaves(KeyPath::from_names([name.as_str()]), value, &mut leaves);
        }
        let finder = OriginFinder::new(&sources);
        let mut settings = Vec::new();
        let mut listed_keys = BTreeSet::new();
        // A table whose keys have defaults is listed key by key.
        for (key, default) in list_defaults().filter(|(key, _)| !has_inner_defaults(key)) {
            let leaf_keys = list_keys_within(key, &leaves);
            for leaf_key in &leaf_keys {
                if listed_keys.insert(leaf_key.clone()) {
                    let (path, value) = &leaves[leaf_key];
                    let own_default = (leaf_key == key).then_some(default);
                    settings.push(finder.setting(path, value, own_default));
                }
            }
            if leaf_keys.is_empty() {
                settings.push(default_setting(key, default));
            }
        }
        for (leaf_key, (path, value)) in &leaves {
            if !listed_keys.contains(leaf_key) {
                settings.push(finder.setting(path, value, None));
            }
        }
        let mut effective_config = Self { settings };
        effective_config.group_by_section();
        effective_config
    }

    /// Returns the settings, grouped by section.
    #[must_use]
    pub fn settings(&self) -> &[EffectiveSetting] {
        &self.settings
    }

    /// Returns the keys whose values differ from those of `previous`, and the keys that only one of
    /// the two has.
    #[must_use]
    pub fn changed_keys(&self, previous: &Self) -> Vec<String> {
        let digests = |config: &Self| -> BTreeMap<String, ValueDigest> {
            let settings = config.settings.iter();
            settings
                .map(|setting| (setting.key.clone(), setting.digest))
                .collect()
        };
        let (digests_before, digests_now) = (digests(previous), digests(self));
        let removed_keys = previous
            .settings
            .iter()
            .filter(|setting| !digests_now.contains_key(&setting.key));
        let changed_keys = self
            .settings
            .iter()
            .filter(|setting| digests_before.get(&setting.key) != Some(&setting.digest));
        changed_keys
            .chain(removed_keys)
            .map(|setting| setting.key.clone())
            .collect()
    }

    /// Records that the command line sets a key.
    pub(super) fn set_from_command_line(&mut self, key: &KeyPath, value: &Value) {
        let (shown_key, digest) = (mask_key(key), ValueDigest::new(&value.to_string()));
        let shown_value = mask_value(key, value);
        let origin = SettingOrigin::CommandLine;
        let mut settings = self.settings.iter_mut();
        match settings.find(|setting| setting.key == shown_key) {
            Some(setting) => {
                setting.value = shown_value;
                setting.origin = origin;
                setting.digest = digest;
            }
            None => self.settings.push(EffectiveSetting {
                key: shown_key,
                value: shown_value,
                origin,
                default: None,
                digest,
            }),
        }
    }

    /// Puts the settings of each section together, in the order in which the sections appear first.
    fn group_by_section(&mut self) {
        let mut ranks = BTreeMap::new();
        for setting in &self.settings {
            let rank = ranks.len();
            ranks.entry(setting.section().to_owned()).or_insert(rank);
        }
        self.settings
            .sort_by_key(|setting| ranks.get(setting.section()).copied());
    }
}

impl ConfigSources<'_> {
    /// Sets a key of `[telemetry]` to the text of a variable.
    fn set_telemetry(&mut self, key: &str, variable: &str, value: &str) {
        const SECTION: &str = "telemetry";
        for table in [&mut self.table, &mut self.variable_table] {
            let section = table
                .entry(SECTION)
                .or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(keys) = section {
                keys.insert(key.to_owned(), Value::String(value.to_owned()));
            }
        }
        let path = KeyPath::from_names([SECTION, key]);
        self.origins.insert(path, variable.to_owned());
    }
}

/// Finds the origin of each value.
struct OriginFinder<'a> {
    variable_value: Value,
    origins: &'a KeyVariables,
    file: &'a ConfigText<'a>,
    file_lines: KeyLines<'a>,
    models: Option<(&'a ModelsFile, KeyLines<'a>)>,
}

impl<'a> OriginFinder<'a> {
    fn new(sources: &'a ConfigSources<'_>) -> Self {
        let models = sources.models;
        Self {
            variable_value: Value::Table(sources.variable_table.clone()),
            origins: &sources.origins,
            file: sources.file,
            file_lines: KeyLines::new(sources.file.text),
            models: models.map(|models| (models, KeyLines::new(models.file.text()))),
        }
    }

    fn setting(
        &self,
        path: &KeyPath,
        value: &Value,
        default: Option<&'static str>,
    ) -> EffectiveSetting {
        EffectiveSetting {
            key: mask_key(path),
            value: mask_value(path, value),
            origin: self.find_origin(path),
            default,
            digest: ValueDigest::new(&value.to_string()),
        }
    }

    fn find_origin(&self, path: &KeyPath) -> SettingOrigin {
        if has_value(&self.variable_value, path.steps()) {
            // One variable may set a whole table, and another variable a key in this table.
            let setting_variables = self.origins.iter().filter(|(key, _)| path.starts_with(key));
            let nearest = setting_variables.max_by_key(|(key, _)| key.steps().len());
            if let Some((_, name)) = nearest {
                return SettingOrigin::Variable(name.clone());
            }
        }
        if let Some((models, lines)) = &self.models
            && let Some(key_in_file) = models.key_in_file(path)
        {
            return SettingOrigin::File {
                path: models.file.path().to_owned(),
                line: lines.find(&key_in_file),
            };
        }
        SettingOrigin::File {
            path: self.file.name.into(),
            line: self.file_lines.find(path),
        }
    }
}

/// Returns whether `value` has a value at the path `steps`. Ignores the case of names, because the
/// names of variables do not show it.
fn has_value(value: &Value, steps: &[KeyStep]) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return true;
    };
    match (step, value) {
        (KeyStep::Name(name), Value::Table(table)) => table
            .iter()
            .any(|(key, inner)| key.eq_ignore_ascii_case(name) && has_value(inner, rest)),
        (KeyStep::Index(index), Value::Array(values)) => values
            .get(*index)
            .is_some_and(|inner| has_value(inner, rest)),
        _ => false,
    }
}

/// Adds the values within `value` that are listed separately, by their keys: the keys of tables,
/// and the entries of arrays of tables.
fn collect_leaves<'v>(
    path: KeyPath,
    value: &'v Value,
    leaves: &mut BTreeMap<String, (KeyPath, &'v Value)>,
) {
    match value {
        Value::Table(table) if !table.is_empty() && !is_opaque(&path) => {
            for (name, inner) in table {
                collect_leaves(path.join_name(name), inner, leaves);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_table) && !is_opaque(&path) => {
            for (index, inner) in values.iter().enumerate() {
                collect_leaves(path.join(KeyStep::Index(index)), inner, leaves);
            }
        }
        // An empty section sets nothing.
        Value::Table(table) if table.is_empty() => {}
        Value::Array(values) if values.is_empty() && path.steps().len() == 1 => {}
        _ => {
            leaves.insert(sort_key(&path), (path, value));
        }
    }
}

/// Returns the path as text, with indexes that sort as numbers.
fn sort_key(path: &KeyPath) -> String {
    let steps = path.steps().iter().enumerate();
    let texts = steps.map(|(depth, step)| match step {
        KeyStep::Name(name) if depth == 0 => name.clone(),
        KeyStep::Name(name) => format!(".{name}"),
        KeyStep::Index(index) => format!("[{index:08}]"),
    });
    texts.collect()
}

/// Returns the keys of the leaves at `key` and below it.
fn list_keys_within<T>(key: &str, leaves: &BTreeMap<String, T>) -> Vec<String> {
    let exact_key = leaves.contains_key(key).then(|| key.to_owned());
    let start = format!("{key}.");
    let inner_keys = leaves
        .range(start.clone()..)
        .map(|(leaf_key, _)| leaf_key)
        .take_while(|leaf_key| leaf_key.starts_with(&start));
    exact_key.into_iter().chain(inner_keys.cloned()).collect()
}

/// Returns each key that has a default, and the default.
fn list_defaults() -> impl Iterator<Item = (&'static str, &'static str)> {
    let generated_rows = DEFAULTS.lines().filter_map(|row| row.split_once('\t'));
    let other_rows = OTHER_DEFAULTS.iter().chain(WASM_DEFAULTS).copied();
    generated_rows.chain(other_rows)
}

/// Returns whether the list of defaults has keys below `key`.
fn has_inner_defaults(key: &str) -> bool {
    list_defaults().any(|(other_key, _)| {
        other_key
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with('.'))
    })
}

fn default_setting(key: &str, default: &'static str) -> EffectiveSetting {
    EffectiveSetting {
        key: key.to_owned(),
        value: SettingValue::Shown(default.to_owned()),
        origin: SettingOrigin::Default,
        default: Some(default),
        digest: ValueDigest::new(default),
    }
}

fn section_of(key: &str) -> &str {
    key.split(['.', '[']).next().unwrap_or(key)
}

#[cfg(test)]
mod tests;
