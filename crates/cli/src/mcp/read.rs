use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::content;
use super::error::McpCommandError;
use super::options::Options;
use super::positional_arguments::PositionalArguments;
use super::server::Server;
use crate::print;

/// `pillion mcp read`
#[derive(Debug, Args)]
#[command(
    override_usage = "pillion mcp read [OPTIONS] URL RESOURCE-URI\n       pillion mcp read [OPTIONS] RESOURCE-URI -- COMMAND..."
)]
pub(super) struct Read {
    #[command(flatten)]
    positional: PositionalArguments,
}

impl Read {
    pub(super) async fn apply(self, options: &Options) -> Result<ExitCode, McpCommandError> {
        let mut resolved = self.positional.resolve_before_uri(options)?;
        let uri = resolved.next_word().ok_or(McpCommandError::Missing {
            what: "the URI of a resource",
        })?;
        resolved.reject_extra_words()?;
        let server = Server::new(resolved.server, options).await?;
        let params = json!({ "uri": uri });
        let reading = async {
            server.connect().await?;
            server.request("resources/read", &params).await
        };
        let result = server.run_until_done(Box::pin(reading)).await?;
        if options.json {
            print(result.get()).map_err(McpCommandError::output)?;
            return Ok(ExitCode::SUCCESS);
        }
        let result: Value = server.read(&result)?;
        let none = Vec::new();
        let contents = result["contents"].as_array().unwrap_or(&none);
        // A single resource is written unchanged to a file or a pipe.
        if let ([only], false) = (contents.as_slice(), std::io::stdout().is_terminal())
            && let Some(bytes) = content::decode_bytes(only)
        {
            return write(&bytes).map(|()| ExitCode::SUCCESS);
        }
        let texts: Vec<_> = contents.iter().map(content::of_resource).collect();
        print(&texts.join("\n")).map_err(McpCommandError::output)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn write(bytes: &[u8]) -> Result<(), McpCommandError> {
    let mut output = std::io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(McpCommandError::Output),
    }
}
