//! Chats with the configured models: the conversation, its calls and their approvals.

mod conversation;

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use pillion_core::store::Verdict;
use pillion_core::truncated;
use pillion_gateway::access::Scope;
use pillion_gateway::models::Model;
use pillion_management::RequestError;
use pillion_management::approvals::{self, NewDecision};
use pillion_management::chat::{
    self, BackgroundTurn, ChatCaller, ChatRejection, ChatView, ListedChat, NewChat,
};
use pillion_wire::{ApprovalEntry, ChatApproval, ChatResponse};
use serde_json::value::RawValue;

use super::tools::call_context;
use super::{PageResult, redirect_to};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::ui::{
    Field, FormControl, Page, Tone, action_form, badge, card, empty_state, encode_segment, facts,
    fits, hidden_fields, indented, name, notice, number, select_rows, status_badge, time,
    untrusted, untrusted_beginning,
};
use crate::visitor::{Section, Visitor};
use conversation::Conversation;

/// Maximum number of chats on one page of the list.
const CHATS_PER_PAGE: usize = 50;

/// Maximum length of a title, in bytes.
const MAX_TITLE_BYTES: usize = 80;

/// Maximum length of the model's response in the list, in bytes.
const MAX_LISTED_BYTES: usize = 120;

/// Maximum length of an error, in bytes.
const MAX_ERROR_BYTES: usize = 2 * 1024;

/// Maximum number of waiting calls that the page of a chat shows.
const MAX_WAITING_CALLS: usize = 8;

/// Maximum length of the arguments of a waiting call on the page of a chat, in bytes. A call with
/// longer arguments is decided on the page of its approval, which shows all of them.
const MAX_EXACT_BYTES: usize = 2 * 1024;

/// Maximum number of unusable models that a page lists.
const MAX_SHOWN_PROBLEMS: usize = 5;

/// Time that a request waits for the end of a turn. The turn continues after this time, and the
/// page of the chat says that the model is responding.
const TURN_WAIT: Duration = Duration::from_secs(2);

/// The kinds of events after which the page of a chat is loaded again.
const LIVE_KINDS: &str = "chat,call,approval";

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/chats", get(list).post(start))
        .route("/chats/new", get(new))
        .route("/chats/{id}", get(show).post(send))
        .route("/chats/{id}/decide", post(decide))
        .route("/chats/{id}/parts/{number}", get(show_part))
        .route("/chats/{id}/remove", get(confirm_removal).post(remove))
}

fn chat_caller(visitor: &Visitor) -> ChatCaller {
    let (context, visibility) = call_context(visitor);
    ChatCaller {
        context,
        visibility,
    }
}

fn chat_path(id: &str) -> String {
    format!("chats/{}", encode_segment(id))
}

/// Returns the models that can be used for chats, in the order of the configuration.
fn usable_models(console: &Console) -> impl Iterator<Item = &Model> {
    let models = console.gateway.models().iter();
    models.filter(|model| model.client.is_ok())
}

async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    visitor.require_section(Section::Chats)?;
    let has_model = usable_models(&console).next().is_some();
    let chats = chat::list(&console.gateway, &chat_caller(&visitor).context).await;
    let body = html! {
        @if !has_model { section .card { (no_model(&console)) } }
        section #chats .card data-live-part {
            @match &chats {
                Err(error) => div .content { (notice(Tone::Bad, untrusted(&error.to_string()))) },
                Ok(chats) if chats.is_empty() => (no_chats(&visitor, has_model)),
                Ok(chats) => (chat_table(&visitor, &query, chats)),
            }
        }
    };
    let actions = (has_model && visitor.may(Scope::Execute))
        .then(|| html! { a .button.primary href=(visitor.href("chats/new")) { "Start a chat" } });
    let page = Page::new("Chats", Section::Chats, body)
        .with_live("chat")
        .with_actions(actions);
    Ok(page.render(&visitor))
}

/// Says that no model can be used, and which configuration adds one.
fn no_model(console: &Console) -> Markup {
    let models = console.gateway.models().iter();
    let problems = models.filter_map(|model| model.client.as_ref().err());
    let next_step = html! {
        "Add a provider (" code { "[[providers]]" } ") and a model (" code { "[[models]]" }
        ") to the configuration of the sidecar, as described in docs/how-to/providers-and-models.md."
        @for problem in problems.take(MAX_SHOWN_PROBLEMS) { br; (untrusted(&problem.to_string())) }
    };
    empty_state("No model can be used for chats", next_step)
}

fn no_chats(visitor: &Visitor, has_model: bool) -> Markup {
    let next_step = html! {
        @if has_model && visitor.may(Scope::Execute) {
            a href=(visitor.href("chats/new")) { "Start the first one" }
        } @else {
            "Chats that you start here or through the REST API are listed here until they expire."
        }
    };
    empty_state("No chats", next_step)
}

fn chat_table(visitor: &Visitor, query: &FormFields, chats: &[ListedChat]) -> Markup {
    let url = visitor.href("chats");
    let rows = select_rows(chats, CHATS_PER_PAGE, &url, query, "page");
    html! {
        div .scroll { table {
            thead { tr { th { "Chat" } th { "Status" } th { "Model" } th { "Last used" } th { "Response" } } }
            tbody { @for listed_chat in rows.shown { (row(visitor, listed_chat)) } }
        } }
        (rows.links)
    }
}

fn row(visitor: &Visitor, listed_chat: &ListedChat) -> Markup {
    let ListedChat {
        chat,
        title,
        updated_at,
    } = listed_chat;
    html! {
        tr data-row {
            th scope="row" { a href=(visitor.href(&chat_path(&chat.id))) { (untrusted(short_title(title.as_deref()))) } }
            td { (chat_status(&chat.status)) }
            td { (name(&chat.model)) }
            td .time { @if let Some(updated_at) = updated_at { (time(updated_at)) } }
            td {
                @if let Some(error) = &chat.error { (untrusted_beginning(error, MAX_LISTED_BYTES)) }
                @else if let Some(content) = &chat.content { (untrusted_beginning(content, MAX_LISTED_BYTES)) }
            }
        }
    }
}

/// Returns the title of a chat, cut to [`MAX_TITLE_BYTES`].
fn short_title(title: Option<&str>) -> &str {
    match title.map(str::trim) {
        None | Some("") => "Chat",
        Some(title) => truncated(title, MAX_TITLE_BYTES),
    }
}

fn chat_status(status: &str) -> Markup {
    match status {
        "answered" => badge(Tone::Good, "answered"),
        "awaiting_approval" => badge(Tone::Warning, "waits for approval"),
        "running" => badge(Tone::Warning, "running"),
        "failed" | "interrupted" => badge(Tone::Bad, status),
        _ => badge(Tone::Neutral, status),
    }
}

/// The form of a new chat: what was typed, and why it was rejected.
#[derive(Default)]
struct NewChatDraft<'a> {
    model: &'a str,
    system: &'a str,
    message: &'a str,
    has_no_tools: bool,
    /// The name of the rejected field, or an empty name, and the reason.
    fault: Option<(&'static str, String)>,
}

async fn new(State(console): State<Console>, visitor: Visitor) -> PageResult {
    visitor.require(Scope::Execute)?;
    Ok(new_chat_page(&console, &visitor, &NewChatDraft::default()))
}

fn new_chat_page(console: &Console, visitor: &Visitor, draft: &NewChatDraft<'_>) -> Markup {
    let has_model = usable_models(console).next().is_some();
    let body = html! {
        @if has_model {
            (new_chat_form(console, visitor, draft))
        } @else {
            section .card { (no_model(console)) }
        }
    };
    Page::new("Start a chat", Section::Chats, body).render(visitor)
}

fn new_chat_form(console: &Console, visitor: &Visitor, draft: &NewChatDraft<'_>) -> Markup {
    let labels: Vec<_> = usable_models(console)
        .map(|model| (model.config.id.as_str(), model_label(model)))
        .collect();
    let options = labels.iter().map(|(id, label)| (*id, label.as_str()));
    let default_model = console.gateway.models().default();
    let model = match draft.model {
        "" => default_model.map_or("", |model| model.config.id.as_str()),
        model => model,
    };
    let model_control = FormControl::Select {
        value: model,
        options: options.collect(),
    };
    let tools_control = FormControl::Select {
        value: if draft.has_no_tools { "off" } else { "on" },
        options: vec![
            ("on", "On: the model may call tools"),
            ("off", "Off: the model only answers"),
        ],
    };
    let fault = |field: &str| {
        let fault = draft.fault.as_ref();
        fault
            .filter(|(name, _)| *name == field)
            .map(|(_, reason)| reason.as_str())
    };
    html! {
        @if let Some(reason) = fault("") { (notice(Tone::Bad, untrusted_beginning(reason, MAX_ERROR_BYTES))) }
        section .card { form .content method="post" action=(visitor.href("chats")) {
            (hidden_fields(visitor))
            (Field::new("model", "Model", model_control).with_fault(fault("model")).render())
            (Field::new("system", "System prompt", FormControl::Lines { value: draft.system }).with_hint("Optional: instructions that the model follows in the whole chat.").render())
            (Field::new("tools", "Tools", tools_control).with_hint("The model sees the tools that both you and the model may use. Calls that need approval wait for a decision.").render())
            (Field::new("message", "Message", FormControl::Lines { value: draft.message }).with_fault(fault("message")).render())
            div { button .primary type="submit" { "Send" } }
        } }
    }
}

/// Returns the name of a model, and which tools the model may see.
fn model_label(model: &Model) -> String {
    let config = &model.config;
    let tools = match (config.tools.function_calling, config.tools.mcp) {
        (false, _) => "no tools",
        (true, false) => "tools, but none of MCP servers",
        (true, true) => "tools, also of MCP servers",
    };
    let label = config.label.as_deref().unwrap_or(&config.id);
    format!("{label}: {tools}")
}

/// Returns a text of a form with the line breaks of Unix. Browsers send CRLF.
fn read_text(form: &FormFields, field: &str) -> Option<String> {
    let text = form.get(field)?.replace("\r\n", "\n");
    Some(text).filter(|text| !text.trim().is_empty())
}

async fn start(
    State(console): State<Console>,
    visitor: Visitor,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Execute)?;
    let mut draft = NewChatDraft {
        model: form.text("model").unwrap_or_default(),
        system: form.get("system").unwrap_or_default(),
        message: form.get("message").unwrap_or_default(),
        has_no_tools: form.get("tools") == Some("off"),
        fault: None,
    };
    let system = read_text(&form, "system");
    let Some(message) = read_text(&form, "message") else {
        draft.fault = Some(("message", "Write a message.".to_owned()));
        let page = new_chat_page(&console, &visitor, &draft);
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response());
    };
    let model = Some(draft.model).filter(|model| !model.is_empty());
    let new_chat = NewChat::with_message(model, system.as_deref(), &message, !draft.has_no_tools);
    let begin_future = chat::begin_in_background(&console.gateway, chat_caller(&visitor), new_chat);
    match Box::pin(begin_future).await {
        Ok(turn) => Ok(show_turn(&visitor, turn).await),
        Err(rejection) => {
            let field = match rejection {
                ChatRejection::NoModel
                | ChatRejection::UnknownModel { .. }
                | ChatRejection::Model(_) => "model",
                _ => "",
            };
            let error = RequestError::from(rejection);
            draft.fault = Some((field, error.to_string()));
            let page = new_chat_page(&console, &visitor, &draft);
            Ok((error.status(), page).into_response())
        }
    }
}

/// Waits for the end of a turn, up to [`TURN_WAIT`], and redirects to the page of the chat.
async fn show_turn(visitor: &Visitor, turn: BackgroundTurn) -> Response {
    let path = chat_path(turn.chat_id());
    turn.wait(TURN_WAIT).await;
    redirect_to(&visitor.href(&format!("{path}#latest")))
}

async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    QueryFields(query): QueryFields,
) -> PageResult {
    visitor.require_section(Section::Chats)?;
    let before = query.text("before").and_then(|before| before.parse().ok());
    let reply = Reply {
        before,
        ..Reply::default()
    };
    chat_page(&console, &visitor, &id, &reply).await
}

/// The form that continues a chat: what was typed, and why it was rejected.
#[derive(Default)]
struct Reply<'a> {
    message: &'a str,
    /// Why the message was rejected.
    fault: Option<String>,
    /// Why another request was rejected.
    error: Option<String>,
    /// The index of the part before which the page ends.
    before: Option<usize>,
}

/// A call that waits for approval.
struct WaitingCall<'a> {
    call: &'a ChatApproval,
    /// The approval, if the visitor may see the approval.
    approval: Option<ApprovalEntry>,
}

impl WaitingCall<'_> {
    /// Returns whether the call can still be approved or denied.
    fn is_pending(&self) -> bool {
        let approval = self.approval.as_ref();
        approval.is_some_and(|approval| approval.status == "pending")
    }
}

/// Returns the calls of a chat that wait for approval, with their approvals.
async fn find_waiting_calls<'a>(
    console: &Console,
    visitor: &Visitor,
    chat: &'a ChatResponse,
) -> Vec<WaitingCall<'a>> {
    let mut waiting_calls = Vec::with_capacity(chat.approvals.len());
    for call in &chat.approvals {
        // Without its approval, the call is shown, but cannot be decided here.
        let approval = match &call.id {
            Some(id) => {
                let approval = approvals::find(&console.gateway, visitor.grant(), id).await;
                approval.ok()
            }
            None => None,
        };
        waiting_calls.push(WaitingCall { call, approval });
    }
    waiting_calls
}

async fn chat_page(
    console: &Console,
    visitor: &Visitor,
    id: &str,
    reply: &Reply<'_>,
) -> PageResult {
    let context = chat_caller(visitor).context;
    let view = chat::view(&console.gateway, &context, id).await?;
    let waiting_calls = find_waiting_calls(console, visitor, &view.chat).await;
    let path = chat_path(&view.chat.id);
    let conversation = Conversation {
        root: visitor.root(),
        chat_id: &view.chat.id,
        parts: &view.parts,
    };
    let body = html! {
        @if let Some(error) = &reply.error { (notice(Tone::Bad, untrusted_beginning(error, MAX_ERROR_BYTES))) }
        section #facts .card data-live-part { div .content { (chat_facts(&view)) } }
        (card("Conversation", None, html! { div #conversation .content data-live-part { (conversation.render(reply.before)) } }))
        div #waiting-calls data-live-part {
            @if !waiting_calls.is_empty() { (waiting_card(visitor, &path, &waiting_calls)) }
        }
        div #latest data-live-part { (chat_state(visitor, &path, &view.chat, &waiting_calls)) }
        @if visitor.may(Scope::Execute) { (reply_form(visitor, &path, reply)) }
    };
    let actions = visitor
        .may(Scope::Execute)
        .then(|| html! { a .button href=(visitor.href(&format!("{path}/remove"))) { "Remove …" } });
    let page = Page::new(short_title(view.title.as_deref()), Section::Chats, body);
    Ok(page
        .with_live(LIVE_KINDS)
        .with_actions(actions)
        .render(visitor))
}

fn chat_facts(view: &ChatView) -> Markup {
    let ChatView {
        chat, created_at, ..
    } = view;
    let usage = &chat.usage;
    let tools = if view.may_use_tools { "on" } else { "off" };
    let tokens = html! {
        (number(usage.input_tokens)) " read, " (number(usage.output_tokens)) " written, in "
        (crate::ui::count(usage.requests, "request"))
    };
    facts([
        ("Status", Some(chat_status(&chat.status))),
        ("Model", Some(name(&chat.model))),
        ("Tools", Some(html! { (tools) })),
        ("Started", Some(time(created_at))),
        ("Last used", Some(time(&view.updated_at))),
        ("Tokens", Some(tokens)),
    ])
}

/// Shows the calls that wait for approval, with buttons to decide on them.
fn waiting_card(visitor: &Visitor, path: &str, waiting_calls: &[WaitingCall<'_>]) -> Markup {
    let omitted_count = waiting_calls.len().saturating_sub(MAX_WAITING_CALLS);
    let content = html! {
        div .content {
            @for waiting_call in waiting_calls.iter().take(MAX_WAITING_CALLS) {
                (render_waiting_call(visitor, path, waiting_call))
            }
            @if omitted_count > 0 {
                p { (number(omitted_count as u64)) " more: decide on them under " a href=(visitor.href("approvals")) { "Approvals" } "." }
            }
        }
    };
    card("Calls that wait for approval", None, content)
}

fn render_waiting_call(visitor: &Visitor, path: &str, waiting_call: &WaitingCall<'_>) -> Markup {
    let call = waiting_call.call;
    let tool = truncated(&call.tool, MAX_TITLE_BYTES);
    let Some(approval) = &waiting_call.approval else {
        let arguments = call.arguments.to_string();
        return html! {
            div .stack {
                p { (name(tool)) " " (badge(Tone::Neutral, "the approval cannot be shown")) }
                pre .json tabindex="0" { (untrusted_beginning(&arguments, MAX_EXACT_BYTES)) }
            }
        };
    };
    let arguments = indented(approval.arguments.as_deref().map_or("{}", RawValue::get));
    let forwarded_json = approval.forwarded.as_deref().map(RawValue::get);
    let forwarded = forwarded_json.map(indented).unwrap_or_default();
    let is_complete = [&arguments, &forwarded]
        .iter()
        .all(|text| fits(text, MAX_EXACT_BYTES));
    let approval_page = visitor.href(&format!("approvals/{}", encode_segment(&approval.id)));
    html! {
        div .stack {
            p { (name(tool)) " " (status_badge(&approval.status)) @if let Some(server) = &approval.server { " " span .muted.small { (untrusted(server)) } } }
            pre .json tabindex="0" { (untrusted_beginning(&arguments, MAX_EXACT_BYTES)) }
            @if !forwarded.is_empty() {
                p .muted.small { "Also sent to the server" }
                pre .json tabindex="0" { (untrusted_beginning(&forwarded, MAX_EXACT_BYTES)) }
            }
            div .row {
                @if waiting_call.is_pending() && is_complete && visitor.may(Scope::Approve) {
                    form .row method="post" action=(visitor.href(&format!("{path}/decide"))) {
                        (hidden_fields(visitor))
                        input type="hidden" name="approval" value=(approval.id);
                        button .primary type="submit" name="decision" value="approve" { "Approve once" }
                        button .danger type="submit" name="decision" value="deny" { "Deny" }
                    }
                }
                a href=(approval_page) {
                    @if is_complete { "Open the approval" } @else { "Show all arguments, and decide" }
                }
            }
        }
    }
}

/// Shows the state of the chat, and a button that continues a chat that has stopped without a
/// response.
fn chat_state(
    visitor: &Visitor,
    path: &str,
    chat: &ChatResponse,
    waiting_calls: &[WaitingCall<'_>],
) -> Markup {
    let continue_form = |label: &str| {
        html! { @if visitor.may(Scope::Execute) { " " (action_form(visitor, path, label, "")) } }
    };
    match chat.status.as_str() {
        "running" => notice(
            Tone::Neutral,
            html! { "The model is responding … " a href=(visitor.href(path)) { "Reload" } },
        ),
        "failed" => {
            let error = chat.error.as_deref().unwrap_or("The chat has failed.");
            let message = html! {
                (untrusted_beginning(error, MAX_ERROR_BYTES))
                @if let Some(code) = &chat.error_code { " " (name(code)) }
                @if let Some(seconds) = chat.retry_after { " Try again in " (crate::ui::millis(seconds * 1e3)) "." }
                (continue_form("Try again"))
            };
            notice(Tone::Bad, message)
        }
        "interrupted" => notice(
            Tone::Warning,
            html! { "The last turn has stopped without a response." (continue_form("Continue")) },
        ),
        "awaiting_approval" if waiting_calls.iter().any(WaitingCall::is_pending) => notice(
            Tone::Warning,
            html! { "The chat continues after the decision on its calls." },
        ),
        "awaiting_approval" => notice(
            Tone::Neutral,
            html! { "The calls of the chat were decided or have expired." (continue_form("Continue")) },
        ),
        _ => html! {
            @if let Some(limit) = &chat.limit_reached {
                (notice(Tone::Warning, html! { "The model had to answer because the limit " (name(limit)) " was reached." }))
            }
            @if let Some(reason) = chat.finish_reason.as_deref().filter(|reason| *reason != "stop") {
                (notice(Tone::Warning, html! { "The response ended early: " (name(reason)) }))
            }
        },
    }
}

fn reply_form(visitor: &Visitor, path: &str, reply: &Reply<'_>) -> Markup {
    let control = FormControl::Lines {
        value: reply.message,
    };
    let form = html! {
        form .content method="post" action=(visitor.href(path)) {
            (hidden_fields(visitor))
            (Field::new("message", "Message", control).with_fault(reply.fault.as_deref()).render())
            div { button .primary type="submit" { "Send" } }
        }
    };
    card("Continue the chat", None, form)
}

async fn send(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Execute)?;
    let typed_message = form.get("message");
    let message = read_text(&form, "message");
    let mut reply = Reply {
        message: typed_message.unwrap_or_default(),
        ..Reply::default()
    };
    // The buttons that continue a chat without a message send no such field.
    if typed_message.is_some() && message.is_none() {
        reply.fault = Some("Write a message.".to_owned());
        return reply_page(
            &console,
            &visitor,
            &id,
            &reply,
            StatusCode::UNPROCESSABLE_ENTITY,
        )
        .await;
    }
    let resume_future = chat::resume_in_background(
        &console.gateway,
        chat_caller(&visitor),
        &id,
        message.as_deref(),
    );
    match Box::pin(resume_future).await {
        Ok(turn) => Ok(show_turn(&visitor, turn).await),
        Err(rejection) => {
            let error = RequestError::from(rejection);
            let reason = Some(error.to_string());
            if typed_message.is_some() {
                reply.fault = reason;
            } else {
                reply.error = reason;
            }
            reply_page(&console, &visitor, &id, &reply, error.status()).await
        }
    }
}

/// Shows the page of a chat after a rejected request. If the chat cannot be shown either, shows
/// only the form, so that the typed message is not lost.
async fn reply_page(
    console: &Console,
    visitor: &Visitor,
    id: &str,
    reply: &Reply<'_>,
    status: StatusCode,
) -> Result<Response> {
    let page = match Box::pin(chat_page(console, visitor, id, reply)).await {
        Ok(page) => page,
        Err(error) if reply.message.is_empty() => return Err(error),
        Err(_) => {
            let form = reply_form(visitor, &chat_path(id), reply);
            Page::new("Chat", Section::Chats, form).render(visitor)
        }
    };
    Ok((status, page).into_response())
}

async fn decide(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Approve)?;
    let verdict = match form.get("decision") {
        Some("approve") => Verdict::Approved,
        Some("deny") => Verdict::Denied,
        _ => return Err(PageError::InvalidForm("it has no decision")),
    };
    let requested_id = form.get("approval");
    let context = chat_caller(&visitor).context;
    let view = chat::view(&console.gateway, &context, &id).await?;
    let mut calls = view.chat.approvals.iter();
    let belongs_to_chat = calls.any(|call| call.id.is_some() && call.id.as_deref() == requested_id);
    let approval_id = requested_id
        .filter(|_| belongs_to_chat)
        .ok_or(PageError::NotFound(
            "The chat no longer waits for this approval.",
        ))?;
    let decision = NewDecision {
        verdict,
        user: visitor.user().map(str::to_owned),
        reason: None,
        arguments: None,
    };
    let decision_future =
        approvals::decide(&console.gateway, visitor.grant(), approval_id, decision);
    if let Err(error) = Box::pin(decision_future).await {
        let reply = Reply {
            error: Some(error.to_string()),
            ..Reply::default()
        };
        return reply_page(&console, &visitor, &id, &reply, error.status()).await;
    }
    let waiting_calls = find_waiting_calls(&console, &visitor, &view.chat).await;
    if waiting_calls.iter().any(WaitingCall::is_pending) {
        return Ok(redirect_to(&visitor.href(&chat_path(&id))));
    }
    let resume_future =
        chat::resume_in_background(&console.gateway, chat_caller(&visitor), &id, None);
    match Box::pin(resume_future).await {
        Ok(turn) => Ok(show_turn(&visitor, turn).await),
        // Another request waits for the decision, and continues the chat.
        Err(ChatRejection::Busy { .. }) => Ok(redirect_to(&visitor.href(&chat_path(&id)))),
        Err(rejection) => {
            let error = RequestError::from(rejection);
            let reply = Reply {
                error: Some(error.to_string()),
                ..Reply::default()
            };
            reply_page(&console, &visitor, &id, &reply, error.status()).await
        }
    }
}

async fn show_part(
    State(console): State<Console>,
    visitor: Visitor,
    Path((id, number)): Path<(String, usize)>,
    QueryFields(query): QueryFields,
) -> PageResult {
    visitor.require_section(Section::Chats)?;
    let context = chat_caller(&visitor).context;
    let view = chat::view(&console.gateway, &context, &id).await?;
    let from = query.text("from").and_then(|from| from.parse().ok());
    let part = view.parts.get(number);
    let text = part
        .and_then(|part| conversation::render_single(part, from.unwrap_or(0)))
        .ok_or(PageError::NotFound("The chat has no such text."))?;
    let back = html! { a .button href=(visitor.href(&chat_path(&id))) { "Back to the chat" } };
    let body = card("Text", None, html! { div .content { (text) } });
    let title = format!("Part {} of the chat", number.saturating_add(1));
    let page = Page::new(&title, Section::Chats, body).with_actions(back);
    Ok(page.render(&visitor))
}

async fn confirm_removal(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> PageResult {
    visitor.require(Scope::Execute)?;
    let context = chat_caller(&visitor).context;
    let view = chat::view(&console.gateway, &context, &id).await?;
    let path = chat_path(&view.chat.id);
    let body = html! {
        section .card { div .content {
            p { "Removes the chat " strong { (untrusted(short_title(view.title.as_deref()))) } " with all its messages. The call log keeps the records of its calls." }
            div .row {
                (action_form(&visitor, &format!("{path}/remove"), "Remove the chat", "danger"))
                a .button href=(visitor.href(&path)) { "Keep it" }
            }
        } }
    };
    Ok(Page::new("Remove a chat", Section::Chats, body).render(&visitor))
}

async fn remove(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response> {
    visitor.require(Scope::Execute)?;
    let context = chat_caller(&visitor).context;
    chat::forget(&console.gateway, &context, &id).await?;
    Ok(redirect_to(&visitor.href("chats")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_without_a_message_of_the_user_has_a_title() {
        assert_eq!(short_title(None), "Chat");
        assert_eq!(short_title(Some(" \n")), "Chat");
        assert_eq!(short_title(Some(&"ä".repeat(80))), "ä".repeat(40));
    }

    #[test]
    fn a_message_has_the_line_breaks_of_unix() {
        let form = FormFields::parse(b"message=a%0D%0Ab&blank=%0D%0A+").unwrap();
        assert_eq!(read_text(&form, "message").as_deref(), Some("a\nb"));
        assert_eq!(read_text(&form, "blank"), None);
        assert_eq!(read_text(&form, "absent"), None);
    }
}
