use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::config_text::ConfigText;
use super::error_locator::ErrorLocator;
use super::{ConfigError, ConfigFile, KeyPath, KeyStep, locate};

/// The configuration key that contains the path of the models file.
const MODELS_FILE_KEY: &str = "models_file";

/// The keys that a models file may have.
const LIST_KEYS: [&str; 2] = ["providers", "models"];

/// The file that `models_file` names: more entries of `[[providers]]` and `[[models]]`, which
/// follow those of the configuration file.
#[derive(Debug)]
pub(super) struct ModelsFile {
    pub(super) file: ConfigFile,
    /// For each of the two lists, the number of entries of the configuration file, which precede
    /// the entries of this file.
    preceding_entry_counts: [usize; 2],
}

impl ModelsFile {
    /// Removes the key `models_file` from the configuration without reading the file.
    pub(super) fn skip(config: &mut Table) {
        config.remove(MODELS_FILE_KEY);
    }

    /// Returns the path of the models file that the configuration names. The configuration may be
    /// invalid.
    pub(super) fn find_path(config: &Table, config_path: &Path) -> Option<PathBuf> {
        let path = config.get(MODELS_FILE_KEY)?.as_str()?;
        (!path.is_empty()).then(|| resolve_path(config_path, path))
    }

    /// Removes the key `models_file` from the configuration, and adds the entries of the models
    /// file to the configuration.
    pub(super) fn take(
        config: &mut Table,
        error_locator: &ErrorLocator<'_>,
    ) -> Result<Option<Self>, ConfigError> {
        let key_error =
            |key: &str, message: &str| error_locator.locate(KeyPath::from_names([key]), message);
        let path = match config.remove(MODELS_FILE_KEY) {
            None => return Ok(None),
            Some(Value::String(path)) if !path.is_empty() => {
                resolve_path(error_locator.source.name, &path)
            }
            Some(_) => return Err(key_error(MODELS_FILE_KEY, "expected the path of a file")),
        };
        let read_result = ConfigFile::read(&path).and_then(|file| {
            file.check_not_blank()?;
            Ok(file)
        });
        let file = read_result.map_err(|error| key_error(MODELS_FILE_KEY, &error.to_string()))?;
        let mut models_file = Self {
            file,
            preceding_entry_counts: [0; 2],
        };
        let mut table = ConfigText {
            name: &models_file.file.path().display().to_string(),
            text: models_file.file.text(),
        }
        .parse()?;
        for (list_index, list) in LIST_KEYS.into_iter().enumerate() {
            let list_value = config.entry(list).or_insert(Value::Array(Vec::new()));
            let Value::Array(entries) = list_value else {
                return Err(key_error(list, "expected an array of tables"));
            };
            models_file.preceding_entry_counts[list_index] = entries.len();
            match table.remove(list) {
                None => {}
                Some(Value::Array(file_entries)) => entries.extend(file_entries),
                Some(_) => {
                    let message = format!("expected an array of tables: [[{list}]]");
                    return Err(models_file.key_error(list, &message));
                }
            }
        }
        match table.keys().next() {
            None => Ok(Some(models_file)),
            Some(key) => Err(models_file.key_error(
                key,
                "only [[providers]] and [[models]] are allowed in this file",
            )),
        }
    }

    /// Returns the key's path within this file; `None` if the key is not from this file.
    pub(super) fn key_in_file(&self, key: &KeyPath) -> Option<KeyPath> {
        let [KeyStep::Name(list), KeyStep::Index(index), rest @ ..] = key.steps() else {
            return None;
        };
        let list_index = LIST_KEYS.iter().position(|name| name == list)?;
        let file_index = index.checked_sub(self.preceding_entry_counts[list_index])?;
        let entry_path = KeyPath::from_names([list.as_str()]).join(KeyStep::Index(file_index));
        let keys = rest.iter().cloned();
        Some(keys.fold(entry_path, |path, key| path.join(key)))
    }

    /// Returns the error for an invalid key of this file.
    pub(super) fn error(&self, key: KeyPath, message: String) -> ConfigError {
        ConfigError::FileValue {
            file: self.file.path().display().to_string(),
            line: locate::find_line(self.file.text(), &key).unwrap_or(1),
            key,
            message,
        }
    }

    fn key_error(&self, key: &str, message: &str) -> ConfigError {
        self.error(KeyPath::from_names([key]), message.to_owned())
    }
}

/// Resolves `path`, if it is relative, against the directory of the configuration file.
fn resolve_path(config_path: impl AsRef<Path>, path: impl AsRef<Path>) -> PathBuf {
    let directory = config_path.as_ref().parent();
    directory.unwrap_or_else(|| Path::new("")).join(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use crate::{Config, ConfigError};

    /// Reads a configuration that consists of a main file and a models file.
    fn load(main: &str, models: &str) -> (TempDir, Result<Config, ConfigError>) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pillion.toml");
        fs::write(&file, format!("models_file = 'models.toml'\n{main}")).unwrap();
        fs::write(directory.path().join("models.toml"), models).unwrap();
        let config = Config::load(Some(&file), []);
        (directory, config)
    }

    fn message(main: &str, models: &str) -> String {
        let (directory, config) = load(main, models);
        let message = config.unwrap_err().to_string();
        let parent = format!("{}/", directory.path().display());
        message.replace(&parent, "")
    }

    #[test]
    fn h2_models_may_be_in_a_separate_file() {
        let (directory, outcome) = load(
            "[chat]\nmodel = 'b'\n[[providers]]\nname = 'openai'\n[[models]]\nid = 'a'\nprovider = 'google'\n",
            "[[providers]]\nname = 'google'\n[[models]]\nid = 'b'\nprovider = 'openai'\n",
        );
        let config = outcome.unwrap();
        let ids: Vec<_> = config.models.iter().map(|model| &model.config.id).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(config.providers.len(), 2);
        let file = directory.path().join("models.toml");
        assert_eq!(config.models_file.unwrap().path(), file);
    }

    #[test]
    fn h2_errors_in_the_models_file_name_its_lines() {
        let main = "[[models]]\nid = 'a'\n";
        for (models, expected) in [
            (
                "[[models]]\nid = 'b'\ncolor = 1\n",
                "3: models[0].color: unknown field",
            ),
            (
                "\n[[models]]\nid = 'a'\n",
                "3: models[0].id: the name 'a' is used by two models",
            ),
            ("[[models]]\nid = \n", "2: "),
            ("[log]\n", "1: log: only [[providers]] and [[models]]"),
            ("models = 7\n", "1: models: expected an array of tables"),
        ] {
            let message = message(main, models);
            let start = format!("models.toml:{expected}");
            assert!(message.starts_with(&start), "{models}\n{message}");
        }
        // An error in the configuration file still names that file.
        let message = message(
            "[[models]]\nid = 'a'\nlabel = 7\n",
            "[[models]]\nid = 'b'\n",
        );
        let start = "pillion.toml:4: models[0].label: ";
        assert!(message.starts_with(start), "{message}");
    }

    #[test]
    fn h2_a_missing_models_file_is_an_error() {
        let result = Config::parse("models_file = '/nowhere/models.toml'", "pillion.toml");
        let error = result.unwrap_err().to_string();
        let start = "pillion.toml:1: models_file: cannot read /nowhere/models.toml: No such file";
        assert!(error.starts_with(start), "{error}");
        let type_error = Config::parse("models_file = 7", "pillion.toml").unwrap_err();
        let message = type_error.to_string();
        assert!(message.contains("expected the path of a file"), "{message}");
    }
}
