//! Log lines in PHP's error log, filtered by `pillion.log_level`.
//!
//! Only PHP's thread writes them. They contain no arguments and no results, because those may
//! contain confidential data.

use serde_json::Value;

use crate::zend::{with_setting, write_log};

/// The level of messages in PHP's error log: `pillion.log_level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Failures that the caller does not receive as an exception or a result.
    Error,
    /// The default. Also unusual events that cause no failure.
    Warning,
    /// Also the names of the tools that run.
    Info,
    /// Also every request to an MCP server.
    Debug,
}

impl LogLevel {
    const ALL: [Self; 5] = [
        Self::Off,
        Self::Error,
        Self::Warning,
        Self::Info,
        Self::Debug,
    ];

    /// Returns the name in the setting and in PSR-3.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// Returns the level with this name.
    pub fn parse(name: &str) -> Option<Self> {
        // PHP passes an unquoted `off` or `none` in php.ini as an empty string.
        if name.is_empty() {
            return Some(Self::Off);
        }
        Self::ALL
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(name))
    }
}

fn log_level() -> LogLevel {
    with_setting(c"pillion.log_level", LogLevel::parse)
        .flatten()
        .unwrap_or(LogLevel::Warning)
}

/// Writes one line, such as `[pillion] [debug] MCP SSE Request {"url": ...}`. Computes the facts
/// only if the line passes the log level.
pub fn log(level: LogLevel, message: &str, facts: impl FnOnce() -> Value) {
    if log_level() < level {
        return;
    }
    let severity = match level {
        LogLevel::Off => return,
        LogLevel::Error => 3,
        LogLevel::Warning => 4,
        LogLevel::Info => 6,
        LogLevel::Debug => 7,
    };
    let name = level.name();
    write_log(
        severity,
        &format!("[pillion] [{name}] {message} {}", facts()),
    );
}
