//! Runs the calls of requests with an `Idempotency-Key`, once for each key.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::OptionalFromRequestParts;
use axum::http::request::Parts;
use pillion_core::digest::sha256_hex;
use pillion_core::executor::RESPONSE_ALLOWANCE;
use pillion_core::store::{CallId, IdempotencyKey, StoreError};
use pillion_core::tool::{ErrorCode, ToolResult};
use pillion_deadline::{timeout, timeout_at};
use pillion_wire::{
    BatchCall, BatchRequest, BatchResponse, ExecuteResponse, IDEMPOTENCY_KEY_HEADER,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::execute::{CallsFormat, CallsResponse, batch_response, executed_response, run_calls};
use crate::app::App;
use crate::routes::extract::Caller;
use pillion_gateway::accounts::json_memory;
use pillion_gateway::idempotency::{ClaimedKey, KeyState, format_scope};
use pillion_management::error::{
    IN_PROGRESS, INVALID_INPUT, InternalError, RATE_LIMITED, RequestError, Result, UNPROCESSABLE,
    route_error,
};
use pillion_management::store::NoStore;

/// Maximum length of a key as sent, in bytes.
const MAX_KEY_BYTES: usize = 255;

route_error! {
    /// The reason why a request with an idempotency key is rejected.
    #[derive(Debug, thiserror::Error)]
    enum IdempotencyKeyError {
        #[error("The header idempotency-key must be 1 to 255 visible ASCII characters, quoted or not")]
        Invalid => INVALID_INPUT,
        #[error(
            "This Idempotency-Key was used for a different request: send a new key with a new request"
        )]
        OtherRequest => UNPROCESSABLE,
        #[error("The request with this Idempotency-Key is still running")]
        InProgress => IN_PROGRESS,
        #[error(
            "Too many requests of this caller are still running after their clients disconnected: try \
             again later"
        )]
        TooManyDetached => RATE_LIMITED,
    }
}

/// The idempotency key of a request.
pub(in crate::routes) struct IdempotencyKeyHeader(String);

impl OptionalFromRequestParts<App> for IdempotencyKeyHeader {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Option<Self>> {
        let mut values = parts.headers.get_all(IDEMPOTENCY_KEY_HEADER).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        let key = value.to_str().ok().and_then(parse_key);
        match (key, values.next()) {
            (Some(key), None) => Ok(Some(Self(key))),
            _ => Err(IdempotencyKeyError::Invalid.into()),
        }
    }
}

/// Parses a key: an RFC 8941 string, as the Idempotency-Key draft requires, or the unquoted form
/// that most clients send, which has no quotes and backslashes.
fn parse_key(text: &str) -> Option<String> {
    let text = text.trim();
    if !(1..=MAX_KEY_BYTES).contains(&text.len()) {
        return None;
    }
    let key = match text.strip_prefix('"') {
        Some(quoted) => unescape(quoted.strip_suffix('"')?)?,
        None if text.contains(['"', '\\']) => return None,
        None => text.to_owned(),
    };
    let is_visible_ascii = key.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    (is_visible_ascii && !key.is_empty()).then_some(key)
}

fn unescape(quoted: &str) -> Option<String> {
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '\\' => characters
                .next()
                .filter(|next| matches!(next, '"' | '\\'))?,
            '"' => return None,
            other => other,
        });
    }
    Some(text)
}

/// Runs the request, unless the request has already run with this key. The request continues if its
/// client disconnects, so that a repeated request gets the response. Storing the response may
/// continue after the response was returned.
pub(super) async fn run(
    app: App,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    batch: BatchRequest,
    calls_format: CallsFormat,
    caller: Caller,
) -> Result<CallsResponse> {
    let state = app.state().ok_or(NoStore)?;
    let principal = caller.context.principal.as_deref();
    let key = IdempotencyKey {
        scope: format_scope(principal, caller.context.user.as_deref()),
        key,
    };
    let (content, bytes) = fingerprint(calls_format.content(&batch));
    let ttl = app.http().idempotency_ttl;
    let keys = state.keys();
    let claim_started_at = Instant::now();
    let claim_timeout = app.timeout_of_calls(batch.calls.iter().map(|call| call.name.as_str()));
    let claim_future = keys.claim(&key, &content, batch.calls.len(), ttl);
    let key_state = timeout(claim_timeout, claim_future)
        .await
        .unwrap_or_else(|_| {
            let message = "the store did not respond before the deadline of the request";
            Err(StoreError::unavailable(message))
        });
    let claimed_key = match key_state? {
        KeyState::Claimed(claimed_key) => claimed_key,
        KeyState::Recorded(json) => return Ok(CallsResponse::Replayed(json)),
        KeyState::InProgress => return Err(IdempotencyKeyError::InProgress.into()),
        KeyState::OtherRequest => return Err(IdempotencyKeyError::OtherRequest.into()),
        KeyState::Interrupted {
            started_calls,
            fingerprint,
        } => {
            let json = calls_format
                .to_json(&interrupted_response(batch, started_calls))
                .map_err(|error| {
                    tracing::error!(%error, "Cannot serialize the response to an interrupted request");
                    InternalError
                })?;
            // The response is returned even if storing it takes longer, because a repeated request
            // gets an equal response.
            let record_future = keys.record(&key, &fingerprint, &json);
            drop(timeout(RESPONSE_ALLOWANCE, record_future).await);
            return Ok(CallsResponse::Replayed(json));
        }
    };
    let process = Arc::clone(app.process());
    // Only requests whose clients have disconnected are counted here, because the connection limit
    // bounds the other requests.
    if process.detached_requests.is_full(principal) {
        drop(timeout(RESPONSE_ALLOWANCE, claimed_key.abandon()).await);
        return Err(IdempotencyKeyError::TooManyDetached.into());
    }
    let (attachment, run_guard) = process.detached_requests.commit(principal, bytes);
    let wait_time = claim_started_at.elapsed();
    let (sender, receiver) = oneshot::channel();
    let task = async move {
        let _run_guard = run_guard;
        let principal = caller.context.principal.clone();
        let max_bytes = app.http().idempotency_max_bytes;
        let calls = claimed_key.calls();
        let outcome = Box::pin(run_calls(&app, batch, caller, wait_time, calls)).await;
        let response = Arc::new(outcome.response);
        let mut store_future = pin!(async {
            if outcome.is_final {
                let owner = principal.as_deref();
                store_response(claimed_key, calls_format, &response, owner, max_bytes).await;
            } else {
                claimed_key.abandon().await;
            }
        });
        let latest_response_at = Instant::now() + RESPONSE_ALLOWANCE;
        let response_deadline = outcome.response_deadline.min(latest_response_at);
        let store_outcome = timeout_at(response_deadline.into(), &mut store_future).await;
        // A send error is ignored: the receiver no longer exists if the client has disconnected.
        let _ = sender.send(Arc::clone(&response));
        if store_outcome.is_err() {
            store_future.await;
        }
    };
    process.call_tasks.spawn(task.in_current_span());
    let response = receiver.await.map_err(|_| InternalError)?;
    drop(attachment);
    Ok(CallsResponse::New(response))
}

/// Stores the response of a request that has run. If the responses of its principal exceed
/// `max_bytes`, stores only that the request has run.
async fn store_response(
    claimed_key: ClaimedKey,
    calls_format: CallsFormat,
    response: &BatchResponse,
    principal: Option<&str>,
    max_bytes: u64,
) {
    let stored_json = match calls_format.to_json(response) {
        Ok(stored_json)
            if claimed_key
                .admit_response(principal, stored_json.len(), max_bytes)
                .await =>
        {
            Ok(stored_json)
        }
        Ok(stored_json) => {
            tracing::warn!(
                principal,
                bytes = stored_json.len(),
                "The response of a request with an Idempotency-Key is not stored: \
                 http.idempotency_max_bytes is reached"
            );
            calls_format.to_json(&unstored_response(response, claimed_key.calls()))
        }
        Err(error) => Err(error),
    };
    match stored_json {
        Ok(stored_json) => claimed_key.complete(&stored_json).await,
        Err(error) => tracing::error!(
            %error,
            "Cannot serialize the response of a request with an Idempotency-Key"
        ),
    }
}

/// Returns the SHA-256 hash of the request's content, independent of key order, and the approximate
/// memory of a request with this content, in bytes.
fn fingerprint(mut content: Value) -> (String, u64) {
    content.sort_all_objects();
    let text = content.to_string();
    (sha256_hex(&text), json_memory(&text))
}

/// Returns the response to a request that an earlier sidecar process started and did not complete.
/// `call_ids` has the call log IDs of the calls that were started.
fn interrupted_response(batch: BatchRequest, call_ids: Vec<Option<CallId>>) -> BatchResponse {
    let calls = batch.calls.into_iter().zip(call_ids);
    batch_response(calls.map(|(call, id)| (call.id.clone(), interrupted_call_response(call, id))))
}

/// Returns the response for a call whose response was not stored, because the sidecar process
/// stopped first. `call_id` is the call log ID if the call was started.
fn interrupted_call_response(call: BatchCall, call_id: Option<CallId>) -> ExecuteResponse {
    let error = match call_id {
        Some(_) => {
            "The sidecar stopped, or its store failed, before it stored the response of this call. \
             The tool may or may not have run: see the call's record in the call log. To run the \
             tool again, send a new Idempotency-Key"
        }
        None => {
            "The sidecar stopped before it ran this call, but after it ran other calls of the \
             batch. To run this call, send a new Idempotency-Key"
        }
    };
    let mut result = ToolResult::failure(call.id, call.name, ErrorCode::Unavailable, error);
    if let Some(id) = call_id {
        let metadata = &mut result.metadata;
        metadata.insert("interrupted".to_owned(), json!(true));
        metadata.insert("record_id".to_owned(), json!(id.to_string()));
    }
    executed_response(result)
}

/// Returns the replacement that is stored if the response would exceed the principal's limit
/// `http.idempotency_max_bytes`: the outcome of each call, with the call log ID from `record_ids`.
fn unstored_response(
    response: &BatchResponse,
    record_ids: impl Iterator<Item = CallId>,
) -> BatchResponse {
    let results = response.results.iter().zip(record_ids);
    batch_response(results.map(|(result, record_id)| {
        let replacement = unstored_call_response(&result.response, record_id);
        (result.id.clone(), replacement)
    }))
}

/// Returns the replacement that is stored for the response of one call, without the output of the
/// tool.
fn unstored_call_response(response: &ExecuteResponse, record_id: CallId) -> ExecuteResponse {
    let ExecuteResponse::Executed(execution) = response else {
        return response.clone();
    };
    let outcome = if execution.result.success {
        "succeeded"
    } else {
        "failed"
    };
    let error = format!(
        "The call {outcome}, but its response is not stored: the stored responses of this caller \
         have reached http.idempotency_max_bytes. The call log has a record of the call. To run \
         the tool again, send a new Idempotency-Key"
    );
    let mut result = ToolResult::failure("", &execution.tool, ErrorCode::Unavailable, error);
    let metadata = &mut result.metadata;
    metadata.insert("response_stored".to_owned(), json!(false));
    metadata.insert("record_id".to_owned(), json!(record_id.to_string()));
    executed_response(result)
}

#[cfg(test)]
mod tests {
    use pillion_wire::BatchMode;

    use super::*;

    #[test]
    fn a_key_may_be_quoted() {
        for (text, key) in [
            ("\"8e03978e-40d5\"", Some("8e03978e-40d5")),
            ("8e03978e-40d5", Some("8e03978e-40d5")),
            (r#""a\"b\\c""#, Some(r#"a"b\c"#)),
            ("", None),
            ("\"\"", None),
            ("\"open", None),
            ("\"a\"b\"", None),
            (r#""a\x""#, None),
            ("two words", None),
            ("a\"b", None),
            (r"a\b", None),
        ] {
            assert_eq!(parse_key(text).as_deref(), key, "{text}");
        }
        assert!(parse_key(&"x".repeat(255)).is_some());
        assert!(parse_key(&"x".repeat(256)).is_none());
    }

    #[test]
    fn the_fingerprint_depends_on_tool_and_arguments_in_any_order() {
        let of = |name: &str, arguments: &str| {
            let call = BatchCall {
                id: "x".to_owned(),
                name: name.to_owned(),
                arguments: serde_json::from_str(arguments).unwrap(),
            };
            let batch = BatchRequest {
                calls: vec![call],
                mode: BatchMode::Sequential,
            };
            fingerprint(CallsFormat::SingleCall.content(&batch)).0
        };
        let request = of("t", r#"{"a": {"c": 1, "d": 2}, "b": 3}"#);
        assert_eq!(request, of("t", r#"{"b": 3, "a": {"d": 2, "c": 1}}"#));
        assert_ne!(request, of("u", r#"{"a": {"c": 1, "d": 2}, "b": 3}"#));
        assert_ne!(request, of("t", r#"{"a": {"c": 1, "d": 2}, "b": 4}"#));
    }
}
