use toml::Table;

use super::{ConfigError, KeyPath, error_messages, locate};

/// The name and the text of a file, to which errors refer.
pub(super) struct ConfigText<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl ConfigText<'_> {
    pub(super) fn parse(&self) -> Result<Table, ConfigError> {
        self.text.parse().map_err(|error: toml::de::Error| {
            let offset = error.span().map_or(0, |span| span.start);
            ConfigError::Syntax {
                file: self.name.to_owned(),
                line: locate::find_line_number(self.text, offset),
                message: error_messages::to_config_terms(&KeyPath::default(), error.message()),
            }
        })
    }
}
