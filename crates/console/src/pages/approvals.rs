//! The calls that wait for approval: a list, and a page for each call on which it is decided.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillion_core::store::Verdict;
use pillion_gateway::access::Scope;
use pillion_management::approvals::{self, ApprovalQuery, NewDecision};
use pillion_management::page::PageQuery;
use pillion_management::pins::{self, PinnedTool};
use pillion_wire::{ApprovalEntry, PinResponse};
use serde_json::value::RawValue;

use super::changes::{change_table, pin_url};
use super::{PageResult, redirect_to};
use crate::Console;
use crate::error::Result;
use crate::form::{FormFields, QueryFields};
use crate::ui::{
    Field, FormControl, Page, Tone, card, copyable, empty_state, encode_segment, facts,
    hidden_fields, json, name, notice, pagination, shows_all_of, status_badge, time, untrusted,
    untrusted_beginning, user, with_query,
};
use crate::visitor::{Section, Visitor};

/// Maximum length of the arguments in a row of the list, in bytes.
const MAX_LISTED_BYTES: usize = 160;

/// The states that the list can be restricted to.
const STATES: [(&str, &str); 5] = [
    ("pending", "Waiting"),
    ("approved", "Approved"),
    ("denied", "Denied"),
    ("expired", "Expired"),
    ("all", "All"),
];

pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let state = query.text("status").unwrap_or("pending");
    let (tool, after) = (query.text("tool"), query.text("after"));
    let filter = ApprovalQuery {
        status: (state != "all").then(|| state.to_owned()),
        tool: tool.map(str::to_owned),
        user: query.text("user").map(str::to_owned),
    };
    let approvals = approvals::list(
        &console.gateway,
        visitor.grant(),
        &filter,
        PageQuery::after(after),
    )
    .await?;
    let page_url = |after: Option<&str>| {
        let filters = [
            ("status", Some(state)),
            ("tool", tool),
            ("user", query.text("user")),
            ("after", after),
        ];
        let pairs = filters
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        with_query(&visitor.href("approvals"), pairs)
    };
    let next = approvals.next.as_deref().map(|next| page_url(Some(next)));
    let body = html! {
        form .filters method="get" {
            (Field::new("status", "Status", FormControl::Select { value: state, options: STATES.to_vec() }).render())
            (Field::text("tool", "Tool", tool.unwrap_or_default()).render())
            button type="submit" { "Show" }
        }
        section #approvals .card data-live-part {
            @if approvals.approvals.is_empty() {
                @if state == "pending" {
                    (empty_state("No call waits for approval", html! { "Which calls need approval is set by " code { "approvals.require_approval" } " and by " code { "require_approval" } " of a server or a tool." }))
                } @else {
                    (empty_state("No such approvals", html! { "Choose another status." }))
                }
            } @else {
                div .scroll { table {
                    thead { tr { th { "Created" } th { "Status" } th { "Tool" } th { "For" } th { "Arguments" } } }
                    tbody { @for approval in &approvals.approvals { (row(&visitor, approval)) } }
                } }
                (pagination(after.map(|_| page_url(None)), next))
            }
        }
    };
    let page = Page::new("Approvals", Section::Approvals, body).with_live("approval");
    Ok(page.render(&visitor))
}

fn row(visitor: &Visitor, approval: &ApprovalEntry) -> Markup {
    let page = visitor.href(&format!("approvals/{}", encode_segment(&approval.id)));
    html! {
        tr data-row {
            td .time { (time(&approval.created_at)) }
            td { (status_badge(&approval.status)) }
            th scope="row" { a href=(page) { (name(&approval.tool)) } @if let Some(server) = &approval.server { " " span .muted.small { (untrusted(server)) } } }
            td { (requester(approval)) }
            td { @match &approval.arguments { Some(arguments) => (untrusted_beginning(arguments.get(), MAX_LISTED_BYTES)), None => span .muted { "long" } } }
        }
    }
}

/// Shows on whose behalf the call runs: the user, or else the principal.
fn requester(approval: &ApprovalEntry) -> Markup {
    let principal = approval.principal.as_deref().unwrap_or("unknown");
    user(approval.user.as_deref(), approval.user_is_verified)
        .unwrap_or_else(|| untrusted(principal))
}

pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    QueryFields(query): QueryFields,
) -> PageResult {
    let approval = approvals::find(&console.gateway, visitor.grant(), &id).await?;
    let draft = Draft {
        shows_all: query.get("all").is_some(),
        ..Draft::default()
    };
    Ok(approval_page(&console, &visitor, &approval, &draft).await)
}

/// What the visitor has typed into the form, and why it was rejected.
#[derive(Default)]
struct Draft<'a> {
    reason: &'a str,
    arguments: Option<&'a str>,
    fault: Option<String>,
    /// Whether the page shows long arguments completely.
    shows_all: bool,
}

pub(super) async fn decide(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Approve)?;
    let reason = form.get("reason").unwrap_or_default();
    let edited_arguments = form.get("arguments");
    let verdict = match form.get("decision") {
        Some("approve" | "edit") => Verdict::Approved,
        _ => Verdict::Denied,
    };
    let is_edited = form.get("decision") == Some("edit");
    let decision = match is_edited
        .then(|| parse_arguments(edited_arguments))
        .transpose()
    {
        Ok(arguments) => NewDecision {
            verdict,
            user: visitor.user().map(str::to_owned),
            reason: Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty()),
            arguments,
        },
        Err(fault) => {
            let approval = approvals::find(&console.gateway, visitor.grant(), &id).await?;
            let draft = Draft {
                reason,
                arguments: edited_arguments,
                fault: Some(fault),
                ..Draft::default()
            };
            let page = approval_page(&console, &visitor, &approval, &draft).await;
            return Ok((StatusCode::BAD_REQUEST, page).into_response());
        }
    };
    match approvals::decide(&console.gateway, visitor.grant(), &id, decision).await {
        Ok(_) => Ok(redirect_to(
            &visitor.href(&format!("approvals/{}", encode_segment(&id))),
        )),
        Err(error) if error.status().is_client_error() => {
            let approval = approvals::find(&console.gateway, visitor.grant(), &id).await?;
            let draft = Draft {
                reason,
                arguments: is_edited.then_some(edited_arguments).flatten(),
                fault: Some(error.to_string()),
                ..Draft::default()
            };
            let page = approval_page(&console, &visitor, &approval, &draft).await;
            Ok((error.status(), page).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

fn parse_arguments(text: Option<&str>) -> Result<pillion_core::tool::JsonObject, String> {
    serde_json::from_str(text.unwrap_or_default())
        .map_err(|error| format!("The arguments are not a JSON object: {error}"))
}

/// Returns the pin of the tool that a call names, or `None` if the tool has none.
async fn find_pin(
    console: &Console,
    visitor: &Visitor,
    approval: &ApprovalEntry,
) -> Result<Option<PinResponse>> {
    let Some(server) = approval.server.as_deref() else {
        return Ok(None);
    };
    let (gateway, grant) = (&console.gateway, visitor.grant());
    let prefix = gateway.tool_prefix(server);
    let unprefixed_name = approval.tool.strip_prefix(prefix);
    let registered_tools = gateway.upstreams().tools();
    let tool = match registered_tools.get(approval.tool.as_str()) {
        Some(tool) => tool.remote_name(),
        None => unprefixed_name.unwrap_or(&approval.tool),
    };
    // The tool has a pin of the user if the server lists its tools for each user.
    for user in [None, approval.user.as_deref()] {
        let pinned_tool = PinnedTool { server, tool, user };
        match pins::find(gateway, grant, pinned_tool).await {
            Ok(pin) => return Ok(Some(pin)),
            Err(error) if error.status() == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Shows whether the definition of the called tool has changed since it was accepted.
fn definition_card(visitor: &Visitor, pin: &Result<Option<PinResponse>>) -> Markup {
    let content = match pin {
        Err(error) => html! {
            div .content { (notice(Tone::Warning, html! { "The accepted definition cannot be read: " (untrusted(&error.to_string())) })) }
        },
        Ok(None) => html! {
            div .content { p .muted { "The definition of this tool is not pinned. Pillion pins only tools of MCP servers." } }
        },
        Ok(Some(response)) => {
            let pin = &response.pin;
            let link = html! { a href=(pin_url(visitor, pin)) { "Show the definition" } };
            html! {
                @match &pin.pending_since {
                    None => div .content { p { "Unchanged since it was accepted on " (time(&pin.accepted_at)) ". " (link) } },
                    Some(since) => {
                        div .content { p { strong { "Changed" } " since " (time(since)) ", and not accepted. " (link) } }
                        (change_table(&response.changes, Some(&pin_url(visitor, pin))).table)
                    }
                }
            }
        }
    };
    card("Definition of the tool", None, content)
}

/// Shows the setting that lets the tool run without an approval, to visitors who manage the
/// sidecar.
fn trust_hint(approval: &ApprovalEntry) -> Markup {
    // A tool name has no characters that a TOML key must quote.
    let settings = format!("[tools.{}]\nrequire_approval = \"never\"", approval.tool);
    html! {
        details {
            summary { "Trust this tool" }
            div .stack {
                p .muted.small { "With this setting in the configuration file, calls of this tool need no approval, unless its definition requires confirmation. Use " code { "pin = \"block\"" } " for its server, so that a changed tool is not trusted." }
                (copyable("trust-settings", &settings))
            }
        }
    }
}

async fn approval_page(
    console: &Console,
    visitor: &Visitor,
    approval: &ApprovalEntry,
    draft: &Draft<'_>,
) -> Markup {
    let pin = find_pin(console, visitor, approval).await;
    let arguments = approval.arguments.as_deref().map_or("{}", RawValue::get);
    let is_pending = approval.status == "pending";
    let all_url = (!draft.shows_all).then_some("?all=1");
    let forwarded = approval.forwarded.as_deref().map_or("", RawValue::get);
    let is_complete = [arguments, forwarded]
        .iter()
        .all(|text| shows_all_of(text, all_url));
    let call_link = |id: &String| html! { a href=(visitor.href(&format!("calls/{}", encode_segment(id)))) { (name(id)) } };
    let details = facts([
        ("Status", Some(status_badge(&approval.status))),
        (
            "Tool",
            Some(
                html! { a href=(visitor.href(&format!("tools/{}", encode_segment(&approval.tool)))) { (name(&approval.tool)) } },
            ),
        ),
        ("Server", approval.server.as_deref().map(untrusted)),
        (
            "User",
            user(approval.user.as_deref(), approval.user_is_verified),
        ),
        ("Principal", approval.principal.as_deref().map(untrusted)),
        ("Channel", approval.channel.as_deref().map(untrusted)),
        ("Call", approval.call_id.as_ref().map(call_link)),
        ("Created", Some(time(&approval.created_at))),
        ("Expires", is_pending.then(|| time(&approval.expires_at))),
        ("Decided by", approval.decided_by.as_deref().map(untrusted)),
        ("Decided", approval.decided_at.as_deref().map(time)),
        ("Reason", approval.reason.as_deref().map(untrusted)),
        ("Used", approval.used_at.as_deref().map(time)),
    ]);
    let body = html! {
        @if let Some(fault) = &draft.fault { (notice(Tone::Bad, untrusted(fault))) }
        div #approval .columns data-live-part {
            (card("The call", None, html! { div .content { (details) } }))
            div .stack {
                (card("Arguments", None, html! { div .content { (json("shown-arguments", arguments, all_url)) } }))
                @if let Some(approved) = &approval.approved_arguments {
                    (card("Arguments as approved", None, html! { div .content { (json("approved-arguments", approved.get(), all_url)) } }))
                }
                @if let Some(forwarded) = &approval.forwarded {
                    (card("Also sent to the server", None, html! { div .content { (json("forwarded", forwarded.get(), all_url)) } }))
                }
            }
        }
        @if is_pending { (definition_card(visitor, &pin)) }
        @if is_pending && visitor.may(Scope::Approve) { (decision_form(visitor, approval, arguments, draft, is_complete)) }
    };
    let page = Page::new("Approval", Section::Approvals, body).with_live("approval");
    page.render(visitor)
}

/// Shows the buttons that decide on a call. Only a call that the page shows completely can be
/// approved.
fn decision_form(
    visitor: &Visitor,
    approval: &ApprovalEntry,
    arguments: &str,
    draft: &Draft<'_>,
    is_complete: bool,
) -> Markup {
    let action = visitor.href(&format!("approvals/{}", encode_segment(&approval.id)));
    let edited_arguments = draft
        .arguments
        .map_or_else(|| crate::ui::indented(arguments), str::to_owned);
    let form = html! {
        form .content method="post" action=(action) {
            (hidden_fields(visitor))
            // The default button of the form is disabled, so that Enter in a field decides nothing.
            button type="submit" disabled hidden {}
            (Field::text("reason", "Reason", draft.reason).with_hint("Recorded with the decision. The caller of a denied call sees the reason.").render())
            div .row {
                @if is_complete {
                    button .primary type="submit" name="decision" value="approve" data-key="a" { "Approve once" }
                } @else if draft.shows_all {
                    span { "The call is too long for a page: approve it over the REST API." }
                } @else {
                    a .button href="?all=1" { "Show all, to approve the call" }
                }
                button .danger type="submit" name="decision" value="deny" data-key="d" { "Deny" }
                span .muted.small { kbd { "a" } " and " kbd { "d" } " select a button, " kbd { "Enter" } " presses it" }
            }
            @if is_complete || draft.arguments.is_some() { details open[draft.arguments.is_some()] {
                summary { "Change the arguments" }
                div .stack {
                    (Field::new("arguments", "Arguments", FormControl::Json { value: &edited_arguments, rows: 12 }).with_hint("Leave redacted values as shown: the call runs with the original values.").render())
                    div { button type="submit" name="decision" value="edit" { "Approve with these arguments" } }
                }
            } }
            @if visitor.may(Scope::Admin) { (trust_hint(approval)) }
        }
    };
    card("Decision", None, form)
}
