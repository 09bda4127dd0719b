use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::content;
use super::error::McpCommandError;
use super::offer::Kind;
use super::options::Options;
use super::plain;
use super::positional_arguments::PositionalArguments;
use super::server::Server;
use crate::arguments::Arguments;
use crate::print;

/// `pillion mcp prompt`
#[derive(Debug, Args)]
#[command(
    override_usage = "pillion mcp prompt [OPTIONS] URL NAME [KEY=VALUE...]\n       pillion mcp prompt [OPTIONS] NAME [KEY=VALUE...] -- COMMAND..."
)]
pub(super) struct Prompt {
    #[command(flatten)]
    positional: PositionalArguments,
}

impl Prompt {
    pub(super) async fn apply(self, options: &Options) -> Result<ExitCode, McpCommandError> {
        let mut resolved = self.positional.resolve(options)?;
        let name = resolved.next_word().ok_or(McpCommandError::Missing {
            what: "the name of a prompt",
        })?;
        let arguments = Arguments::read(resolved.words)?.into_string_arguments()?;
        let server = Server::new(resolved.server, options).await?;
        let params = json!({"name": name, "arguments": arguments});
        let filling = async {
            server.connect().await?;
            match server.request("prompts/get", &params).await {
                Err(error) if error.is_from_server() => {
                    let prompts = Kind::Prompts.list(&server).await.unwrap_or_default();
                    Err(error.with_known_names(&name, Kind::Prompts, &prompts))
                }
                outcome => outcome,
            }
        };
        let result = server.run_until_done(Box::pin(filling)).await?;
        if options.json {
            print(result.get()).map_err(McpCommandError::output)?;
            return Ok(ExitCode::SUCCESS);
        }
        let result: Value = server.read(&result)?;
        let messages = result["messages"].as_array().into_iter().flatten();
        let messages = messages.map(|message| {
            let role = plain::one_line(message["role"].as_str().unwrap_or("?"));
            format!("{role}: {}", content::of_block(&message["content"]))
        });
        let messages: Vec<_> = messages.collect();
        print(&messages.join("\n")).map_err(McpCommandError::output)?;
        Ok(ExitCode::SUCCESS)
    }
}
