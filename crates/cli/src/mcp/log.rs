use pillion_config::{LogFormat, LogSection};
use pillion_sidecar::logging;

/// Logs warnings, and with `--verbose` debug messages. Results that do not match the tool's output
/// schema are reported by the command itself, not by the log.
pub(super) fn start(verbose: bool) {
    let level = if verbose { "debug" } else { "warn" };
    let filter = format!("warn,pillion={level},pillion_mcp_client::client::methods=error");
    if let Ok(filter) = filter.try_into() {
        let format = LogFormat::Text;
        drop(logging::initialize(&LogSection { format, filter }));
    }
}
