//! Writes lines to PHP's error log, filtered by `pillion.log_level`.
//!
//! Only PHP's thread writes log lines. Log lines contain no arguments and no results, which may be
//! confidential.

use serde_json::Value;

use crate::zend::{with_setting, write_log};

/// The log level from the ini setting `pillion.log_level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Logs nothing.
    Off,
    /// Logs failures that the caller does not receive as an exception or a result.
    Error,
    /// Also logs unusual events that cause no failure. The default level.
    Warning,
    /// Also logs the names of the tools that run.
    Info,
    /// Also logs every request to an MCP server.
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

    /// Returns the level's name, as in `pillion.log_level` and in PSR-3.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// Returns the log level with this name.
    pub fn parse(name: &str) -> Option<Self> {
        // An empty string means `off`, because PHP passes an unquoted `off` or `none` in php.ini as
        // an empty string.
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

/// Writes one line, such as `[pillion] [debug] MCP SSE Request {"url": ...}`. Calls `context` only
/// if `pillion.log_level` permits the line.
pub fn log(level: LogLevel, message: &str, context: impl FnOnce() -> Value) {
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
        &format!("[pillion] [{name}] {message} {}", context()),
    );
}
