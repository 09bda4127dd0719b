//! Asks the MCP client of a call for a decision, if the client supports `elicitation/create`.

use std::pin::Pin;
use std::sync::Arc;

use pillion_core::executor::{ApprovalRequest, Decision, Redaction};
use pillion_core::store::Verdict;
use pillion_core::tool::{CallContext, ErrorCode, ToolFailure, ToolOrigin};
use pillion_mcp_client::CLIENT_CAPABILITIES;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::calling_client::link::ClientLink;
use crate::pins::visible_json;

/// Maximum length of the parameters in a question, in characters. Calls with longer parameters get
/// no question, because the user would approve parameters that the question does not show.
const MAX_SHOWN: usize = 4_000;

/// A question to the client whose response is pending; `None` if no response is pending.
pub(super) type PendingElicitation = Option<Pin<Box<dyn Future<Output = Option<Verdict>> + Send>>>;

/// Returns the question to the caller's own user, if that user may decide, their client supports
/// forms, and the question can show the whole call.
pub(super) fn question(redaction: &Redaction, request: &ApprovalRequest) -> PendingElicitation {
    let context = &request.context;
    context.approval.decider.as_ref()?;
    let link = Arc::clone(context.link.as_ref()?.get::<Arc<ClientLink>>()?);
    if !link.supports_forms() {
        return None;
    }
    let Some(message) = message(redaction, request) else {
        tracing::debug!(
            tool.name = %request.tool.name(),
            "The arguments are too long to ask the MCP client for approval"
        );
        return None;
    };
    let params = to_raw_value(&json!({
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision",
                    "description": "Whether the call may run, once, with these arguments",
                    "enum": ["approve", "deny"],
                },
            },
            "required": ["decision"],
        },
    }));
    let params = params.ok()?;
    Some(Box::pin(async move {
        let response = link.ask("elicitation/create", params).await;
        parse_verdict(&response.ok()?)
    }))
}

/// Resolves with the client's verdict, once; never resolves without a question.
pub(super) async fn verdict(elicitation: &mut PendingElicitation) -> Option<Verdict> {
    let Some(question) = elicitation else {
        return std::future::pending().await;
    };
    let verdict = question.await;
    *elicitation = None;
    verdict
}

/// Decides on a call without a store: the client's response applies to this call alone.
pub(super) async fn alone(
    redaction: &Redaction,
    request: &ApprovalRequest,
) -> Result<Decision, ToolFailure> {
    let Some(question) = question(redaction, request) else {
        return Ok(Decision::Undecided);
    };
    match question.await {
        Some(Verdict::Approved) => Ok(Decision::Approved),
        Some(_) => {
            let message = format!("The call to tool '{}' was denied", request.tool.name());
            Err(ToolFailure::new(ErrorCode::Denied, message))
        }
        None => Ok(Decision::Undecided),
    }
}

/// Returns the text of the question, or `None` if the parameters are too long.
fn message(redaction: &Redaction, request: &ApprovalRequest) -> Option<String> {
    let name = request.tool.name();
    let server = match request.tool.origin() {
        ToolOrigin::Mcp { server_label, .. } => format!(" of server '{server_label}'"),
        _ => String::new(),
    };
    let caller = caller(&request.context);
    // The user must see characters that a model may have hidden.
    let shown = |value: &Value| visible_json(&redaction.shown(value).to_string());
    let arguments = shown(&Value::Object(request.arguments.clone()));
    let mut message =
        format!("May the tool '{name}'{server} run{caller} with these arguments? {arguments}");
    let further = request
        .forwarded
        .as_ref()
        .and_then(without_usual_members)
        .map(|further| shown(&further))
        .unwrap_or_default();
    if !further.is_empty() {
        message += " The tool also gets these parameters: ";
        message += &further;
    }
    let is_whole = (arguments + &further).chars().nth(MAX_SHOWN).is_none();
    is_whole.then_some(message)
}

/// Returns who calls, as a part of the question; empty for a call without user and channel.
fn caller(context: &CallContext) -> String {
    let quoted = |text: &str| visible_json(&json!(text).to_string());
    let mut caller = String::new();
    if let Some(user) = &context.user {
        caller += &format!(" for the user {}", quoted(user));
        if context.verified_user().is_none() {
            let principal = context.principal.as_deref().unwrap_or("the caller");
            caller += &format!(" (not verified, claimed by {})", quoted(principal));
        }
    }
    if let Some(channel) = &context.channel {
        caller += &format!(" in the channel {}", quoted(channel));
    }
    caller
}

/// Returns the forwarded parameters without capabilities that the specification defines and that
/// contain no data. Every client with elicitation has some of them, and they are part of the
/// approval's id.
fn without_usual_members(forwarded: &Value) -> Option<Value> {
    const USUAL: [(&str, &[&str]); 3] = [
        (
            "roots",
            &["{}", r#"{"listChanged":true}"#, r#"{"listChanged":false}"#],
        ),
        ("sampling", &["{}"]),
        (
            "elicitation",
            &[
                "{}",
                r#"{"form":{}}"#,
                r#"{"url":{}}"#,
                r#"{"form":{},"url":{}}"#,
            ],
        ),
    ];
    let mut further = forwarded.as_object()?.clone();
    if let Some(meta) = further.get_mut("_meta").and_then(Value::as_object_mut) {
        let capabilities = meta.get_mut(CLIENT_CAPABILITIES);
        if let Some(capabilities) = capabilities.and_then(Value::as_object_mut) {
            capabilities.retain(|name, value| {
                let text = value.to_string();
                let is_usual = |(known, texts): &(&str, &[&str])| {
                    name == known && texts.contains(&text.as_str())
                };
                !USUAL.iter().any(is_usual)
            });
            if capabilities.is_empty() {
                meta.shift_remove(CLIENT_CAPABILITIES);
            }
        }
        if meta.is_empty() {
            further.shift_remove("_meta");
        }
    }
    (!further.is_empty()).then_some(Value::Object(further))
}

/// Returns the verdict in an `ElicitResult`, or `None` if it has none.
fn parse_verdict(response: &Value) -> Option<Verdict> {
    match response["action"].as_str()? {
        "accept" if response["content"]["decision"] == "approve" => Some(Verdict::Approved),
        "accept" if response["content"]["decision"] == "deny" => Some(Verdict::Denied),
        "decline" => Some(Verdict::Denied),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pillion_core::executor::DecisionClock;
    use pillion_core::registry::RegisteredTool;

    use super::*;
    use crate::test_support::tool;

    fn request(arguments: &Value) -> ApprovalRequest {
        ApprovalRequest {
            id: String::new(),
            tool: Arc::new(RegisteredTool::new(tool("send", "sent")).unwrap()),
            arguments: arguments.as_object().unwrap().clone(),
            forwarded: None,
            context: CallContext::default(),
            call: None,
            edited: None,
            clock: DecisionClock::default(),
        }
    }

    #[test]
    fn g3_the_question_shows_hidden_characters() {
        let request = request(&json!({"to": "a\u{202e}b\u{e0061}"}));
        let message = message(&Redaction::default(), &request).unwrap();
        assert!(
            message.ends_with(r#"{"to":"a\u202eb\udb40\udc61"}"#),
            "{message}"
        );
    }

    #[test]
    fn g3_no_question_is_asked_if_it_cannot_show_all_arguments() {
        let of = |length: usize| {
            let arguments = json!({"text": "x".repeat(length), "to": "everybody"});
            message(&Redaction::default(), &request(&arguments))
        };
        assert!(of(3_900).unwrap().ends_with(r#","to":"everybody"}"#));
        assert_eq!(of(4_000), None);
        // A redacted member still shows its structure and its lengths.
        let arguments = json!({"token": {"command": "rm -rf /", "force": true}});
        let message = message(&Redaction::default(), &request(&arguments)).unwrap();
        let shown = r#"{"token":{"command":"[redacted: string, 8 characters]","force":"[redacted: boolean]"}}"#;
        assert!(message.ends_with(shown), "{message}");
    }

    #[test]
    fn g3_the_question_names_who_claims_a_user() {
        let mut request = request(&json!({}));
        request.context = CallContext {
            user: Some("alice\u{202e}".to_owned()),
            channel: Some("room".to_owned()),
            principal: Some("token:mallory".to_owned()),
            ..CallContext::default()
        };
        let text = |request: &ApprovalRequest| message(&Redaction::default(), request).unwrap();
        assert_eq!(
            text(&request),
            r#"May the tool 'send' run for the user "alice\u202e" (not verified, claimed by "token:mallory") in the channel "room" with these arguments? {}"#
        );
        request.context.is_user_verified = true;
        request.context.channel = None;
        assert_eq!(
            text(&request),
            r#"May the tool 'send' run for the user "alice\u202e" with these arguments? {}"#
        );
    }

    #[test]
    fn g3_the_question_shows_all_parameters_except_usual_capabilities() {
        let further = |forwarded: Value| {
            let mut request = request(&json!({}));
            request.forwarded = Some(forwarded);
            let message = message(&Redaction::default(), &request)?;
            let further = message.split_once(" The tool also gets these parameters: ");
            Some(
                further
                    .map(|(_, further)| further.to_owned())
                    .unwrap_or_default(),
            )
        };
        let capabilities = |client_capabilities: Value| json!({"_meta": {CLIENT_CAPABILITIES: client_capabilities}});
        for usual in [
            json!({"elicitation": {}, "roots": {"listChanged": true}}),
            json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}}),
        ] {
            assert_eq!(further(capabilities(usual.clone())).unwrap(), "", "{usual}");
        }
        let unusual = capabilities(json!({"experimental": {"pay": 1}}));
        assert_eq!(further(unusual.clone()).unwrap(), unusual.to_string());
        let nested = capabilities(json!({"sampling": {"pay": {}}}));
        assert_eq!(further(nested.clone()).unwrap(), nested.to_string());
        let task = json!({"task": {"ttl": 1}, "password": "x"});
        let shown = r#"{"task":{"ttl":1},"password":"[redacted: string, 1 characters]"}"#;
        assert_eq!(further(task).unwrap(), shown);
        // These parameters are too long for a question.
        assert_eq!(further(json!({"task": "x".repeat(4_000)})), None);
    }

    #[test]
    fn g3_only_an_explicit_answer_decides() {
        for (response, verdict) in [
            (
                json!({"action": "accept", "content": {"decision": "approve"}}),
                Some(Verdict::Approved),
            ),
            (
                json!({"action": "accept", "content": {"decision": "deny"}}),
                Some(Verdict::Denied),
            ),
            (json!({"action": "decline"}), Some(Verdict::Denied)),
            (json!({"action": "cancel"}), None),
            (json!({"action": "accept"}), None),
            (
                json!({"action": "accept", "content": {"decision": true}}),
                None,
            ),
            (json!("approve"), None),
        ] {
            assert_eq!(parse_verdict(&response), verdict, "{response}");
        }
    }
}
