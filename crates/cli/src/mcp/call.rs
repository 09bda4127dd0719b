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
    /// The names of the server's tools, if the called tool is not among them; otherwise empty.
    available_names: Vec<String>,
}

/// `pillion mcp call`
pub(super) async fn run(
    positional_arguments: PositionalArguments,
    options: &Options,
) -> Result<ExitCode, McpCommandError> {
    let mut resolved_arguments = positional_arguments.resolve(options)?;
    let name = resolved_arguments.take_required_word("the name of a tool")?;
    let arguments = CommandArguments::read(resolved_arguments.words)?;
    let server = ServerConnection::new(resolved_arguments.server, options).await?;
    let operation = Box::pin(call(&server, &name, arguments));
    let outcome = server.run_until_done(operation).await?;
    if let Some(mismatch) = &outcome.output_mismatch {
        print_diagnostic(&format!(
            "the structured content does not match the tool's output schema: {}",
            plain::to_one_line(mismatch)
        ));
    }
    let text = if options.json {
        outcome.result.get().to_owned()
    } else {
        let result: Value = server.parse(&outcome.result)?;
        content::format_tool_result(&result)
    };
    if outcome.is_error && !options.json {
        // The names of the server's tools are shown for a failed result, too, because many servers
        // respond to an unknown tool with a failed result instead of an error.
        let available_text = error::format_available_names(&outcome.available_names);
        print_diagnostic(&format!("{} (tool_error){available_text}", text.trim_end()));
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
    let typed_arguments = arguments.for_schema(&find_input_schema(&tools, name))?;
    let (client, json) = (&server.client, &typed_arguments);
    let outcome = server
        .with_timeout(
            |options| async move { client.call_tool_with_options(name, json, &options).await },
        )
        .await
        .map_err(|error| error.with_known_names(name, OfferKind::Tools.ids(&tools)))?;
    let result: Value = server.parse(&outcome.result)?;
    let mut available_names = OfferKind::Tools.ids(&tools);
    if available_names.iter().any(|tool_name| tool_name == name) {
        available_names.clear();
    }
    Ok(ToolCallOutcome {
        available_names,
        is_error: result["isError"] == true,
        result: outcome.result,
        output_mismatch: outcome.output_mismatch,
    })
}

fn find_input_schema(tools: &OfferItems, name: &str) -> Value {
    tools
        .iter()
        .filter_map(|tool| serde_json::from_str::<Value>(tool.get()).ok())
        .find(|tool| tool["name"] == name)
        .map_or(Value::Null, |mut tool| tool["inputSchema"].take())
}
