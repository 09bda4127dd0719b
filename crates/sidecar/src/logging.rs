//! Structured logs on standard error.

mod json;
mod stderr;
mod visible_fields;

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use json::JsonLines;
use pillion_config::{FilterLayer, LogFilter, LogFormat, LogSection};
use stderr::stderr;
use visible_fields::VisibleFields;

pub use stderr::flush;

/// Maximum length of one value in a line of the JSON format, and of all values of one event or span
/// in the text format, in bytes. Some values are texts of clients and servers.
const MAX_VALUE_BYTES: usize = 16 * 1024;

/// Changes the log filter at run time.
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
    /// Replaces the log filter.
    pub fn set_filter(&self, filter: &LogFilter) {
        // An error is ignored: it means that another subscriber was installed first, whose filter
        // cannot be replaced and stays in effect.
        drop(self.filter.reload(filter.to_layer()));
    }
}

/// Writes the logs of this process to standard error, as configured. Further calls have no effect.
pub fn initialize(log: &LogSection) -> LogControl {
    let is_json = match log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let (filter, handle) = reload::Layer::new(log.filter.to_layer());
    let registry = tracing_subscriber::registry().with(filter);
    let install_outcome = if is_json {
        // Each line has the fields of two spans: the request's ID, and the call's tool, server and
        // user.
        registry.with(JsonLines { writer: stderr() }).try_init()
    } else {
        let layer = fmt::layer()
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(stderr())
            .fmt_fields(VisibleFields::default())
            .with_target(false);
        registry.with(layer).try_init()
    };
    // Installing the subscriber fails if another one is already installed, as in tests. The other
    // one then stays in effect, and panics are not logged by this module.
    if install_outcome.is_ok() {
        log_panics();
    }
    LogControl { filter: handle }
}

/// Logs panics as events. The standard library would print a message with line breaks, which may
/// contain text of clients and servers, between the lines of the log.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let current_backtrace = Backtrace::capture();
        let backtrace =
            (current_backtrace.status() == BacktraceStatus::Captured).then_some(current_backtrace);
        tracing::error!(
            thread = thread.name(),
            location = panic.location().map(tracing::field::display),
            backtrace = backtrace.as_ref().map(tracing::field::display),
            "Panicked: {}",
            read_panic_message(panic.payload())
        );
    }));
}

fn read_panic_message(payload: &dyn Any) -> &str {
    let static_text = payload.downcast_ref::<&str>().copied();
    let owned_text = payload.downcast_ref::<String>().map(String::as_str);
    static_text.or(owned_text).unwrap_or("unknown reason")
}
