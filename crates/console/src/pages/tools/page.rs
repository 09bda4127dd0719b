//! The page of a tool.

use axum::extract::{Path, State};
use maud::{Markup, html};
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{JsonObject, ToolResult};
use pillion_gateway::access::Scope;
use pillion_gateway::upstream::CallerTools;
use pillion_management::calls;
use pillion_management::saved_calls::{self, MAX_NAME_CHARS, ReusableArguments, SavedCall};
use serde_json::Value;

use super::offer::offer_card;
use super::snippets::Snippets;
use super::{call_context, find_tool, origin, saved, tool_path};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::pages::PageResult;
use crate::schema_form::SchemaForm;
use crate::ui::{
    Field, FormControl, Page, Tone, badge, card, facts, hidden_fields, indented, json, name,
    notice, untrusted, untrusted_beginning,
};
use crate::visitor::{Section, Visitor};

/// Maximum length of a result on the page, in bytes. The page of the call shows all of it.
const MAX_RESULT_BYTES: usize = 16 * 1024;

/// Maximum length of a description on the page of a tool, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 8 * 1024;

/// The forms that run a tool, and the outcome of the last run.
#[derive(Default)]
pub(super) struct TryOut {
    pub(super) form: SchemaForm,
    /// The arguments as JSON, as typed.
    pub(super) json: Option<String>,
    /// Why the JSON was rejected.
    pub(super) fault: Option<String>,
    /// The user on whose behalf the tool runs, as typed.
    pub(super) user: String,
    pub(super) user_fault: Option<String>,
    /// The name under which the call is to be saved, as typed.
    pub(super) saved_name: String,
    pub(super) save_fault: Option<String>,
    /// A note about the arguments in the form.
    pub(super) note: Option<&'static str>,
    pub(super) result: Option<ToolResult>,
    /// Whether the page shows a long schema completely.
    pub(super) shows_all: bool,
}

/// Shows the page of a tool. The query can fill the form: with `arguments`, with the arguments of
/// the recorded call `call`, or with those of the saved call `saved`.
pub(in crate::pages) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(tool_name): Path<String>,
    QueryFields(query): QueryFields,
) -> PageResult {
    let (tool, resolution) = find_tool(&console, &call_context(&visitor), &tool_name).await?;
    let mut try_out = fill_form(&console, &visitor, &tool, &query).await?;
    try_out.shows_all = query.get("all").is_some();
    let page = ToolPage {
        console: &console,
        visitor: &visitor,
        tool: &tool,
        caller_tools: resolution.caller_tools.as_ref(),
    };
    Ok(page.render(&try_out).await)
}

/// Fills the form with the arguments that the query names.
async fn fill_form(
    console: &Console,
    visitor: &Visitor,
    tool: &RegisteredTool,
    query: &FormFields,
) -> Result<TryOut> {
    let (gateway, grant) = (&console.gateway, visitor.grant());
    if let Some(id) = query.text("call") {
        let call = calls::find(gateway, console.servers.as_deref(), grant, id).await?;
        check_tool(tool, &call.tool_name)?;
        return Ok(fill_with_recorded(call.arguments.get(), call.user));
    }
    if let Some(name) = query.text("saved") {
        let call = saved_calls::find(gateway, grant, visitor.user(), name).await?;
        check_tool(tool, &call.tool)?;
        let try_out = fill_with_recorded(&call.arguments, call.user);
        return Ok(TryOut {
            saved_name: call.name,
            ..try_out
        });
    }
    let user = query.text("user").unwrap_or_default().to_owned();
    let Some(json) = query.text("arguments") else {
        return Ok(TryOut {
            user,
            ..TryOut::default()
        });
    };
    let mut try_out = match serde_json::from_str::<JsonObject>(json) {
        Ok(arguments) => TryOut {
            form: SchemaForm::new(arguments),
            ..TryOut::default()
        },
        Err(error) => TryOut {
            json: Some(json.to_owned()),
            fault: Some(format!("The arguments are not a JSON object: {error}")),
            ..TryOut::default()
        },
    };
    try_out.user = user;
    Ok(try_out)
}

/// Checks that a call is a call of the tool. Recorded calls have the registered name of their tool.
fn check_tool(tool: &RegisteredTool, called_name: &str) -> Result<()> {
    if tool.name().as_str() == called_name {
        return Ok(());
    }
    Err(PageError::NotFound("The call is a call of another tool."))
}

fn fill_with_recorded(recorded_json: &str, user: Option<String>) -> TryOut {
    let reusable = ReusableArguments::read(recorded_json);
    let note =
        "Some arguments are not recorded, such as secrets: fill them in before you run the tool.";
    TryOut {
        form: SchemaForm::new(reusable.arguments),
        user: user.unwrap_or_default(),
        note: (!reusable.is_complete).then_some(note),
        ..TryOut::default()
    }
}

/// The page of a tool, without its forms.
#[derive(Clone, Copy)]
pub(super) struct ToolPage<'a> {
    pub(super) console: &'a Console,
    pub(super) visitor: &'a Visitor,
    pub(super) tool: &'a RegisteredTool,
    /// The tools that only the visitor has.
    pub(super) caller_tools: Option<&'a CallerTools>,
}

impl ToolPage<'_> {
    pub(super) async fn render(self, try_out: &TryOut) -> Markup {
        let (visitor, tool) = (self.visitor, self.tool);
        let saved_calls = saved::list_for_tool(self.console, visitor, tool.name().as_str()).await;
        let definition = tool.definition();
        let schema = definition.input_schema().to_string();
        let all_url = (!try_out.shows_all).then_some("?all=1");
        let details = facts([
            ("Name", Some(name(tool.name().as_str()))),
            ("From", Some(origin(tool))),
            (
                "Category",
                Some(untrusted(definition.category()))
                    .filter(|_| !definition.category().is_empty()),
            ),
        ]);
        let body = html! {
            div .columns {
                (card("The tool", None, html! { div .content { (details) (untrusted_beginning(definition.description(), MAX_DESCRIPTION_BYTES)) } }))
                (self.try_card(try_out))
            }
            (self.saved_card(&saved_calls))
            (card("As code", None, html! { div .content { details { summary { "curl, command line and PHP" } div .stack { (self.snippets(try_out)) } } } }))
            (offer_card(self.console, visitor, tool, self.caller_tools))
            (card("Schema of the arguments", None, html! { div .content { (json("schema", &schema, all_url)) } }))
        };
        Page::new(tool.name().as_str(), Section::Tools, body).render(visitor)
    }

    fn try_card(self, try_out: &TryOut) -> Markup {
        let visitor = self.visitor;
        let action = visitor.href(&tool_path(self.tool.name().as_str()));
        let schema = self.tool.definition().input_schema();
        let json = try_out.json.clone().unwrap_or_else(|| {
            indented(&Value::Object(try_out.form.arguments.clone()).to_string())
        });
        let rows = json.lines().count().clamp(6, 24);
        let content = html! {
            div .content {
                @if let Some(result) = &try_out.result { (show_result(result)) }
                @if let Some(note) = try_out.note { (notice(Tone::Warning, html! { (note) })) }
                @if visitor.may(Scope::Execute) {
                    form .stack method="post" action=(action) {
                        (hidden_fields(visitor))
                        (try_out.form.render(schema))
                        (Field::text("user", "On behalf of", &try_out.user).with_hint("The user whose credentials and limits apply. Empty: yourself.").with_fault(try_out.user_fault.as_deref()).render())
                        div { button .primary type="submit" { "Run" } }
                        (save_fields("saved-name", try_out, try_out.json.is_none()))
                    }
                    details open[try_out.json.is_some()] {
                        summary { "Arguments as JSON" }
                        form .stack method="post" action=(action) {
                            (hidden_fields(visitor))
                            (Field::new("json", "JSON", FormControl::Json { value: &json, rows }).with_fault(try_out.fault.as_deref()).render())
                            (Field::text("json-user", "On behalf of", &try_out.user).with_fault(try_out.user_fault.as_deref()).render())
                            div { button type="submit" { "Run with this JSON" } }
                            (save_fields("json-saved-name", try_out, try_out.json.is_some()))
                        }
                    }
                } @else {
                    p .muted { "Your sign-in does not include the scope 'execute', which running a tool needs." }
                }
            }
        };
        card("Try", None, content)
    }

    fn saved_card(self, saved_calls: &Result<Vec<SavedCall>>) -> Markup {
        let content = match saved_calls {
            Ok(calls) if calls.is_empty() => html! {
                div .content { p .muted { "You have saved no call of this tool." } }
            },
            Ok(calls) => saved::table(self.visitor, calls, false),
            Err(error) => html! {
                div .content { (notice(Tone::Warning, html! { "The saved calls cannot be read: " (untrusted(&error.to_string())) })) }
            },
        };
        let all = html! { a .button href=(self.visitor.href("saved-calls")) { "All saved calls" } };
        card("Saved calls", Some(all), content)
    }

    fn snippets(self, try_out: &TryOut) -> Markup {
        let arguments = Value::Object(try_out.form.arguments.clone());
        let redacted = self
            .console
            .gateway
            .approvals()
            .redaction()
            .redact(&arguments);
        let no_arguments = JsonObject::new();
        let user = try_out.user.trim();
        let snippets = Snippets {
            socket: &self.console.socket,
            tool: self.tool.name().as_str(),
            arguments: redacted.as_object().unwrap_or(&no_arguments),
            user: Some(user).filter(|user| !user.is_empty()),
        };
        snippets.render()
    }
}

/// Shows the field and the button that save a call. Only the form that was sent shows its fault.
fn save_fields(field_name: &str, try_out: &TryOut, is_sent_form: bool) -> Markup {
    let fault = try_out.save_fault.as_deref().filter(|_| is_sent_form);
    let hint = format!(
        "At most {MAX_NAME_CHARS} characters. Replaces your saved call with this name. Secrets are not saved."
    );
    html! {
        details open[fault.is_some()] {
            summary { "Save this call" }
            div .stack {
                (Field::text(field_name, "Name of the saved call", &try_out.saved_name).with_hint(hint.as_str()).with_fault(fault).render())
                div { button type="submit" name="action" value="save" { "Save without running" } }
            }
        }
    }
}

fn show_result(result: &ToolResult) -> Markup {
    let text = result.to_message();
    html! {
        div .row {
            @if result.success { (badge(Tone::Good, "success")) } @else { (badge(Tone::Bad, "error")) }
        }
        pre .json #result tabindex="0" { (untrusted_beginning(&text, MAX_RESULT_BYTES)) }
    }
}
