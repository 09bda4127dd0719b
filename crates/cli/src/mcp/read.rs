use std::io::IsTerminal;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::content;
use super::error::McpCommandError;
use super::options::Options;
use super::positional_arguments::PositionalArguments;
use super::server::ServerConnection;
use crate::output::{print, print_bytes};

/// `pillion mcp read`
pub(super) async fn run(
    positional_arguments: PositionalArguments,
    options: &Options,
) -> Result<ExitCode, McpCommandError> {
    let mut resolved_arguments = positional_arguments.resolve_with_uri(options)?;
    let uri = resolved_arguments.take_required_word("the URI of a resource")?;
    resolved_arguments.reject_extra_words()?;
    let server = ServerConnection::new(resolved_arguments.server, options).await?;
    let params = json!({ "uri": uri });
    let request = async {
        server.connect().await?;
        server.request("resources/read", &params).await
    };
    let json = server.run_until_done(Box::pin(request)).await?;
    if options.json {
        print(json.get())?;
        return Ok(ExitCode::SUCCESS);
    }
    let result: Value = server.parse(&json)?;
    let no_contents = Vec::new();
    let contents = result["contents"].as_array().unwrap_or(&no_contents);
    // A single resource is written unchanged if standard output is a file or a pipe.
    if let ([resource], false) = (contents.as_slice(), std::io::stdout().is_terminal())
        && let Some(bytes) = content::decode_bytes(resource)
    {
        print_bytes(&bytes)?;
        return Ok(ExitCode::SUCCESS);
    }
    let texts: Vec<_> = contents.iter().map(content::format_resource).collect();
    print(&texts.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
