//! The ini settings `pillion.*`.

use std::path::PathBuf;

use ext_php_rs::flags::IniEntryPermission;
use ext_php_rs::zend::{IniEntryDef, IniEntryDefs};

use crate::zend::with_setting;

static SETTINGS: IniEntryDefs<3> = IniEntryDefs::new([
    IniEntryDef::new(c"pillion.log_level", c"warning", IniEntryPermission::All),
    IniEntryDef::new(c"pillion.sidecar_socket", c"", IniEntryPermission::All),
    IniEntryDef::end(),
]);

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
}

/// `pillion.log_level`; anything unknown counts as the default.
pub fn log_level() -> LogLevel {
    with_setting(c"pillion.log_level", |level| match level {
        "off" | "" => LogLevel::Off,
        "error" => LogLevel::Error,
        "info" => LogLevel::Info,
        "debug" => LogLevel::Debug,
        _ => LogLevel::Warning,
    })
}

/// `pillion.sidecar_socket`, if it is set.
pub fn sidecar_socket() -> Option<PathBuf> {
    with_setting(c"pillion.sidecar_socket", |path| {
        (!path.is_empty()).then(|| PathBuf::from(path))
    })
}
