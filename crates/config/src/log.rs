use serde::Deserialize;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// A filter layer that applies to all other layers.
pub type FilterLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// `[log]`: the filter and the format of the log. Logs go to standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LogSection {
    /// The format of log lines: `json`, `text`, or `auto`, which is text on a terminal and JSON
    /// otherwise.
    pub format: LogFormat,
    /// Level of Pillion's own log lines (`off`, `error`, `warn`, `info`, `debug`, `trace`; syslog
    /// names such as `notice` and `critical` are mapped to the nearest level), or `tracing`
    /// directives. `LOG_LEVEL` also sets this key. Default: `info`.
    #[cfg_attr(test, schemars(with = "String"))]
    pub filter: LogFilter,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// One JSON object per line.
    Json,
    /// Human-readable text.
    Text,
}

/// A log filter: a level (`error`, `warn`, `info`, `debug`, `trace`, `off`) for Pillion's own log
/// lines, or `tracing` directives such as `info,pillion_mcp_client=debug`, which are used
/// unchanged. Level names of syslog are mapped to the nearest of these levels; any other single
/// word is rejected.
///
/// A bare level limits other libraries to `warn`: at `debug` some of them log the data that they
/// send.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LogFilter(String);

impl LogFilter {
    /// Returns the filter as an [`EnvFilter`] of `tracing`.
    #[must_use]
    pub(super) fn to_env_filter(&self) -> EnvFilter {
        EnvFilter::new(&self.0)
    }

    /// Returns the filter as a layer. A filter without span directives becomes [`Targets`], which
    /// does not track spans and thus makes entering and leaving a span cheaper.
    pub fn to_layer(&self) -> FilterLayer {
        // A filter with an empty directive or level stays an `EnvFilter`, because `Targets` parses
        // an empty directive or level differently.
        let is_plain_part = |part: &str| !part.trim().is_empty() && !part.trim_end().ends_with('=');
        let is_plain_filter = !self.0.contains('[') && self.0.split(',').all(is_plain_part);
        match self.0.parse::<Targets>() {
            Ok(targets) if is_plain_filter => Box::new(targets),
            _ => Box::new(self.to_env_filter()),
        }
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self("warn,pillion=info".to_owned())
    }
}

/// Why a text is not a valid log filter.
#[derive(Debug, thiserror::Error)]
pub enum LogFilterError {
    /// The filter is a single word that is not a level. `tracing` would treat the word as the name
    /// of a target.
    #[error(
        "invalid log level '{0}': expected off, error, warn, info, debug, trace, or directives \
        such as info,pillion_mcp_client=debug"
    )]
    UnknownLevel(String),
    /// `tracing` rejects the directives.
    #[error(transparent)]
    InvalidDirectives(#[from] ParseError),
}

impl TryFrom<String> for LogFilter {
    type Error = LogFilterError;

    fn try_from(text: String) -> Result<Self, LogFilterError> {
        // A filter that contains `[` is not split into directives at commas, because a comma may
        // also separate the fields of a span.
        let parts = if text.contains('[') {
            vec![text.as_str()]
        } else {
            text.split(',').map(normalize_level).collect()
        };
        if let [word] = parts.as_slice()
            && is_unknown_level(word)
        {
            return Err(LogFilterError::UnknownLevel(word.trim().to_owned()));
        }
        let directives = match parts.as_slice() {
            [level @ ("error" | "off")] => (*level).to_owned(),
            // The target `pillion` matches the log lines of all crates of Pillion, because their
            // names start with `pillion`.
            [level @ ("warn" | "info" | "debug" | "trace")] => format!("warn,pillion={level}"),
            _ => parts.join(","),
        };
        EnvFilter::builder().parse(&directives)?;
        Ok(Self(directives))
    }
}

/// Returns the directive, with a level name mapped to the name that `tracing` uses.
fn normalize_level(part: &str) -> &str {
    // Includes syslog's level names, because PHP frameworks use them.
    match part.trim().to_ascii_lowercase().as_str() {
        "off" => "off",
        "error" | "critical" | "alert" | "emergency" => "error",
        "warn" | "warning" => "warn",
        "info" | "notice" => "info",
        "debug" => "debug",
        "trace" => "trace",
        _ => part,
    }
}

/// Returns whether a one-word filter is not a level. `tracing` would treat such a word as a target
/// that does not exist.
fn is_unknown_level(word: &str) -> bool {
    let name = word.trim();
    let is_directive = name.is_empty() || name.contains(['=', ':']) || name.starts_with("pillion");
    !is_directive && name.parse::<LevelFilter>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, LogFilterError> {
        LogFilter::try_from(text.to_owned()).map(|filter| filter.0)
    }

    #[test]
    fn m2_level_names_of_other_programs_map_to_the_nearest_level() {
        for (text, expected) in [
            ("info", "warn,pillion=info"),
            ("Notice", "warn,pillion=info"),
            ("WARNING", "warn,pillion=warn"),
            (" debug ", "warn,pillion=debug"),
            ("critical", "error"),
            ("alert", "error"),
            ("emergency", "error"),
            ("OFF", "off"),
            ("warning,pillion=debug", "warn,pillion=debug"),
            ("pillion_mcp_client", "pillion_mcp_client"),
            ("warn,sqlx", "warn,sqlx"),
            ("info,[chat{id=a}]=debug", "info,[chat{id=a}]=debug"),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn m2_other_words_are_not_levels() {
        for text in ["loud", "verbose"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("expected off, error, warn, info"), "{error}");
        }
        assert!(read("pillion=loud").is_err());
    }
}
