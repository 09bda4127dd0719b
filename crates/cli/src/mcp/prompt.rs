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
    positional_arguments: PositionalArguments,
    options: &Options,
) -> Result<ExitCode, McpCommandError> {
    let mut resolved_arguments = positional_arguments.resolve(options)?;
    let name = resolved_arguments.take_required_word("the name of a prompt")?;
    let arguments = CommandArguments::read(resolved_arguments.words)?.into_string_arguments()?;
    let server = ServerConnection::new(resolved_arguments.server, options).await?;
    let params = json!({"name": name, "arguments": arguments});
    let request = async {
        server.connect().await?;
        match server.request("prompts/get", &params).await {
            Err(error) if error.is_from_server() => {
                let prompts = OfferKind::Prompts.list(&server).await.unwrap_or_default();
                Err(error.with_known_names(&name, OfferKind::Prompts.ids(&prompts)))
            }
            outcome => outcome,
        }
    };
    let json = server.run_until_done(Box::pin(request)).await?;
    if options.json {
        print(json.get())?;
        return Ok(ExitCode::SUCCESS);
    }
    let result: Value = server.parse(&json)?;
    let messages = result["messages"].as_array().into_iter().flatten();
    let lines: Vec<_> = messages
        .map(|message| {
            let role = plain::to_one_line(message["role"].as_str().unwrap_or("?"));
            format!("{role}: {}", content::format_block(&message["content"]))
        })
        .collect();
    print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
