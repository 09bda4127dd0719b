//! Structured logs, to standard error.

use std::io::IsTerminal;

use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFormat, LogSection};

/// Sends the log lines of this process to standard error, as the configuration says. A
/// second call changes nothing.
pub fn initialize(log: &LogSection) {
    let as_json = match log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let registry = tracing_subscriber::registry().with(log.filter.to_env_filter());
    let layer = fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let done = if as_json {
        // The span has the request's id and tool.
        let layer = layer.json().flatten_event(true).with_span_list(false);
        registry.with(layer).try_init()
    } else {
        registry.with(layer.with_target(false)).try_init()
    };
    // Fails when a subscriber is there already, as in tests; then that one stays.
    drop(done);
}
