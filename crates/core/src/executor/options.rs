use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ApprovalRules, CacheConfig, ExecutorConfig, RateLimits, RateWindows, ToolSettings};

/// Maximum value of an option that is a duration, in seconds: 136 years, which can be added to the
/// time of a clock without an overflow.
const MAX_SECONDS: u32 = u32::MAX;

/// The options of an executor as PHP code writes them. Times are in seconds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    timeout: Option<f64>,
    #[serde(default)]
    tool_timeouts: HashMap<String, f64>,
    max_concurrent: Option<NonZeroUsize>,
    max_concurrent_local: Option<NonZeroUsize>,
    max_concurrent_total: Option<NonZeroUsize>,
    #[serde(default)]
    server_concurrency: HashMap<String, NonZeroUsize>,
    #[serde(default)]
    tool_concurrency: ToolSettings<NonZeroUsize>,
    queue_timeout: Option<f64>,
    max_output_bytes: Option<usize>,
    enable_caching: Option<bool>,
    #[serde(default)]
    rate_limits: Limits,
    #[serde(default)]
    approvals: ApprovalRules,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Limits {
    default: Option<RateWindows>,
    #[serde(default)]
    tools: ToolSettings<RateWindows>,
    #[serde(default)]
    servers: HashMap<String, RateWindows>,
}

/// Why the options of an executor are rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// A value has the wrong form, or an option is unknown.
    #[error("Invalid executor option '{path}': {reason}")]
    Form {
        /// The path of the option, such as `rate_limits.tools.search`.
        path: String,
        /// What is wrong with the value.
        reason: String,
    },
    /// A duration is negative, not finite or too long.
    #[error("{name} must be a number of seconds from 0 to {MAX_SECONDS}")]
    Seconds {
        /// The name of the option with the invalid duration.
        name: &'static str,
    },
}

impl ExecutorConfig {
    /// Reads the options that PHP code passed to a `ToolExecutor`. A missing option has its
    /// default. `callables` are the names of the options whose values are PHP callables. These
    /// options are not in `options`, but an error that lists the known options names them, too.
    ///
    /// ```
    /// use pillion_core::executor::ExecutorConfig;
    /// use serde_json::json;
    /// let config = ExecutorConfig::from_options(json!({"timeout": 1.5}), &[]).unwrap();
    /// assert_eq!(config.timeout.as_millis(), 1500);
    /// let error = ExecutorConfig::from_options(json!({"timeot": 1.5}), &["before"]).unwrap_err();
    /// assert!(error.to_string().starts_with("Invalid executor option 'timeot': unknown field"));
    /// ```
    ///
    /// # Errors
    /// [`OptionError`], which names the option.
    pub fn from_options(options: Value, callables: &[&str]) -> Result<Self, OptionError> {
        let options: Options = serde_path_to_error::deserialize(convert_empty_lists(options))
            .map_err(|error| {
                let path = error.path().to_string();
                let message = error.inner().to_string();
                let mut reason = message.replace("expected f64", "expected a number");
                if !path.contains(['.', '[']) && reason.starts_with("unknown field ") {
                    for name in callables {
                        reason = format!("{reason}, `{name}`");
                    }
                }
                OptionError::Form { path, reason }
            })?;
        let base = Self::default();
        let read_time = |name, value: Option<f64>, default| {
            value.map_or(Ok(default), |value| parse_seconds(name, value))
        };
        Ok(Self {
            timeout: read_time("timeout", options.timeout, base.timeout)?,
            tool_timeouts: options
                .tool_timeouts
                .into_iter()
                .map(|(tool, limit)| Ok((tool, parse_seconds("tool_timeouts", limit)?)))
                .collect::<Result<_, OptionError>>()?,
            max_concurrent_local: options.max_concurrent_local,
            server_concurrency: options.server_concurrency,
            tool_concurrency: options.tool_concurrency,
            queue_timeout: read_time("queue_timeout", options.queue_timeout, base.queue_timeout)?,
            max_output_bytes: options.max_output_bytes.unwrap_or(base.max_output_bytes),
            cache: CacheConfig {
                honor_servers: options.enable_caching.unwrap_or(base.cache.honor_servers),
                ..base.cache
            },
            rate_limits: options.rate_limits.into(),
            approvals: options.approvals,
            ..base
        }
        .with_concurrency(options.max_concurrent, options.max_concurrent_total))
    }
}

fn parse_seconds(name: &'static str, seconds: f64) -> Result<Duration, OptionError> {
    let max = Duration::from_secs(MAX_SECONDS.into());
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration <= max)
        .ok_or(OptionError::Seconds { name })
}

/// Converts empty lists to empty maps where a map is expected, because PHP writes an empty map as
/// `[]`.
fn convert_empty_lists(value: Value) -> Value {
    match value {
        Value::Array(items) if items.is_empty() => Value::Object(Map::new()),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| match key.as_str() {
                "trusted_tools" => (key, value),
                _ => (key, convert_empty_lists(value)),
            })
            .collect(),
        other => other,
    }
}

impl From<Limits> for RateLimits {
    fn from(limits: Limits) -> Self {
        Self {
            default: limits.default.unwrap_or_default(),
            tools: limits.tools,
            servers: limits.servers,
        }
    }
}
