//! The ini settings `pillion.*`.
//!
//! A value that makes no sense is refused, and the one before stays: `ini_set()` returns
//! false, `php.ini` and a pool's configuration get a line in the log. They are read when an
//! object is made, or when the process starts its engine; never on the engine's thread,
//! which in a thread-safe PHP has no settings of its own.

use std::ffi::CStr;
use std::path::PathBuf;
use std::time::Duration;

use ext_php_rs::flags::IniEntryPermission;
use ext_php_rs::zend::{IniEntryDef, IniEntryDefs};
use serde_json::json;

use crate::log::log;
use crate::zend::{setting, with_setting};

// The level comes first: it is looked at when another is refused.
static SETTINGS: IniEntryDefs<7> = IniEntryDefs::new([
    setting(c"pillion.log_level", c"warning", ANYWHERE, check_level),
    setting(c"pillion.max_response_bytes", c"0", ANYWHERE, check_bytes),
    setting(c"pillion.max_sessions", c"64", SYSTEM, check_sessions),
    setting(c"pillion.session_idle_ms", c"300000", SYSTEM, check_time),
    setting(c"pillion.socket", c"", ANYWHERE, check_path),
    setting(c"pillion.timeout_ms", c"0", ANYWHERE, check_time),
    IniEntryDef::end(),
]);

/// `ini_set`, `.user.ini`, `php_value` and above.
const ANYWHERE: IniEntryPermission = IniEntryPermission::All;
/// `php.ini` and `php_admin_value`: what belongs to the process, not to one request.
const SYSTEM: IniEntryPermission = IniEntryPermission::System;

/// The longest time that a setting can ask for: 24 days.
const LONGEST_MS: u64 = i32::MAX as u64;
/// The most that a setting lets anybody read: 4 GiB.
const MOST_BYTES: u64 = 4 << 30;
const MOST_SESSIONS: usize = 10_000;

/// Registers the settings at module start-up.
pub fn register(module: i32) {
    IniEntryDef::register(SETTINGS.as_slice(), module);
}

/// How much goes to PHP's error log: `pillion.log_level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Failures that the caller does not see as an exception or a result.
    Error,
    /// The default: also what is odd but works.
    Warning,
    /// Also what tools are run.
    Info,
    /// Also every request to an MCP server.
    Debug,
}

impl LogLevel {
    /// Its name in the setting, and in PSR-3.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        // An unquoted `off` or `none` in php.ini arrives as nothing.
        let levels = [
            ("", Self::Off),
            ("off", Self::Off),
            ("error", Self::Error),
            ("warning", Self::Warning),
            ("info", Self::Info),
            ("debug", Self::Debug),
        ];
        let is_it = |(known, _): &&(&str, Self)| known.eq_ignore_ascii_case(name);
        levels.iter().find(is_it).map(|(_, level)| *level)
    }
}

/// `pillion.log_level`.
pub fn log_level() -> LogLevel {
    read(c"pillion.log_level", LogLevel::parse).unwrap_or(LogLevel::Warning)
}

/// `pillion.socket`, if it is set.
pub fn socket() -> Option<PathBuf> {
    read(c"pillion.socket", |path| {
        (!path.is_empty()).then(|| PathBuf::from(path))
    })
}

/// `pillion.timeout_ms`: the deadline of clients that are made without one, if it is set.
pub fn timeout() -> Option<Duration> {
    read(c"pillion.timeout_ms", parse_time).filter(|time| !time.is_zero())
}

/// `pillion.max_response_bytes`, if it is set.
pub fn max_response_bytes() -> Option<u64> {
    read(c"pillion.max_response_bytes", parse_bytes).filter(|bytes| *bytes > 0)
}

/// `pillion.max_sessions`: how many MCP sessions a process keeps for later requests.
pub fn max_sessions() -> usize {
    read(c"pillion.max_sessions", parse_sessions).unwrap_or(64)
}

/// `pillion.session_idle_ms`: for how long it keeps one that nobody uses; `None` for ever.
pub fn session_idle() -> Option<Duration> {
    read(c"pillion.session_idle_ms", parse_time).filter(|time| !time.is_zero())
}

fn read<T>(name: &CStr, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    with_setting(name, parse).flatten()
}

fn parse_time(text: &str) -> Option<Duration> {
    let time = number(text).filter(|time| *time <= LONGEST_MS);
    time.map(Duration::from_millis)
}

/// Bytes, with the suffixes that PHP's own settings have.
fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = number(digits)?.checked_mul(1 << shift)?;
    (bytes <= MOST_BYTES).then_some(bytes)
}

fn parse_sessions(text: &str) -> Option<usize> {
    let number = usize::try_from(number(text)?).ok()?;
    (1..=MOST_SESSIONS).contains(&number).then_some(number)
}

/// A whole number without a sign, which Rust would take.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn check_level(name: &str, value: &str, tells: bool) -> bool {
    let expected = "off, error, warning, info or debug";
    accept(
        LogLevel::parse(value).is_some(),
        name,
        value,
        expected,
        tells,
    )
}

fn check_bytes(name: &str, value: &str, tells: bool) -> bool {
    let expected = "bytes, such as 1048576 or 16M, up to 4G; 0: each client's own limit";
    accept(parse_bytes(value).is_some(), name, value, expected, tells)
}

fn check_time(name: &str, value: &str, tells: bool) -> bool {
    let expected = "whole milliseconds, up to 2147483647";
    accept(parse_time(value).is_some(), name, value, expected, tells)
}

fn check_sessions(name: &str, value: &str, tells: bool) -> bool {
    let expected = "a number from 1 to 10000";
    accept(
        parse_sessions(value).is_some(),
        name,
        value,
        expected,
        tells,
    )
}

fn check_path(name: &str, value: &str, tells: bool) -> bool {
    let expected = "a path without a NUL";
    accept(!value.contains('\0'), name, value, expected, tells)
}

fn accept(sense: bool, name: &str, value: &str, expected: &str, tells: bool) -> bool {
    if !sense && !tells {
        log(
            LogLevel::Warning,
            "A setting is not valid, and what it was before holds",
            || json!({"setting": name, "value": value, "expected": expected}),
        );
    }
    sense
}
