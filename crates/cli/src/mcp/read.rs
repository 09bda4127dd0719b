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
    positional: PositionalArguments,
    options: &Options,
) -> Result<ExitCode, McpCommandError> {
    let mut resolved = positional.resolve_before_uri(options)?;
    let uri = resolved.required_word("the URI of a resource")?;
    resolved.reject_extra_words()?;
    let server = ServerConnection::new(resolved.server, options).await?;
    let params = json!({ "uri": uri });
    let work = async {
        server.connect().await?;
        server.request("resources/read", &params).await
    };
    let json = server.run_until_done(Box::pin(work)).await?;
    if options.json {
        print(json.get())?;
        return Ok(ExitCode::SUCCESS);
    }
    let result: Value = server.read(&json)?;
    let none = Vec::new();
    let contents = result["contents"].as_array().unwrap_or(&none);
    // A single resource is written unchanged to a file or a pipe.
    if let ([only], false) = (contents.as_slice(), std::io::stdout().is_terminal())
        && let Some(bytes) = content::decode_bytes(only)
    {
        print_bytes(&bytes)?;
        return Ok(ExitCode::SUCCESS);
    }
    let texts: Vec<_> = contents.iter().map(content::resource_text).collect();
    print(&texts.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
