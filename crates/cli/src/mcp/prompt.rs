use std::process::ExitCode;

use serde_json::{Value, json};

use super::content;
use super::error::McpCommandError;
use super::offer::OfferKind;
use super::options::Options;
use super::plain;
use super::positional_arguments::PositionalArguments;
use super::server::ServerConnection;
use crate::arguments::CommandArguments;
use crate::output::print;

/// `pillion mcp prompt`
pub(super) async fn run(
    positional: PositionalArguments,
    options: &Options,
) -> Result<ExitCode, McpCommandError> {
    let mut resolved = positional.resolve(options)?;
    let name = resolved.required_word("the name of a prompt")?;
    let arguments = CommandArguments::read(resolved.words)?.into_string_arguments()?;
    let server = ServerConnection::new(resolved.server, options).await?;
    let params = json!({"name": name, "arguments": arguments});
    let work = async {
        server.connect().await?;
        match server.request("prompts/get", &params).await {
            Err(error) if error.is_from_server() => {
                let prompts = OfferKind::Prompts.list(&server).await.unwrap_or_default();
                Err(error.with_known_names(&name, OfferKind::Prompts.ids(&prompts)))
            }
            outcome => outcome,
        }
    };
    let json = server.run_until_done(Box::pin(work)).await?;
    if options.json {
        print(json.get())?;
        return Ok(ExitCode::SUCCESS);
    }
    let result: Value = server.read(&json)?;
    let messages = result["messages"].as_array().into_iter().flatten();
    let lines: Vec<_> = messages
        .map(|message| {
            let role = plain::one_line(message["role"].as_str().unwrap_or("?"));
            format!("{role}: {}", content::block_text(&message["content"]))
        })
        .collect();
    print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
