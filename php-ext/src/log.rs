//! Log lines in PHP's error log, filtered by `pillion.log_level`.
//!
//! Only PHP's thread writes them. They contain no arguments and no results, because those may
//! contain confidential data.

use serde_json::Value;

use crate::settings::{LogLevel, log_level};
use crate::zend::write_log;

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
