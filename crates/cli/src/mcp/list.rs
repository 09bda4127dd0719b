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
    mut positional_arguments: PositionalArguments,
    options: &Options,
) -> Result<ExitCode, McpCommandError> {
    let first_kind = positional_arguments.take_first(OfferKind::parse);
    let mut resolved_arguments = positional_arguments.resolve(options)?;
    let kind = match (first_kind, resolved_arguments.take_word()) {
        (first_kind, None) => first_kind,
        (None, Some(word)) => match OfferKind::parse(&word) {
            Some(kind) => Some(kind),
            None => return Err(McpUsageError::UnknownKind { word }.into()),
        },
        (Some(_), Some(word)) => return Err(McpUsageError::UnexpectedArgument { word }.into()),
    };
    resolved_arguments.reject_extra_words()?;
    let server = ServerConnection::new(resolved_arguments.server, options).await?;
    let offered_lists = server
        .run_until_done(Box::pin(fetch_lists(&server, kind)))
        .await?;
    if options.json {
        print(&format_lists_as_json(&offered_lists))?;
        return Ok(ExitCode::SUCCESS);
    }
    let has_headings = kind.is_none();
    let texts: Vec<_> = offered_lists
        .iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(kind, items)| format_list(*kind, items, has_headings, options.verbose))
        .collect();
    if !texts.is_empty() {
        print(&texts.join("\n\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the items of `requested_kind`, or of every kind that the server offers if
/// `requested_kind` is `None`.
async fn fetch_lists(
    server: &ServerConnection,
    requested_kind: Option<OfferKind>,
) -> Result<Vec<(OfferKind, OfferItems)>, McpCommandError> {
    let connection = server.fetch_connection_info().await?;
    let kinds = OfferKind::ALL
        .into_iter()
        .filter(|kind| match requested_kind {
            Some(requested_kind) => *kind == requested_kind,
            None => kind.is_offered(&connection),
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

/// Returns the lists as one JSON object. The keys are those of MCP, such as `resourceTemplates`,
/// and the items are unchanged from the server.
fn format_lists_as_json(lists: &[(OfferKind, OfferItems)]) -> String {
    let format_member = |(kind, items): &(OfferKind, OfferItems)| {
        let item_texts: Vec<_> = items.iter().map(|item| item.get()).collect();
        format!("\"{}\":[{}]", kind.key(), item_texts.join(","))
    };
    let members: Vec<_> = lists.iter().map(format_member).collect();
    format!("{{{}}}", members.join(","))
}

/// Formats one line per item: its name or URI, and the first line of its description.
fn format_list(kind: OfferKind, items: &OfferItems, has_heading: bool, is_verbose: bool) -> String {
    const MAX_NAME_WIDTH: usize = 40;
    let ids = kind.ids(items);
    let name_width = ids
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
        let item_json: Value = serde_json::from_str(item.get()).unwrap_or_default();
        let description = ["description", "title", "name"]
            .iter()
            .find_map(|key| item_json[key].as_str())
            .unwrap_or_default();
        let line = format!(
            "{indent}{id:name_width$}  {}",
            plain::summarize(description, 200)
        );
        lines.push(line.trim_end().to_owned());
        if is_verbose {
            let parameters = format_parameters(&item_json);
            lines.extend(parameters.iter().map(|line| format!("{indent}    {line}")));
        }
    }
    lines.join("\n")
}

/// Returns one line per parameter of a tool or a prompt.
fn format_parameters(item: &Value) -> Vec<String> {
    let schema = &item["inputSchema"];
    let is_required_property = |name: &str| {
        let mut names = schema["required"].as_array().into_iter().flatten();
        names.any(|required_name| required_name == name)
    };
    let format_parameter = |name: &str, kind: &str, is_required: bool, description: &Value| {
        let optional_suffix = if is_required { "" } else { ", optional" };
        let (name, kind) = (plain::to_one_line(name), plain::to_one_line(kind));
        let summary = plain::summarize(description.as_str().unwrap_or_default(), 200);
        let line = format!("{name}: {kind}{optional_suffix}  {summary}");
        line.trim_end().to_owned()
    };
    let no_properties = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&no_properties);
    let tool_parameters = properties.iter().map(|(name, property)| {
        let types = SchemaTypes::from_schema(property, schema).to_string();
        let kind = if types.is_empty() { "anything" } else { &types };
        format_parameter(
            name,
            kind,
            is_required_property(name),
            &property["description"],
        )
    });
    let arguments = item["arguments"].as_array().into_iter().flatten();
    let prompt_arguments = arguments.map(|argument| {
        let name = argument["name"].as_str().unwrap_or("?");
        let is_required = argument["required"] == true;
        format_parameter(name, "a string", is_required, &argument["description"])
    });
    tool_parameters.chain(prompt_arguments).collect()
}
