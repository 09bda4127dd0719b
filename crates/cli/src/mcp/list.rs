use std::process::ExitCode;

use serde_json::{Map, Value};

use super::error::{McpCommandError, McpUsageError};
use super::offer::{OfferItems, OfferKind};
use super::options::Options;
use super::plain;
use super::positional_arguments::PositionalArguments;
use super::server::ServerConnection;
use crate::output::print;
use crate::typed::SchemaTypes;

/// `pillion mcp list`
pub(super) async fn run(
    mut positional: PositionalArguments,
    options: &Options,
) -> Result<ExitCode, McpCommandError> {
    let first = positional.take_first(OfferKind::parse);
    let mut resolved = positional.resolve(options)?;
    let kind = match (first, resolved.next_word()) {
        (first, None) => first,
        (None, Some(word)) => match OfferKind::parse(&word) {
            Some(kind) => Some(kind),
            None => return Err(McpUsageError::UnknownKind { word }.into()),
        },
        (Some(_), Some(word)) => return Err(McpUsageError::TooMany { word }.into()),
    };
    resolved.reject_extra_words()?;
    let server = ServerConnection::new(resolved.server, options).await?;
    let lists = server
        .run_until_done(Box::pin(fetch_lists(&server, kind)))
        .await?;
    if options.json {
        print(&as_json(&lists))?;
        return Ok(ExitCode::SUCCESS);
    }
    let has_headings = kind.is_none();
    let texts: Vec<_> = lists
        .iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(kind, items)| as_text(*kind, items, has_headings, options.verbose))
        .collect();
    if !texts.is_empty() {
        print(&texts.join("\n\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the list of this kind, or all lists that the server offers.
async fn fetch_lists(
    server: &ServerConnection,
    kind: Option<OfferKind>,
) -> Result<Vec<(OfferKind, OfferItems)>, McpCommandError> {
    let connection = server.connection().await?;
    let kinds = OfferKind::ALL.into_iter().filter(|one| match kind {
        Some(kind) => *one == kind,
        None => one.is_offered(&connection),
    });
    let mut lists = Vec::new();
    for kind in kinds {
        let items = kind
            .list(server)
            .await
            .map_err(|source| server.request_error(source))?;
        lists.push((kind, items));
    }
    Ok(lists)
}

/// Returns a JSON object with the keys of the protocol and the unchanged items of the server.
fn as_json(lists: &[(OfferKind, OfferItems)]) -> String {
    let list = |(kind, items): &(OfferKind, OfferItems)| {
        let items: Vec<_> = items.iter().map(|item| item.get()).collect();
        format!("\"{}\":[{}]", kind.key(), items.join(","))
    };
    let members: Vec<_> = lists.iter().map(list).collect();
    format!("{{{}}}", members.join(","))
}

/// Formats one line per item: its name or URI, and the first line of its description.
fn as_text(kind: OfferKind, items: &OfferItems, has_heading: bool, verbose: bool) -> String {
    const MAX_NAME_WIDTH: usize = 40;
    let ids = kind.ids(items);
    let width = ids
        .iter()
        .map(|id| id.chars().count())
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
        let about = ["description", "title", "name"]
            .iter()
            .find_map(|key| item[key].as_str())
            .unwrap_or_default();
        let line = format!("{indent}{id:width$}  {}", plain::summary(about, 200));
        lines.push(line.trim_end().to_owned());
        if verbose {
            let parameters = parameter_lines(&item);
            lines.extend(parameters.iter().map(|line| format!("{indent}    {line}")));
        }
    }
    lines.join("\n")
}

/// Returns one line per parameter of a tool or a prompt.
fn parameter_lines(item: &Value) -> Vec<String> {
    let schema = &item["inputSchema"];
    let is_required = |name: &str| {
        let mut names = schema["required"].as_array().into_iter().flatten();
        names.any(|required| required == name)
    };
    let line = |name: &str, kind: &str, required: bool, about: &Value| {
        let optional = if required { "" } else { ", optional" };
        let (name, kind) = (plain::one_line(name), plain::one_line(kind));
        let summary = plain::summary(about.as_str().unwrap_or_default(), 200);
        let line = format!("{name}: {kind}{optional}  {summary}");
        line.trim_end().to_owned()
    };
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let tool_parameters = properties.iter().map(|(name, property)| {
        let types = SchemaTypes::from_schema(property, schema).to_string();
        let kind = if types.is_empty() { "anything" } else { &types };
        line(name, kind, is_required(name), &property["description"])
    });
    let arguments = item["arguments"].as_array().into_iter().flatten();
    let prompt_arguments = arguments.map(|argument| {
        let name = argument["name"].as_str().unwrap_or("?");
        let is_required = argument["required"] == true;
        line(name, "a string", is_required, &argument["description"])
    });
    tool_parameters.chain(prompt_arguments).collect()
}
