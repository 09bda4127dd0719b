//! The options of `ToolExecutor::__construct`.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::time::Duration;

use ext_php_rs::types::Zval;
use pillion_core::executor::{
    ApprovalPolicy, ApprovalRules, CacheConfig, ExecutorConfig, RateLimits, RateWindows,
};
use serde::Deserialize;
use serde_json::Value;

use crate::classes::tool_definition::seconds;
use crate::exception;
use crate::json::to_value_as;
use crate::mcp::hooks;
use crate::zend::{Failure, type_name, without_entry};

/// The parsed options.
#[derive(Default)]
pub struct Options {
    /// The configuration of the executor.
    pub config: ExecutorConfig,
    /// The callable that decides on approvals, or null.
    pub approve: Zval,
    /// The callable that is called before a call runs, or null.
    pub before: Zval,
}

/// The options that are plain data. Times are in seconds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    timeout: Option<f64>,
    #[serde(default)]
    tool_timeouts: HashMap<String, f64>,
    max_concurrent: Option<NonZeroUsize>,
    max_concurrent_local: Option<NonZeroUsize>,
    max_concurrent_total: Option<NonZeroUsize>,
    #[serde(default)]
    server_concurrency: HashMap<String, NonZeroUsize>,
    #[serde(default)]
    tool_concurrency: HashMap<String, NonZeroUsize>,
    queue_timeout: Option<f64>,
    max_output_bytes: Option<usize>,
    enable_caching: Option<bool>,
    #[serde(default)]
    rate_limits: Limits,
    #[serde(default)]
    approvals: Approvals,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Approvals {
    #[serde(default)]
    default: ApprovalPolicy,
    #[serde(default)]
    trusted_tools: HashSet<String>,
    #[serde(default)]
    tools: HashMap<String, ApprovalPolicy>,
    #[serde(default)]
    servers: HashMap<String, ApprovalPolicy>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Limits {
    every_tool: Option<Windows>,
    #[serde(default)]
    tools: HashMap<String, Windows>,
    #[serde(default)]
    servers: HashMap<String, Windows>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Windows {
    per_minute: Option<u32>,
    per_hour: Option<u32>,
    per_day: Option<u32>,
}

/// Reads the options; missing options have the executor's defaults.
///
/// # Errors
/// An `InvalidInputException` naming the key.
pub fn read(options: &Zval) -> Result<Options, Failure> {
    let approve = callable(options, hooks::APPROVE)?;
    let before = callable(options, hooks::BEFORE)?;
    let data = without_entry(&without_entry(options, hooks::APPROVE), hooks::BEFORE);
    let config = read_data(to_value_as("argument $options", &data)?)?;
    Ok(Options {
        config,
        approve,
        before,
    })
}

fn callable(options: &Zval, name: &str) -> Result<Zval, Failure> {
    let table = options.array();
    let value = table.and_then(|table| table.get(name));
    let value = value.map_or_else(Zval::new, |value| value.dereference().shallow_clone());
    if !value.is_null() && !value.is_callable() {
        return Err(exception::invalid_input(format!(
            "Invalid executor option '{name}': it must be callable or null, {} given",
            type_name(&value)
        )));
    }
    Ok(value)
}

fn read_data(options: Value) -> Result<ExecutorConfig, Failure> {
    let options: Data =
        serde_path_to_error::deserialize(without_empty_lists(options)).map_err(|error| {
            let path = error.path().to_string();
            let why = error.inner().to_string();
            let mut why = why.replace("expected f64", "expected a number");
            if !path.contains(['.', '[']) && why.starts_with("unknown field ") {
                // The options that are callables are read elsewhere.
                why = format!("{why}, `{}`, `{}`", hooks::APPROVE, hooks::BEFORE);
            }
            exception::invalid_input(format!("Invalid executor option '{path}': {why}"))
        })?;
    let defaults = ExecutorConfig::default();
    let time = |name: &str, value: Option<f64>, default: Duration| {
        value.map_or(Ok(default), |value| seconds(name, value))
    };
    Ok(ExecutorConfig {
        timeout: time("timeout", options.timeout, defaults.timeout)?,
        tool_timeouts: options
            .tool_timeouts
            .into_iter()
            .map(|(tool, limit)| Ok((tool, seconds("tool_timeouts", limit)?)))
            .collect::<Result<_, Failure>>()?,
        max_concurrent_local: options.max_concurrent_local,
        server_concurrency: options.server_concurrency,
        tool_concurrency: options.tool_concurrency,
        queue_timeout: time(
            "queue_timeout",
            options.queue_timeout,
            defaults.queue_timeout,
        )?,
        max_output_bytes: options
            .max_output_bytes
            .unwrap_or(defaults.max_output_bytes),
        cache: CacheConfig {
            honor_servers: options
                .enable_caching
                .unwrap_or(defaults.cache.honor_servers),
            ..defaults.cache
        },
        rate_limits: options.rate_limits.into(),
        approvals: options.approvals.into(),
        ..defaults
    }
    .with_concurrency(options.max_concurrent, options.max_concurrent_total))
}

/// Converts empty lists to empty maps where a map is expected, because PHP writes an empty map as
/// `[]`.
fn without_empty_lists(value: Value) -> Value {
    match value {
        Value::Array(items) if items.is_empty() => Value::Object(serde_json::Map::new()),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| match key.as_str() {
                "trusted_tools" => (key, value),
                _ => (key, without_empty_lists(value)),
            })
            .collect(),
        other => other,
    }
}

impl From<Approvals> for ApprovalRules {
    fn from(approvals: Approvals) -> Self {
        Self {
            default: approvals.default,
            trusted_tools: approvals.trusted_tools,
            tools: approvals.tools,
            servers: approvals.servers,
        }
    }
}

impl From<Limits> for RateLimits {
    fn from(limits: Limits) -> Self {
        let by_name = |windows: HashMap<String, Windows>| {
            windows
                .into_iter()
                .map(|(name, windows)| (name, windows.into()))
                .collect()
        };
        Self {
            every_tool: limits.every_tool.map(RateWindows::from).unwrap_or_default(),
            tools: by_name(limits.tools),
            servers: by_name(limits.servers),
        }
    }
}

impl From<Windows> for RateWindows {
    fn from(windows: Windows) -> Self {
        Self {
            per_minute: windows.per_minute,
            per_hour: windows.per_hour,
            per_day: windows.per_day,
        }
    }
}
