//! `ChatAnswer`: the outcome of a chat run.

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use serde_json::Value;

use crate::chat::FinishedChat;
use crate::exception::{self, FailedResult};
use crate::json::{EmptyObject, decode_value};
use crate::values::tool_call::exact_arguments;
use crate::zend::{
    Class, ClassSlot, Failure, MethodCall, Object, Outcome, Parameter, Result, create, entries,
    member, new_array, new_bool, new_float, new_string, try_new_list,
};

pub const NAME: &str = "Pillion\\ChatAnswer";
static CLASS: ClassSlot = ClassSlot::new();

const CONSTRUCTOR: &str = "__construct(?string $text = null, string $status = 'answered', \
    string $state = '', string $model = '', ?string $finishReason = null, \
    ?string $limitReached = null, array $toolCalls = [], array $approvals = [], \
    array $usage = [], ?string $error = null, ?string $errorCode = null, \
    ?float $retryAfter = null)";

/// The names of the fields in the sidecar's response, in the order of the constructor's parameters.
/// The name is empty for `$state`, which is not in the response.
const RESPONSE_FIELDS: [&str; 12] = [
    "content",
    "status",
    "",
    "model",
    "finish_reason",
    "limit_reached",
    "tool_calls",
    "approvals",
    "usage",
    "error",
    "error_code",
    "retry_after",
];

pub(super) fn register() -> ZendResult<()> {
    Class::new(NAME)
        .flags(ClassFlags::Final)
        .property("readonly bool $success")
        .promoted_constructor(CONSTRUCTOR, construct)
        .method("textOrThrow(): string", text_or_throw)
        .register(&CLASS)
}

fn construct(call: &mut MethodCall<'_>) -> Outcome {
    call.promote(CLASS.get(), CONSTRUCTOR)?;
    let this = call.this();
    let status = this.get(CLASS.get(), "status")?;
    let is_answered = status.str() == Some("answered");
    this.set(CLASS.get(), "success", new_bool(is_answered));
    Ok(Zval::new())
}

/// Creates a `ChatAnswer` for the outcome of a chat's run.
pub fn new(finished_chat: &FinishedChat) -> Outcome {
    let response = &finished_chat.response;
    let mut values = Vec::with_capacity(RESPONSE_FIELDS.len());
    for (Parameter { name, default, .. }, field) in Parameter::parse_all(CONSTRUCTOR)
        .into_iter()
        .zip(RESPONSE_FIELDS)
    {
        let value = response.get(field).unwrap_or(&Value::Null);
        let property_value = match name {
            "state" => new_string(&finished_chat.state),
            "approvals" => to_approvals(value)?,
            "retryAfter" => value.as_f64().map_or_else(Zval::new, new_float),
            _ if default == Some("[]") => match value {
                Value::Array(_) | Value::Object(_) => decode_value(value, EmptyObject::Array)?,
                _ => new_array([]),
            },
            _ => match value.as_str() {
                Some(text) => new_string(text),
                None if default == Some("null") => Zval::new(),
                None => new_string(""),
            },
        };
        values.push((name, property_value));
    }
    let success = response["success"] == true;
    create(CLASS.get(), |this| {
        this.set(CLASS.get(), "success", new_bool(success));
        for (name, value) in values {
            this.set(CLASS.get(), name, value);
        }
    })
}

/// Returns the PHP values for the calls that wait for approval. Each value contains the call's
/// exact arguments, which the approver needs to see.
fn to_approvals(approvals: &Value) -> Outcome {
    let entries = approvals.as_array().into_iter().flatten();
    try_new_list(entries.map(to_approval))
}

/// Returns the PHP value for a call that waits for approval.
pub fn to_approval(approval: &Value) -> Outcome {
    let text = |name: &str| approval[name].as_str().map_or_else(Zval::new, new_string);
    Ok(new_array([
        ("id", text("id")),
        ("call", text("call")),
        ("tool", text("tool")),
        ("arguments", exact_arguments(&approval["arguments"])?),
    ]))
}

/// Returns the text of the model's final response, or throws an exception that states why the chat
/// has no text.
fn text_or_throw(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let text = this.get(CLASS.get(), "text")?;
    if this.get(CLASS.get(), "success")?.bool() == Some(true) && text.is_string() {
        return Ok(text);
    }
    Err(exception::for_result(&to_failed_result(this)?))
}

fn to_failed_result(this: Object<'_>) -> Result<FailedResult> {
    let get = |name: &str| this.get(CLASS.get(), name);
    let text = |name: &str| Ok::<_, Failure>(get(name)?.string());
    let approvals = get("approvals")?;
    let is_waiting = text("status")?.as_deref() == Some("awaiting_approval");
    let first_approval = entries(&approvals).next().filter(|_| is_waiting);
    let Some((_, approval)) = first_approval.filter(|(_, approval)| approval.is_array()) else {
        let retry_after = get("retryAfter")?;
        return Ok(FailedResult {
            tool_name: String::new(),
            error: text("error")?.unwrap_or_else(|| "The model has not answered".to_owned()),
            code: text("errorCode")?.unwrap_or_else(|| "internal_error".to_owned()),
            metadata: new_array([("retry_after", retry_after)]),
        });
    };
    let entry = |name: &str| member(&approval, name).unwrap_or_default();
    let tool = entry("tool").string().unwrap_or_default();
    Ok(FailedResult {
        error: format!("Tool '{tool}' needs approval"),
        tool_name: tool,
        code: "approval_required".to_owned(),
        metadata: new_array([
            ("approval_id", entry("id")),
            ("arguments", entry("arguments")),
        ]),
    })
}
