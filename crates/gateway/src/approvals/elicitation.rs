//! Requests a decision on a call from the call's MCP client through `elicitation/create`, if the
//! client supports it.

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

/// Maximum length of a call's arguments and further parameters in an elicitation message, in
/// characters. No elicitation is sent for longer ones, because the user would approve parameters
/// that the message does not show.
const MAX_QUESTION_CHARS: usize = 4_000;

/// An elicitation to which the client has not responded yet; `None` if no elicitation is pending.
pub(super) type PendingVerdict = Option<Pin<Box<dyn Future<Output = Option<Verdict>> + Send>>>;

/// Returns a future that requests a decision from the caller's own user. Returns `None` if that
/// user may not decide, the user's client does not support forms, or the elicitation message cannot
/// show the whole call.
pub(super) fn request_verdict(redaction: &Redaction, request: &ApprovalRequest) -> PendingVerdict {
    let context = &request.context;
    context.approval.decider.as_ref()?;
    let link = Arc::clone(context.link.as_ref()?.get::<Arc<ClientLink>>()?);
    if !link.supports_forms() {
        return None;
    }
    let Some(message) = format_question(redaction, request) else {
        tracing::debug!(
            tool.name = %request.tool.name(),
            limit_chars = MAX_QUESTION_CHARS,
            "The arguments of a call are too long to ask the MCP client for approval"
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
        let response = link.send_request("elicitation/create", params).await;
        parse_verdict(&response.ok()?)
    }))
}

/// Resolves once with the decision in the client's response to the elicitation. Never resolves if
/// no elicitation was sent.
pub(super) async fn wait_for_verdict(elicitation: &mut PendingVerdict) -> Option<Verdict> {
    let Some(pending_verdict) = elicitation else {
        return std::future::pending().await;
    };
    let verdict = pending_verdict.await;
    *elicitation = None;
    verdict
}

/// Decides on a call by elicitation, without a store. The client's response applies to this call
/// alone.
pub(super) async fn decide_without_store(
    redaction: &Redaction,
    request: &ApprovalRequest,
) -> Result<Decision, ToolFailure> {
    let Some(verdict_request) = request_verdict(redaction, request) else {
        return Ok(Decision::Undecided);
    };
    match verdict_request.await {
        Some(Verdict::Approved) => Ok(Decision::Approved),
        Some(_) => {
            let message = format!("The call to tool '{}' was denied", request.tool.name());
            Err(ToolFailure::new(ErrorCode::Denied, message))
        }
        None => Ok(Decision::Undecided),
    }
}

/// Returns the message of the elicitation, or `None` if the call's parameters are too long.
fn format_question(redaction: &Redaction, request: &ApprovalRequest) -> Option<String> {
    let name = request.tool.name();
    let server = match request.tool.origin() {
        ToolOrigin::Mcp { server_label, .. } => format!(" of server '{server_label}'"),
        _ => String::new(),
    };
    let caller = describe_caller(&request.context);
    // Hidden characters are shown as escapes, because a model may have hidden text in the
    // arguments.
    let to_visible_text = |value: &Value| visible_json(&redaction.redact(value).to_string());
    let arguments = to_visible_text(&Value::Object(request.arguments.clone()));
    let mut message =
        format!("May the tool '{name}'{server} run{caller} with these arguments? {arguments}");
    let further_params = request
        .forwarded
        .as_ref()
        .and_then(remove_usual_members)
        .map_or_else(String::new, |params| to_visible_text(&params));
    if !further_params.is_empty() {
        message += " The tool also gets these parameters: ";
        message += &further_params;
    }
    let shown_text = arguments + &further_params;
    let is_complete = shown_text.chars().nth(MAX_QUESTION_CHARS).is_none();
    is_complete.then_some(message)
}

/// Returns the part of the elicitation message that describes who makes the call; empty for a call
/// without user and channel.
fn describe_caller(context: &CallContext) -> String {
    let quote = |text: &str| visible_json(&json!(text).to_string());
    let mut caller = String::new();
    if let Some(user) = &context.user {
        caller += &format!(" for the user {}", quote(user));
        if context.verified_user().is_none() {
            let principal = context.principal.as_deref().unwrap_or("the caller");
            caller += &format!(" (not verified, claimed by {})", quote(principal));
        }
    }
    if let Some(channel) = &context.channel {
        caller += &format!(" in the channel {}", quote(channel));
    }
    caller
}

/// Returns the forwarded parameters to show in the elicitation message. Omits the capabilities that
/// the MCP specification defines and that contain no data. Every client that supports elicitation
/// declares some of these capabilities, and the hash of the approved call covers them.
fn remove_usual_members(forwarded_params: &Value) -> Option<Value> {
    const USUAL_CAPABILITIES: [(&str, &str); 8] = [
        ("roots", "{}"),
        ("roots", r#"{"listChanged":true}"#),
        ("roots", r#"{"listChanged":false}"#),
        ("sampling", "{}"),
        ("elicitation", "{}"),
        ("elicitation", r#"{"form":{}}"#),
        ("elicitation", r#"{"url":{}}"#),
        ("elicitation", r#"{"form":{},"url":{}}"#),
    ];
    let mut params = forwarded_params.as_object()?.clone();
    if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) {
        let capabilities = meta.get_mut(CLIENT_CAPABILITIES);
        if let Some(capabilities) = capabilities.and_then(Value::as_object_mut) {
            capabilities.retain(|name, value| {
                !USUAL_CAPABILITIES.contains(&(name.as_str(), value.to_string().as_str()))
            });
            if capabilities.is_empty() {
                meta.shift_remove(CLIENT_CAPABILITIES);
            }
        }
        if meta.is_empty() {
            params.shift_remove("_meta");
        }
    }
    (!params.is_empty()).then_some(Value::Object(params))
}

/// Returns the decision in an `ElicitResult`, or `None` if the result contains no decision.
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
            edited_arguments: None,
            clock: DecisionClock::default(),
        }
    }

    #[test]
    fn g3_the_question_shows_hidden_characters() {
        let request = request(&json!({"to": "a\u{202e}b\u{e0061}"}));
        let message = format_question(&Redaction::default(), &request).unwrap();
        let shown = r#"{"to":"a\u202eb\udb40\udc61"}"#;
        assert!(message.ends_with(shown), "{message}");
    }

    #[test]
    fn g3_no_question_is_asked_if_it_cannot_show_all_arguments() {
        let of = |length: usize| {
            let arguments = json!({"text": "x".repeat(length), "to": "everybody"});
            format_question(&Redaction::default(), &request(&arguments))
        };
        assert!(of(3_900).unwrap().ends_with(r#","to":"everybody"}"#));
        assert_eq!(of(4_000), None);
        // A redacted member still shows its structure and its lengths.
        let arguments = json!({"token": {"command": "rm -rf /", "force": true}});
        let message = format_question(&Redaction::default(), &request(&arguments)).unwrap();
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
        let text =
            |request: &ApprovalRequest| format_question(&Redaction::default(), request).unwrap();
        let claimed = r#"May the tool 'send' run for the user "alice\u202e" (not verified, claimed by "token:mallory") in the channel "room" with these arguments? {}"#;
        assert_eq!(text(&request), claimed);
        request.context.is_user_verified = true;
        request.context.channel = None;
        let verified =
            r#"May the tool 'send' run for the user "alice\u202e" with these arguments? {}"#;
        assert_eq!(text(&request), verified);
    }

    #[test]
    fn g3_the_question_shows_all_parameters_except_usual_capabilities() {
        let further = |forwarded: Value| {
            let mut request = request(&json!({}));
            request.forwarded = Some(forwarded);
            let message = format_question(&Redaction::default(), &request)?;
            let parts = message.split_once(" The tool also gets these parameters: ");
            Some(parts.unwrap_or_default().1.to_owned())
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
        // These parameters are too long for an elicitation message.
        assert_eq!(further(json!({"task": "x".repeat(4_000)})), None);
    }

    #[test]
    fn g3_only_an_explicit_answer_decides() {
        let accept =
            |decision: Value| json!({"action": "accept", "content": {"decision": decision}});
        for (response, verdict) in [
            (accept(json!("approve")), Some(Verdict::Approved)),
            (accept(json!("deny")), Some(Verdict::Denied)),
            (json!({"action": "decline"}), Some(Verdict::Denied)),
            (json!({"action": "cancel"}), None),
            (json!({"action": "accept"}), None),
            (accept(json!(true)), None),
            (json!("approve"), None),
        ] {
            assert_eq!(parse_verdict(&response), verdict, "{response}");
        }
    }
}
