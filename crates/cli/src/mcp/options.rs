use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pillion_mcp_client::{ProtocolVersion, TransportKind};

use super::super::duration;

/// The options of every command of `pillion mcp`.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Server")]
pub(super) struct Options {
    /// Uses the server with this name from the configuration
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) server: Option<String>,
    /// The configuration file for --server
    #[arg(long, global = true, env = "PILLION_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Sends a header with every request; for a secret, use --header-env
    #[arg(long = "header", global = true, value_name = "NAME:VALUE")]
    pub(super) headers: Vec<String>,
    /// Sends a header with the value of an environment variable
    #[arg(long = "header-env", global = true, value_name = "NAME:VARIABLE")]
    pub(super) headers_env: Vec<String>,
    /// Sends the bearer token from this environment variable
    #[arg(long, global = true, value_name = "VARIABLE")]
    #[arg(conflicts_with = "bearer_file")]
    pub(super) bearer_env: Option<String>,
    /// Sends the bearer token from this file
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) bearer_file: Option<PathBuf>,
    /// Asks you for authorization in a browser if the server requires it (OAuth)
    #[arg(long, global = true, conflicts_with_all = ["bearer_env", "bearer_file"])]
    pub(super) oauth: bool,
    /// The port on 127.0.0.1 for the OAuth redirect [default: any free port]
    #[arg(long, global = true, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) oauth_port: Option<u16>,
    /// The OAuth client ID; without it, the client registers itself with the authorization server
    #[arg(long, global = true, value_name = "ID")]
    pub(super) client_id: Option<String>,
    /// The environment variable with the OAuth client secret
    #[arg(long, global = true, value_name = "VARIABLE")]
    pub(super) client_secret_env: Option<String>,
    /// The HTTPS URL of a client ID metadata document, which serves as the client ID
    #[arg(long, global = true, value_name = "URL")]
    pub(super) client_metadata_url: Option<String>,
    /// A scope to request, in addition to the scopes that the server requires; can be repeated
    #[arg(long = "scope", global = true, value_name = "SCOPE")]
    pub(super) scopes: Vec<String>,
    /// Sets an environment variable of the program; without a value, passes this command's variable
    #[arg(long, global = true, value_name = "NAME[=VALUE]")]
    pub(super) env: Vec<String>,
    /// The working directory of the program
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(super) cwd: Option<PathBuf>,
    /// The transport: auto (detects the transport), streamable_http, legacy_sse, post_sse, get_sse,
    /// http, websocket, stdio
    #[arg(long, global = true, value_name = "TRANSPORT", value_parser = parse_transport)]
    pub(super) transport: Option<TransportKind>,
    /// The MCP protocol revision to use, such as 2025-06-18
    #[arg(long, global = true, value_name = "DATE")]
    pub(super) protocol_version: Option<ProtocolVersion>,
    /// Timeout of one operation: seconds, or a number with ms, s, m or h
    #[arg(long, global = true, value_name = "TIME", value_parser = duration::parse_timeout)]
    pub(super) timeout: Option<Duration>,
    /// Prints JSON: the server's unchanged result, or the error with its code
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Prints connection steps, progress and the server's log messages to standard error
    #[arg(long, short, global = true)]
    pub(super) verbose: bool,
}

fn parse_transport(text: &str) -> Result<TransportKind, String> {
    TransportKind::try_from(text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_accepted_in_both_spellings() {
        for text in ["legacy_sse", "legacy-sse", "sse"] {
            assert_eq!(parse_transport(text), Ok(TransportKind::LegacySse));
        }
        let expected = "Unknown transport: pigeon, expected one of auto, streamable_http, ";
        assert!(parse_transport("pigeon").unwrap_err().starts_with(expected));
    }
}
