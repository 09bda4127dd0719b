//! The clients and models to which a tool is offered, and the names under which it is offered.

use maud::{Markup, html};
use pillion_core::registry::RegisteredTool;
use pillion_gateway::access::Scope;
use pillion_gateway::models::Model;
use pillion_gateway::upstream::CallerTools;
use pillion_gateway::visibility::Visibility;

use crate::Console;
use crate::ui::{Tone, badge, card, name, untrusted};
use crate::visitor::Visitor;

/// Maximum number of models that the page of a tool lists.
const MAX_MODELS: usize = 50;

/// Shows for each interface and each model the tool's name, and why the tool is not offered.
pub(super) fn offer_card(
    console: &Console,
    visitor: &Visitor,
    tool: &RegisteredTool,
    caller_tools: Option<&CallerTools>,
) -> Markup {
    let registered_name = tool.name().as_str();
    let short_name = tool.name().short();
    let is_offered_to_clients = {
        let offered_tools = console.gateway.upstreams().tools_for_clients();
        tool.is_offered() && offered_tools.is_offered(registered_name, tool.origin())
    };
    let needs_approval = console.gateway.executor().requires_approval(tool);
    let models = console.gateway.models();
    let omitted_models = models.iter().count().saturating_sub(MAX_MODELS);
    let row = |receiver: Markup, tool_name: &str, state: Markup| {
        html! { tr { th scope="row" { (receiver) } td { (name(tool_name)) } td { (state) } } }
    };
    let offered = || badge(Tone::Good, "offered");
    let not_offered = |reason: &str| html! { (badge(Tone::Neutral, "not offered")) " " (reason) };
    card(
        "Who gets the tool",
        None,
        html! {
            div .scroll { table {
                thead { tr { th { "For" } th { "Name" } th { "State" } } }
                tbody {
                    (row(html! { "You" }, registered_name, visitor_state(visitor, needs_approval)))
                    (row(html! { "REST API, command line and PHP" }, registered_name, if tool.is_offered() { offered() } else { not_offered("The tool is in no list, and can be called by its name.") }))
                    (row(html! { "MCP clients" }, &mcp_name(console, tool, caller_tools), if is_offered_to_clients { offered() } else { not_offered("mcp.tools does not contain the tool.") }))
                    @if *short_name != *registered_name {
                        (row(html! { "Model providers that accept at most 64 characters" }, &short_name, offered()))
                    }
                    @for model in models.iter().take(MAX_MODELS) {
                        (row(html! { "Model " (untrusted(&model.config.id)) }, registered_name, model_state(model, tool)))
                    }
                }
            } }
            @if models.iter().next().is_none() { div .content { p .muted { "No models are configured, so only clients call the tool." } } }
            @if omitted_models > 0 { div .content { p .muted { "and " (omitted_models) " more models" } } }
        },
    )
}

/// Shows whether the visitor can run the tool, and why not.
fn visitor_state(visitor: &Visitor, needs_approval: bool) -> Markup {
    html! {
        @if visitor.may(Scope::Execute) {
            (badge(Tone::Good, "can run"))
            @if needs_approval { " Each call needs an approval." }
        } @else {
            (badge(Tone::Neutral, "can see"))
            " To run the tool, your sign-in needs the scope 'execute'"
            @if visitor.is_read_only() { ", and the console must not be read-only" }
            "."
        }
    }
}

fn model_state(model: &Model, tool: &RegisteredTool) -> Markup {
    let tool_name = tool.name().as_str();
    let visibility = Visibility::default().for_model(model.config.clone());
    let is_offered = tool.is_offered() && visibility.admits(tool, tool_name);
    let reason = model.config.tools.admit(tool_name, tool.origin()).err();
    html! {
        @if is_offered {
            (badge(Tone::Good, "offered"))
        } @else {
            (badge(Tone::Neutral, "not offered"))
            @if let Some(reason) = reason { " " (reason) "." }
        }
    }
}

/// Returns the name under which MCP clients see the tool: without the prefix of its server, if no
/// other tool can have that name.
fn mcp_name(
    console: &Console,
    tool: &RegisteredTool,
    caller_tools: Option<&CallerTools>,
) -> String {
    let upstreams = console.gateway.upstreams();
    let own_tool =
        caller_tools.and_then(|tools| Some((tools, tools.listed_tools.get(tool.name())?)));
    let unprefixed_name = match own_tool {
        Some((tools, own_tool)) => tools
            .allows_unprefixed_name(upstreams, own_tool)
            .then(|| own_tool.remote_name().to_owned()),
        None => upstreams
            .tools()
            .get(tool.name())
            .filter(|shared_tool| upstreams.allows_unprefixed_name(shared_tool))
            .map(|shared_tool| shared_tool.remote_name().to_owned()),
    };
    unprefixed_name.unwrap_or_else(|| tool.name().to_string())
}
