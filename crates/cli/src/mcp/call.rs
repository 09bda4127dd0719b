use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;

use super::content;
use super::error::{self, McpCommandError};
use super::offer::{OfferItems, OfferKind};
use super::options::Options;
use super::plain;
use super::positional_arguments::PositionalArguments;
use super::server::ServerConnection;
use crate::arguments::CommandArguments;
use crate::output::{print, print_diagnostic};

struct ToolCallOutcome {
    result: Box<RawValue>,
    is_error: bool,
    output_mismatch: Option<String>,
    /// The server's tools, if the called tool is not among them.
    available: Vec<String>,
}

/// `pillion mcp call`
pub(super) async fn run(
    positional: PositionalArguments,
    options: &Options,
) -> Result<ExitCode, McpCommandError> {
    let mut resolved = positional.resolve(options)?;
    let name = resolved.required_word("the name of a tool")?;
    let arguments = CommandArguments::read(resolved.words)?;
    let server = ServerConnection::new(resolved.server, options).await?;
    let outcome = server
        .run_until_done(Box::pin(call(&server, &name, arguments)))
        .await?;
    if let Some(mismatch) = &outcome.output_mismatch {
        print_diagnostic(&format!(
            "the structured content does not match the tool's output schema: {}",
            plain::one_line(mismatch)
        ));
    }
    let text = if options.json {
        outcome.result.get().to_owned()
    } else {
        let result: Value = server.read(&outcome.result)?;
        content::tool_result_text(&result)
    };
    if outcome.is_error && !options.json {
        // Many servers respond to an unknown tool with a failed tool result.
        let available = error::available(&outcome.available);
        print_diagnostic(&format!("{} (tool_error){available}", text.trim_end()));
    } else if !text.is_empty() {
        print(&text)?;
    }
    Ok(ExitCode::from(u8::from(outcome.is_error)))
}

async fn call(
    server: &ServerConnection,
    name: &str,
    arguments: CommandArguments,
) -> Result<ToolCallOutcome, McpCommandError> {
    server.connect().await?;
    // The tool list provides the input and output schemas. If the server provides no list, the tool
    // can still be called.
    let tools = server
        .fail_if_unauthorized(OfferKind::Tools.list(server).await)?
        .unwrap_or_default();
    let typed_arguments = arguments.for_schema(&input_schema(&tools, name))?;
    let json = &typed_arguments;
    let outcome = server
        .with_timeout(
            |options| async move { server.client.call_tool_with(name, json, &options).await },
        )
        .await
        .map_err(|error| error.with_known_names(name, OfferKind::Tools.ids(&tools)))?;
    let result: Value = server.read(&outcome.result)?;
    let mut available = OfferKind::Tools.ids(&tools);
    if available.iter().any(|known| known == name) {
        available.clear();
    }
    Ok(ToolCallOutcome {
        available,
        is_error: result["isError"] == true,
        result: outcome.result,
        output_mismatch: outcome.output_mismatch,
    })
}

fn input_schema(tools: &OfferItems, name: &str) -> Value {
    tools
        .iter()
        .filter_map(|tool| serde_json::from_str::<Value>(tool.get()).ok())
        .find(|tool| tool["name"] == name)
        .map_or(Value::Null, |mut tool| tool["inputSchema"].take())
}
