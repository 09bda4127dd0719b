//! The ini settings `pillion.*`.
//!
//! An invalid value is rejected, and the previous value stays: `ini_set()` returns false, and an
//! invalid value in `php.ini` or in a pool's configuration is logged. Settings are read when an
//! object is created or when the process starts its engine, but never on the engine's background
//! thread, because in a thread-safe PHP build, only PHP's threads have settings.

use std::ffi::CStr;
use std::path::PathBuf;
use std::time::Duration;

use ext_php_rs::flags::IniEntryPermission;
use ext_php_rs::zend::{IniEntryDef, IniEntryDefs};
use serde_json::json;

use crate::log::{LogLevel, log};
use crate::zend::{SettingCheck, new_setting, with_setting};

// The setting `log_level` is registered first: if the value of another setting is rejected, the
// rejection is logged according to the log level.
static SETTINGS: IniEntryDefs<7> = IniEntryDefs::new([
    new_ini_setting(c"pillion.log_level", c"warning", ALL, check_level),
    new_ini_setting(c"pillion.max_response_bytes", c"0", ALL, check_bytes),
    new_ini_setting(c"pillion.max_sessions", c"64", SYSTEM, check_sessions),
    new_ini_setting(c"pillion.session_idle_ms", c"300000", SYSTEM, check_time),
    new_ini_setting(c"pillion.socket", c"", ALL, check_path),
    new_ini_setting(c"pillion.timeout_ms", c"0", ALL, check_time),
    IniEntryDef::end(),
]);

const fn new_ini_setting(
    name: &'static CStr,
    default: &'static CStr,
    permission: IniEntryPermission,
    check: SettingCheck,
) -> IniEntryDef {
    new_setting(name, default, permission, check, log_rejection)
}

/// The setting may be changed anywhere: by `ini_set()`, `.user.ini`, `php_value` and `php.ini`.
const ALL: IniEntryPermission = IniEntryPermission::All;
/// The setting may be changed only in `php.ini` and by `php_admin_value`, because it applies to the
/// process rather than to one request.
const SYSTEM: IniEntryPermission = IniEntryPermission::System;

/// Maximum duration that a setting may have: 24 days, in milliseconds.
const MAX_DURATION_MS: u64 = i32::MAX as u64;
/// Maximum size that a setting may permit: 4 GiB.
const MAX_SIZE_BYTES: u64 = 4 << 30;
const MAX_SESSIONS: usize = 10_000;

/// Registers the settings at module start-up.
pub fn register(module: i32) {
    IniEntryDef::register(SETTINGS.as_slice(), module);
}

/// Returns `pillion.socket`, if it is set.
pub fn socket_path() -> Option<PathBuf> {
    read_setting(c"pillion.socket", |path| {
        (!path.is_empty()).then(|| PathBuf::from(path))
    })
}

/// Returns `pillion.timeout_ms`, the default timeout of clients, if it is set.
pub fn timeout() -> Option<Duration> {
    read_setting(c"pillion.timeout_ms", parse_time).filter(|time| !time.is_zero())
}

/// Returns `pillion.max_response_bytes`, if it is set.
pub fn max_response_bytes() -> Option<u64> {
    read_setting(c"pillion.max_response_bytes", parse_bytes).filter(|bytes| *bytes > 0)
}

/// Returns `pillion.max_sessions`: the maximum number of MCP sessions that a process keeps for
/// later requests.
pub fn max_sessions() -> usize {
    read_setting(c"pillion.max_sessions", parse_sessions).unwrap_or(64)
}

/// Returns `pillion.session_idle_ms`: how long an unused session is kept. `None` means that
/// sessions are kept without a time limit.
pub fn session_idle_timeout() -> Option<Duration> {
    read_setting(c"pillion.session_idle_ms", parse_time).filter(|time| !time.is_zero())
}

fn read_setting<T>(name: &CStr, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    with_setting(name, parse).flatten()
}

fn parse_time(text: &str) -> Option<Duration> {
    let milliseconds = parse_number(text).filter(|milliseconds| *milliseconds <= MAX_DURATION_MS);
    milliseconds.map(Duration::from_millis)
}

/// Parses a number of bytes, with the same suffixes as PHP's own settings.
fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = parse_number(digits)?.checked_mul(1 << shift)?;
    (bytes <= MAX_SIZE_BYTES).then_some(bytes)
}

fn parse_sessions(text: &str) -> Option<usize> {
    let number = usize::try_from(parse_number(text)?).ok()?;
    (1..=MAX_SESSIONS).contains(&number).then_some(number)
}

/// Parses a whole number without a sign. Rust's parser would accept a sign.
fn parse_number(text: &str) -> Option<u64> {
    let has_only_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    has_only_digits.then(|| text.parse().ok()).flatten()
}

fn require<T>(value: Option<T>, expected: &'static str) -> Result<(), &'static str> {
    value.map(drop).ok_or(expected)
}

fn check_level(value: &str) -> Result<(), &'static str> {
    require(LogLevel::parse(value), "off, error, warning, info or debug")
}

fn check_bytes(value: &str) -> Result<(), &'static str> {
    require(
        parse_bytes(value),
        "bytes, such as 1048576 or 16M, up to 4G; 0: each client's own limit",
    )
}

fn check_time(value: &str) -> Result<(), &'static str> {
    require(parse_time(value), "whole milliseconds, up to 2147483647")
}

fn check_sessions(value: &str) -> Result<(), &'static str> {
    require(parse_sessions(value), "a number from 1 to 10000")
}

fn check_path(value: &str) -> Result<(), &'static str> {
    if value.contains('\0') {
        return Err("a path without NUL bytes");
    }
    Ok(())
}

fn log_rejection(name: &str, value: &str, expected: &str) {
    log(
        LogLevel::Warning,
        "Invalid setting ignored: the previous value stays in effect",
        || json!({"setting": name, "value": value, "expected": expected}),
    );
}
