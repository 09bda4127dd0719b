//! Calls the PHP callbacks that handle the server's requests.

use ext_php_rs::types::Zval;
use pillion_mcp_client::{AuthorizationResponse, PromptError, RpcError};
use serde_json::{Map, Value, json};

use super::hooks::{AUTHORIZATION_CALLBACK, ELICITATION_CALLBACK, Hooks, SAMPLING_CALLBACK};
use super::server_job::{ServerRequest, ServerRequestKind};
use crate::exception;
use crate::json::{EmptyObject, decode, to_value};
use crate::wait::ReplySender;
use crate::zend::{Failure, Object, Result, new_string};

/// The error code of a request that the user rejects (MCP 2025-11-25, "Sampling", error handling).
const USER_REJECTED: i64 = -1;

/// The error code of a request whose parameters cannot be parsed.
const INVALID_PARAMS: i64 = -32602;

/// Calls the object's callback for a request of the server, and sends the callback's response.
///
/// # Errors
/// An exception of the callback, which ends the call. An `InvalidInputException` if the callback
/// returns an invalid value.
pub fn handle_request(hooks: Hooks<'_>, request: ServerRequest) -> Result<()> {
    if request.is_abandoned() {
        return Ok(());
    }
    let hook = match request.kind {
        ServerRequestKind::Sampling => SAMPLING_CALLBACK,
        ServerRequestKind::Elicitation => ELICITATION_CALLBACK,
    };
    let Ok(params) = decode(request.params.get(), EmptyObject::StdClass)? else {
        let error = RpcError::new(INVALID_PARAMS, "Invalid params");
        request.respond(Err(error));
        return Ok(());
    };
    let Some(returned_value) = hooks.call(hook, [params])? else {
        // A missing callback fails only this request: PHP code removed the callback after the
        // server had received the capability.
        request.respond(Err(RpcError::new(-32601, "Method not found")));
        return Ok(());
    };
    let outcome = match request.kind {
        ServerRequestKind::Sampling => to_sampling_result(&returned_value)?,
        ServerRequestKind::Elicitation => Ok(to_elicitation_result(&returned_value)?),
    };
    request.respond(outcome);
    Ok(())
}

/// Converts the return value of an `onSampling()` callback to a `CreateMessageResult`. The value is
/// the whole result, only its text, or null to reject the request.
fn to_sampling_result(returned_value: &Zval) -> Result<Result<Value, RpcError>> {
    let mut result = match to_value(returned_value)? {
        Value::Null => {
            return Ok(Err(RpcError::new(
                USER_REJECTED,
                "User rejected sampling request",
            )));
        }
        Value::String(text) => {
            Map::from_iter([("content".to_owned(), json!({"type": "text", "text": text}))])
        }
        Value::Object(result) if result.contains_key("content") => result,
        _ => {
            return Err(exception::invalid_input(format!(
                "The sampling callback must return an array with 'content', a string or null, {} returned",
                describe_type(returned_value)
            )));
        }
    };
    // Defaults are set for `role` and `model`, because MCP requires them and a callback may omit
    // them.
    result.entry("role").or_insert_with(|| json!("assistant"));
    result.entry("model").or_insert_with(|| json!("unknown"));
    Ok(Ok(Value::Object(result)))
}

/// Converts the return value of an `onElicitation()` callback to an `ElicitResult`. Null declines
/// the request.
fn to_elicitation_result(returned_value: &Zval) -> Result<Value> {
    let mut result = match to_value(returned_value)? {
        Value::Null => return Ok(json!({"action": "decline"})),
        Value::Object(result) => result,
        _ => return Err(invalid_elicitation(returned_value)),
    };
    let action = result.get("action").and_then(Value::as_str);
    if !matches!(action, Some("accept" | "decline" | "cancel")) {
        return Err(invalid_elicitation(returned_value));
    }
    // An empty list is accepted as an empty map, because PHP encodes an empty map as `[]`.
    if result
        .get("content")
        .is_some_and(|content| *content == json!([]))
    {
        result.insert("content".to_owned(), json!({}));
    }
    Ok(Value::Object(result))
}

fn invalid_elicitation(returned_value: &Zval) -> Failure {
    exception::invalid_input(format!(
        "The elicitation callback must return null or an array whose 'action' is accept, decline or cancel, {} returned",
        describe_type(returned_value)
    ))
}

/// Calls the object's callback for an authorization. The callback receives the URL of the
/// authorization page and returns the URL to which the browser was redirected.
///
/// # Errors
/// An exception of the callback, or an `InvalidInputException` if it returns no valid URL.
pub fn authorize(
    hooks: Hooks<'_>,
    url: &str,
    reply_sender: ReplySender<Result<AuthorizationResponse, PromptError>>,
) -> Result<()> {
    if reply_sender.is_abandoned() {
        return Ok(());
    }
    let outcome = match hooks.call(AUTHORIZATION_CALLBACK, [new_string(url)])? {
        None => Err(PromptError::Abandoned),
        Some(redirect_url) => {
            let text = redirect_url.str().ok_or_else(|| {
                exception::invalid_input(format!(
                    "The authorization callback must return the URL of the browser's redirect as a string, {} returned",
                    describe_type(&redirect_url)
                ))
            })?;
            AuthorizationResponse::from_redirect(text).map_err(PromptError::from)
        }
    };
    reply_sender.send(outcome);
    Ok(())
}

/// Returns the type of a PHP value, for messages.
pub fn describe_type(value: &Zval) -> &'static str {
    match Object::from_value(value) {
        Some(object) => object.class_name(),
        None if value.is_array() => "array",
        None if value.is_string() => "string",
        None if value.is_long() => "int",
        None if value.is_double() => "float",
        None if value.is_bool() => "bool",
        None if value.is_null() => "null",
        None => "another type",
    }
}
