//! Structured logs, to standard error.

mod json;

use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::{FilterLayer, LogFilter, LogFormat, LogSection};
use json::JsonLines;

/// Changes what is logged while the process runs.
#[derive(Clone)]
pub struct LogControl {
    filter: reload::Handle<FilterLayer, Registry>,
}

impl std::fmt::Debug for LogControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogControl").finish_non_exhaustive()
    }
}

impl LogControl {
    /// From now on this is logged.
    pub fn set_filter(&self, filter: &LogFilter) {
        // Fails when another subscriber has been there before; then that one stays.
        drop(self.filter.reload(filter.to_layer()));
    }
}

/// Sends the log lines of this process to standard error, as the configuration says. A
/// second call changes nothing.
pub fn initialize(log: &LogSection) -> LogControl {
    let as_json = match log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let (filter, handle) = reload::Layer::new(log.filter.to_layer());
    let registry = tracing_subscriber::registry().with(filter);
    let done = if as_json {
        // One span has the request's id, the one in it the call's tool, server and user.
        registry.with(JsonLines::to(std::io::stderr)).try_init()
    } else {
        let layer = fmt::layer()
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr)
            .with_target(false);
        registry.with(layer).try_init()
    };
    // Fails when a subscriber is there already, as in tests; then that one stays.
    drop(done);
    LogControl { filter: handle }
}
