use serde::Deserialize;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// A filter that decides for all layers.
pub(crate) type FilterLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// `[log]`: what to log, and how. Logs go to standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSection {
    /// The form of a line. `PILLION__LOG__FORMAT`. Default `auto`.
    pub format: LogFormat,
    /// What to log. `PILLION__LOG__FILTER`, or `LOG_LEVEL` (M2). Default `info`.
    pub filter: LogFilter,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// One JSON object a line.
    Json,
    /// Text for people.
    Text,
}

/// A level (`error`, `warn`, `info`, `debug`, `trace`, `off`) for Pillion's own lines, or
/// directives of `tracing` such as `info,pillion_core::mcp=debug`, which are taken as they
/// are.
///
/// A bare level leaves the libraries below at `warn` at most: at `debug` some of them log
/// what they send.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LogFilter(String);

impl LogFilter {
    /// The filter as `tracing` wants it.
    #[must_use]
    pub fn to_env_filter(&self) -> EnvFilter {
        EnvFilter::new(&self.0)
    }

    /// The filter as a layer. One that names no span needs to know of none, which makes every
    /// step in a span cheaper.
    pub(crate) fn to_layer(&self) -> FilterLayer {
        // These two read an empty directive or level differently.
        let is_plain = |part: &str| !part.trim().is_empty() && !part.trim_end().ends_with('=');
        let is_plain = !self.0.contains('[') && self.0.split(',').all(is_plain);
        match self.0.parse::<Targets>() {
            Ok(targets) if is_plain => Box::new(targets),
            _ => Box::new(self.to_env_filter()),
        }
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self("warn,pillion=info".to_owned())
    }
}

impl TryFrom<String> for LogFilter {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        let level = text.trim().to_ascii_lowercase();
        let directives = match level.as_str() {
            "error" | "off" => level,
            // Every crate of ours starts with this name.
            "warn" | "info" | "debug" | "trace" => format!("warn,pillion={level}"),
            _ => text,
        };
        EnvFilter::builder().parse(&directives)?;
        Ok(Self(directives))
    }
}
