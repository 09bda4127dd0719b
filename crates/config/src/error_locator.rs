use super::config_text::ConfigText;
use super::environment::KeyVariables;
use super::models_file::ModelsFile;
use super::{ConfigError, KeyPath, error_messages, locate};

/// Finds the source of an invalid value.
pub(super) struct ErrorLocator<'a> {
    pub(super) source: &'a ConfigText<'a>,
    pub(super) origins: KeyVariables,
    pub(super) models: Option<ModelsFile>,
}

impl ErrorLocator<'_> {
    /// Returns the error for an invalid value. The error names the source of the value: the models
    /// file, the environment variable that set the key or a parent of the key, or else the
    /// configuration file.
    pub(super) fn locate(&self, key: KeyPath, raw_message: &str) -> ConfigError {
        let message = error_messages::to_config_terms(&key, raw_message);
        if let Some(models) = &self.models
            && let Some(file_key) = models.key_in_file(&key)
        {
            return models.error(file_key, message);
        }
        let line = locate::find_line(self.source.text, &key);
        let origin = self.origins.iter().find(|(set_key, _)| {
            // A table that is not in the file was created by the variable that set a key in the
            // table.
            key.starts_with(set_key) || (line.is_none() && set_key.starts_with(&key))
        });
        match origin {
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
