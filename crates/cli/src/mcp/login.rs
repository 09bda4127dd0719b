//! The OAuth login of `pillion auth login`, which uses the flow of `pillion mcp --oauth`.

use pillion_config::{LogFormat, LogSection};
use pillion_mcp_client::{OUTPUT_MISMATCH_TARGET, ServerConfig};
use pillion_sidecar::logging;

use super::error::McpCommandError;
use super::options::Options;
use super::server::ServerConnection;

/// Connects to a server and lists its tools. If the server requires an authorization, asks the user
/// for it and saves the tokens in the token store of `config`.
pub(crate) async fn log_in(config: ServerConfig, port: Option<u16>) -> Result<(), McpCommandError> {
    start_log(false);
    let options = Options {
        oauth: true,
        oauth_port: port,
        ..Options::default()
    };
    let server = ServerConnection::new(config, &options).await?;
    let login_future = async {
        server.connect().await?;
        server
            .repeat_after_authorization(|| server.client.list_tools())
            .await
            .map_err(|error| server.request_error(error))?;
        Ok(())
    };
    server.run_until_done(Box::pin(login_future)).await
}

/// Starts the log, which contains warnings and, with `--verbose`, debug messages. Results that do
/// not match the tool's output schema are reported by the command itself, not by the log.
pub(super) fn start_log(is_verbose: bool) {
    let level = if is_verbose { "debug" } else { "warn" };
    let filter = format!("warn,pillion={level},{OUTPUT_MISMATCH_TARGET}=error");
    if let Ok(filter) = filter.try_into() {
        let format = LogFormat::Text;
        drop(logging::initialize(&LogSection { format, filter }));
    }
}
