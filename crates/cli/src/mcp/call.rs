use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use serde_json::value::RawValue;

use super::content;
use super::error::{self, McpCommandError};
use super::offer::{Items, Kind};
use super::options::Options;
use super::plain;
use super::positional_arguments::PositionalArguments;
use super::server::Server;
use crate::arguments::Arguments;
use crate::{print, print_diagnostic};

/// `pillion mcp call`
#[derive(Debug, Args)]
#[command(
    override_usage = "pillion mcp call [OPTIONS] URL NAME [KEY=VALUE... | JSON | - | @FILE]\n       pillion mcp call [OPTIONS] NAME [KEY=VALUE... | JSON | - | @FILE] -- COMMAND..."
)]
pub(super) struct Call {
    #[command(flatten)]
    positional: PositionalArguments,
}

/// The outcome of a call.
struct Called {
    result: Box<RawValue>,
    is_error: bool,
    output_mismatch: Option<String>,
    /// The server's tools, if the called tool is not among them.
    available: Vec<String>,
}

impl Call {
    pub(super) async fn apply(self, options: &Options) -> Result<ExitCode, McpCommandError> {
        let mut resolved = self.positional.resolve(options)?;
        let name = resolved.next_word().ok_or(McpCommandError::Missing {
            what: "the name of a tool",
        })?;
        let arguments = Arguments::read(resolved.words)?;
        let server = Server::new(resolved.server, options).await?;
        let called = server
            .run_until_done(Box::pin(call(&server, &name, arguments)))
            .await?;
        if let Some(mismatch) = &called.output_mismatch {
            let mismatch = plain::one_line(mismatch);
            print_diagnostic(&format!(
                "the structured content does not match the tool's output schema: {mismatch}"
            ));
        }
        let text = if options.json {
            called.result.get().to_owned()
        } else {
            let result: Value = server.read(&called.result)?;
            content::of_tool_result(&result)
        };
        if called.is_error && !options.json {
            // Many servers respond to an unknown tool with a tool error.
            let available = error::available(&called.available);
            print_diagnostic(&format!("{} (tool_error){available}", text.trim_end()));
        } else if !text.is_empty() {
            print(&text).map_err(McpCommandError::output)?;
        }
        Ok(if called.is_error {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

async fn call(
    server: &Server,
    name: &str,
    arguments: Arguments,
) -> Result<Called, McpCommandError> {
    server.connect().await?;
    // The tool list provides the input and output schemas. A tool can be called even if the server
    // provides no list.
    let tools = server.fail_if_unauthorized(Kind::Tools.list(server).await)?;
    let tools = tools.unwrap_or_default();
    let schema = schema_of(&tools, name);
    let arguments = arguments.for_schema(&schema)?;
    let arguments = &arguments;
    let called = server.with_timeout(|options| async move {
        server
            .client
            .call_tool_with(name, arguments, &options)
            .await
    });
    let called = called
        .await
        .map_err(|error| error.with_known_names(name, Kind::Tools, &tools))?;
    let result: Value = server.read(&called.result)?;
    let names = tools.iter().map(|tool| Kind::Tools.id_of(tool));
    let mut available: Vec<_> = names.collect();
    if available.iter().any(|known| known == name) {
        available.clear();
    }
    Ok(Called {
        available,
        is_error: result["isError"] == true,
        result: called.result,
        output_mismatch: called.output_mismatch,
    })
}

fn schema_of(tools: &Items, name: &str) -> Value {
    let tools = tools
        .iter()
        .map(|tool| serde_json::from_str::<Value>(tool.get()));
    let tool = tools.flatten().find(|tool| tool["name"] == name);
    tool.map_or(Value::Null, |mut tool| tool["inputSchema"].take())
}
