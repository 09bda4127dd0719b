//! The OAuth login of `pillion auth login`, which uses the flow of `pillion mcp --oauth`.

use pillion_mcp_client::ServerConfig;

use super::error::McpCommandError;
use super::log;
use super::options::Options;
use super::server::ServerConnection;

/// Connects to a server and lists its tools. If the server requires an authorization, asks the user
/// for it and saves the tokens in the token store of `server`.
pub(crate) async fn log_in(server: ServerConfig, port: Option<u16>) -> Result<(), McpCommandError> {
    log::start(false);
    let options = Options {
        oauth: true,
        oauth_port: port,
        ..Options::default()
    };
    let server = ServerConnection::new(server, &options).await?;
    let work = async {
        server.connect().await?;
        server
            .repeat_after_authorization(|| server.client.list_tools())
            .await
            .map_err(|error| server.request_error(error))?;
        Ok(())
    };
    server.run_until_done(Box::pin(work)).await
}
