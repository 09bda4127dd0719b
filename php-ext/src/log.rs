//! Lines in PHP's error log (requirement M2), as far as `pillion.log_level` lets them.
//!
//! They are written on PHP's thread only, and hold no arguments and no results: those may
//! hold anything.

use serde_json::Value;

use crate::settings::{LogLevel, log_level};
use crate::zend::write_log;

/// Writes one line: `[pillion] [debug] MCP SSE Request {"url": ...}`. The facts are made
/// only if the line is wanted.
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
