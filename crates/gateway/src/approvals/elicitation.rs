//! Asks the MCP client of a call for a decision, if the client supports `elicitation/create`.

use std::pin::Pin;
use std::sync::Arc;

use pillion_core::executor::{ApprovalRequest, Decision, Redaction};
use pillion_core::store::Verdict;
use pillion_core::tool::{ErrorCode, ToolFailure, ToolOrigin};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::calling_client::link::Link;
use crate::pins::visible_json;

/// Maximum length of the arguments in a question, in characters. For longer
/// arguments, no question is sent, because the user would approve arguments that it does not show.
const MAX_SHOWN: usize = 4_000;

/// A question that was sent to the client; `None` if there is none or it was answered.
pub(super) type PendingElicitation = Option<Pin<Box<dyn Future<Output = Option<Verdict>> + Send>>>;

/// Returns the question to the caller's own user, if that user may decide, their client supports
/// forms, and the question can show the whole call.
pub(super) fn question(redaction: &Redaction, request: &ApprovalRequest) -> PendingElicitation {
    let context = &request.context;
    context.approval.decider.as_ref()?;
    let link = Arc::clone(context.link.as_ref()?.get::<Arc<Link>>()?);
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
        let answer = link.ask("elicitation/create", params).await;
        verdict_of(&answer.ok()?)
    }))
}

/// Resolves with the answer, once; never resolves without a question.
pub(super) async fn answer(asking: &mut PendingElicitation) -> Option<Verdict> {
    let Some(question) = asking else {
        return std::future::pending().await;
    };
    let verdict = question.await;
    *asking = None;
    verdict
}

/// Handles a call without a store: the client's answer decides for this call alone.
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

/// Returns the text of the question, or `None` if the arguments are too long.
fn message(redaction: &Redaction, request: &ApprovalRequest) -> Option<String> {
    let name = request.tool.name();
    let server = match request.tool.origin() {
        ToolOrigin::Mcp { server_label, .. } => format!(" of server '{server_label}'"),
        _ => String::new(),
    };
    let arguments = redaction.shown(&Value::Object(request.arguments.clone()));
    // The user must see characters that a model may have hidden.
    let arguments = visible_json(&arguments.to_string());
    let is_whole = arguments.chars().nth(MAX_SHOWN).is_none();
    is_whole.then(|| format!("May the tool '{name}'{server} run with these arguments? {arguments}"))
}

/// Returns the verdict in an `ElicitResult`, or `None` if it has none.
fn verdict_of(answer: &Value) -> Option<Verdict> {
    match answer["action"].as_str()? {
        "accept" if answer["content"]["decision"] == "approve" => Some(Verdict::Approved),
        "accept" if answer["content"]["decision"] == "deny" => Some(Verdict::Denied),
        "decline" => Some(Verdict::Denied),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pillion_core::registry::RegisteredTool;
    use pillion_core::tool::{CallContext, FnTool, ToolDefinition, ToolOutput};

    use super::*;

    fn request(arguments: &Value) -> ApprovalRequest {
        let definition = ToolDefinition::builder("send", "Sends").build().unwrap();
        let tool = FnTool::new(definition, |_, _| async { Ok(ToolOutput::text("sent")) });
        ApprovalRequest {
            id: String::new(),
            tool: Arc::new(RegisteredTool::new(Arc::new(tool)).unwrap()),
            arguments: arguments.as_object().unwrap().clone(),
            context: CallContext::default(),
            call: None,
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
        // A member that is named like a credential still shows its structure and its lengths.
        let arguments = json!({"token": {"command": "rm -rf /", "force": true}});
        let message = message(&Redaction::default(), &request(&arguments)).unwrap();
        let shown = r#"{"token":{"command":"[redacted: string, 8 characters]","force":"[redacted: boolean]"}}"#;
        assert!(message.ends_with(shown), "{message}");
    }

    #[test]
    fn g3_only_an_explicit_answer_decides() {
        for (answer, verdict) in [
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
            assert_eq!(verdict_of(&answer), verdict, "{answer}");
        }
    }
}
