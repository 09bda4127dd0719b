use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value};

use super::error::McpCommandError;
use super::offer::{Items, Kind};
use super::options::Options;
use super::plain;
use super::positional_arguments::PositionalArguments;
use super::server::Server;
use crate::print;

/// `pillion mcp list`
#[derive(Debug, Args)]
#[command(
    override_usage = "pillion mcp list [OPTIONS] URL [tools|resources|templates|prompts]\n       pillion mcp list [OPTIONS] [tools|resources|templates|prompts] -- COMMAND..."
)]
pub(super) struct List {
    #[command(flatten)]
    positional: PositionalArguments,
}

impl List {
    pub(super) async fn apply(mut self, options: &Options) -> Result<ExitCode, McpCommandError> {
        let first = self.positional.take_first(Kind::parse);
        let mut resolved = self.positional.resolve(options)?;
        let kind = match (first, resolved.next_word()) {
            (first, None) => first,
            (None, Some(word)) => match Kind::parse(&word) {
                Some(kind) => Some(kind),
                None => return Err(McpCommandError::UnknownKind { word }),
            },
            (Some(_), Some(word)) => return Err(McpCommandError::TooMany { word }),
        };
        resolved.reject_extra_words()?;
        let server = Server::new(resolved.server, options).await?;
        let lists = server
            .run_until_done(Box::pin(lists(&server, kind)))
            .await?;
        if options.json {
            print(&as_json(&lists)).map_err(McpCommandError::output)?;
            return Ok(ExitCode::SUCCESS);
        }
        let has_headings = kind.is_none();
        let text = lists.iter().filter(|(_, items)| !items.is_empty());
        let text = text.map(|(kind, items)| as_text(*kind, items, has_headings, options.verbose));
        let text: Vec<_> = text.collect();
        if !text.is_empty() {
            print(&text.join("\n\n")).map_err(McpCommandError::output)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the list of this kind, or all lists that the server offers.
async fn lists(server: &Server, kind: Option<Kind>) -> Result<Vec<(Kind, Items)>, McpCommandError> {
    server.connect().await?;
    let connection = server.client.connection().await;
    let connection = connection.map_err(|source| server.request_error(source, Vec::new()))?;
    let kinds = Kind::ALL.into_iter().filter(|one| match kind {
        Some(kind) => *one == kind,
        None => one.is_offered(&connection),
    });
    let mut lists = Vec::new();
    for kind in kinds {
        let items = kind.list(server).await;
        lists.push((
            kind,
            items.map_err(|source| server.request_error(source, Vec::new()))?,
        ));
    }
    Ok(lists)
}

/// Returns a JSON object with the keys of the protocol and the unchanged items of the server.
fn as_json(lists: &[(Kind, Items)]) -> String {
    let list = |(kind, items): &(Kind, Items)| {
        let items: Vec<_> = items.iter().map(|item| item.get()).collect();
        format!("\"{}\":[{}]", kind.key(), items.join(","))
    };
    let lists: Vec<_> = lists.iter().map(list).collect();
    format!("{{{}}}", lists.join(","))
}

/// Formats one line per item: its name or URI, and the first line of its description.
fn as_text(kind: Kind, items: &Items, has_heading: bool, verbose: bool) -> String {
    const MAX_NAME_WIDTH: usize = 40;
    let ids: Vec<_> = items.iter().map(|item| kind.id_of(item)).collect();
    let widths = ids.iter().map(|id| id.chars().count());
    let width = widths
        .filter(|width| *width <= MAX_NAME_WIDTH)
        .max()
        .unwrap_or_default();
    let indent = if has_heading { "  " } else { "" };
    let mut lines = Vec::new();
    if has_heading {
        lines.push(format!("{} ({})", kind.name(), items.len()));
    }
    for (id, item) in ids.iter().zip(items) {
        let item: Value = serde_json::from_str(item.get()).unwrap_or_default();
        let mut about = ["description", "title", "name"].iter();
        let about = about.find_map(|key| item[key].as_str()).unwrap_or_default();
        let line = format!("{indent}{id:width$}  {}", plain::summary(about, 200));
        lines.push(line.trim_end().to_owned());
        if verbose {
            let parameters = parameters(&item);
            lines.extend(parameters.iter().map(|line| format!("{indent}    {line}")));
        }
    }
    lines.join("\n")
}

/// Returns one line per parameter of a tool or a prompt.
fn parameters(item: &Value) -> Vec<String> {
    let schema = &item["inputSchema"];
    let required = |name: &str| {
        let required = schema["required"].as_array().into_iter().flatten();
        required.into_iter().any(|one| one == name)
    };
    let line = |name: &str, kind: &str, required: bool, about: &Value| {
        let optional = if required { "" } else { ", optional" };
        let about = plain::summary(about.as_str().unwrap_or_default(), 200);
        let line = format!(
            "{}: {}{optional}  {about}",
            plain::one_line(name),
            plain::one_line(kind)
        );
        line.trim_end().to_owned()
    };
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let properties = properties.iter().map(|(name, property)| {
        let kinds = crate::typed::SchemaTypes::of(property, schema).to_string();
        let kind = if kinds.is_empty() { "anything" } else { &kinds };
        line(name, kind, required(name), &property["description"])
    });
    let arguments = item["arguments"].as_array().into_iter().flatten();
    let arguments = arguments.map(|argument| {
        let name = argument["name"].as_str().unwrap_or("?");
        line(
            name,
            "a string",
            argument["required"] == true,
            &argument["description"],
        )
    });
    properties.chain(arguments).collect()
}
