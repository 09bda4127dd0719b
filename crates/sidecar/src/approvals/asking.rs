//! Asking the MCP client that makes a call, where it can ask its user (`elicitation/create`).

use std::pin::Pin;
use std::sync::Arc;

use pillion_core::executor::{ApprovalRequest, Decision, Redaction};
use pillion_core::store::Verdict;
use pillion_core::tool::{ErrorCode, ToolFailure, ToolOrigin};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::calling_client::link::Link;
use crate::pins::visible_json;

/// Longest part of the arguments that the question repeats, in characters.
const MOST_SHOWN: usize = 4_000;

/// A question that is with the client; nothing when there is none, or no answer.
pub(super) type Asking = Option<Pin<Box<dyn Future<Output = Option<Verdict>> + Send>>>;

/// Asks whoever makes the call, if they may decide and their client takes forms.
pub(super) fn question(redaction: &Redaction, request: &ApprovalRequest) -> Asking {
    let context = &request.context;
    context.approval.decider.as_ref()?;
    let link = Arc::clone(context.link.as_ref()?.get::<Arc<Link>>()?);
    if !link.takes_forms() {
        return None;
    }
    let params = to_raw_value(&json!({
        "message": message(redaction, request),
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

/// The answer, once. Never, where nobody is asked.
pub(super) async fn answer(asking: &mut Asking) -> Option<Verdict> {
    let Some(question) = asking else {
        return std::future::pending().await;
    };
    let verdict = question.await;
    *asking = None;
    verdict
}

/// All there is to do where nothing is stored: the client's answer, for this call alone.
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
            let message = format!("The call of tool '{}' was denied", request.tool.name());
            Err(ToolFailure::new(ErrorCode::Denied, message))
        }
        None => Ok(Decision::Undecided),
    }
}

fn message(redaction: &Redaction, request: &ApprovalRequest) -> String {
    let name = request.tool.name();
    let server = match request.tool.origin() {
        ToolOrigin::Mcp { server_label, .. } => format!(" of server '{server_label}'"),
        _ => String::new(),
    };
    let arguments = redaction.shown(&Value::Object(request.arguments.clone()));
    // Whoever decides sees what a model may have hidden.
    let arguments = visible_json(&arguments.to_string());
    let mut shown: String = arguments.chars().take(MOST_SHOWN).collect();
    if shown.len() < arguments.len() {
        shown += " (and more)";
    }
    format!("May the tool '{name}'{server} run with these arguments? {shown}")
}

/// What an `ElicitResult` says; none if it says nothing.
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

    #[test]
    fn g3_the_question_shows_what_a_model_has_hidden() {
        let definition = ToolDefinition::builder("send", "Sends").build().unwrap();
        let tool = FnTool::new(definition, |_, _| async { Ok(ToolOutput::text("sent")) });
        let arguments = json!({"to": "a\u{202e}b\u{e0061}"});
        let request = ApprovalRequest {
            id: String::new(),
            tool: Arc::new(RegisteredTool::new(Arc::new(tool)).unwrap()),
            arguments: arguments.as_object().unwrap().clone(),
            context: CallContext::default(),
            call: None,
        };
        let message = message(&Redaction::default(), &request);
        assert!(
            message.ends_with(r#"{"to":"a\u202eb\udb40\udc61"}"#),
            "{message}"
        );
    }

    #[test]
    fn g3_only_a_clear_answer_is_one() {
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
