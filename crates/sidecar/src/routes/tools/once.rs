//! Runs the calls of a request, once for each `Idempotency-Key`.

use std::iter::empty;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::OptionalFromRequestParts;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use pillion_core::digest::sha256_hex;
use pillion_core::executor::RESPONSE_ALLOWANCE;
use pillion_core::store::{CallId, IdempotencyKey, StoreError};
use pillion_core::tool::{ErrorCode, ToolResult};
use pillion_deadline::{timeout, timeout_at};
use pillion_wire::{
    BatchCall, BatchRequest, BatchResponse, ExecuteResponse, IDEMPOTENCY_KEY_HEADER,
    IDEMPOTENCY_REPLAYED_HEADER,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::response;
use super::run::{self, Form, batch_response};
use crate::app::App;
use crate::routes::caller::Caller;
use crate::routes::error::{
    IN_PROGRESS, INVALID_INPUT, InternalError, RATE_LIMITED, RequestError, UNPROCESSABLE,
    route_error,
};
use crate::routes::store::NoStore;
use pillion_gateway::accounts::json_memory;
use pillion_gateway::idempotency::{Claim, ClaimedKey, scope};

/// Maximum length of a key as sent, in bytes.
const MAX_KEY_BYTES: usize = 255;

route_error! {
    /// Why a request with an idempotency key is rejected.
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
pub(in crate::routes) struct Key(String);

impl OptionalFromRequestParts<App> for Key {
    type Rejection = RequestError;

    async fn from_request_parts(
        parts: &mut Parts,
        _app: &App,
    ) -> Result<Option<Self>, RequestError> {
        let mut values = parts.headers.get_all(IDEMPOTENCY_KEY_HEADER).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        let key = value.to_str().ok().and_then(read);
        match (key, values.next()) {
            (Some(key), None) => Ok(Some(Self(key))),
            _ => Err(IdempotencyKeyError::Invalid.into()),
        }
    }
}

/// Parses a key: an RFC 8941 string, as the Idempotency-Key draft requires, or the unquoted form
/// that most clients send, which has no quotes and backslashes.
fn read(text: &str) -> Option<String> {
    let text = text.trim();
    if !(1..=MAX_KEY_BYTES).contains(&text.len()) {
        return None;
    }
    let key = match text.strip_prefix('"') {
        Some(quoted) => unescaped(quoted.strip_suffix('"')?)?,
        None if text.contains(['"', '\\']) => return None,
        None => text.to_owned(),
    };
    let is_good = key.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    (is_good && !key.is_empty()).then_some(key)
}

fn unescaped(quoted: &str) -> Option<String> {
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

/// The response to a request that may have a key.
pub(super) enum KeyedResponse {
    /// The request has run now.
    Ran(Arc<BatchResponse>),
    /// The request has already run with this key; its stored response, as JSON.
    Replayed(String),
}

impl KeyedResponse {
    /// Returns the HTTP response.
    pub(super) fn into_response(self, form: Form) -> Response {
        match self {
            Self::Ran(response) => form.respond(response),
            Self::Replayed(json) => {
                let headers = [
                    (CONTENT_TYPE.as_str(), "application/json"),
                    (IDEMPOTENCY_REPLAYED_HEADER, "true"),
                ];
                (headers, json).into_response()
            }
        }
    }
}

/// Runs the request. A request with a key runs only if it has not run with this key before.
pub(super) async fn run(
    app: &App,
    key: Option<Key>,
    batch: BatchRequest,
    form: Form,
    caller: Caller,
) -> Result<KeyedResponse, RequestError> {
    if let Some(key) = key {
        return run_with_key(app.clone(), key, batch, form, caller).await;
    }
    // The future of a call, with its contexts, is large.
    let ran = Box::pin(run::run(app, batch, caller, Duration::ZERO, empty())).await;
    Ok(KeyedResponse::Ran(Arc::new(ran.response)))
}

/// Runs the request, unless it has already run with this key. The request continues if its client
/// disconnects, so that a repeated request gets the response. Storing the response may continue
/// after the response was returned.
async fn run_with_key(
    app: App,
    Key(key): Key,
    batch: BatchRequest,
    form: Form,
    caller: Caller,
) -> Result<KeyedResponse, RequestError> {
    let state = app.state().ok_or(NoStore)?;
    let principal = caller.context.principal.as_deref();
    let key = IdempotencyKey {
        scope: scope(principal, caller.context.user.as_deref()),
        key,
    };
    let (content, bytes) = fingerprint(form.content(&batch));
    let ttl = app.http().idempotency_ttl;
    let keys = state.keys();
    let began = Instant::now();
    let limit = app.timeout_of_calls(batch.calls.iter().map(|call| call.name.as_str()));
    let claim = keys.claim(&key, &content, batch.calls.len(), ttl);
    let claim = timeout(limit, claim).await.unwrap_or_else(|_| {
        let message = "the store did not respond before the deadline of the request";
        Err(StoreError::unavailable(message))
    });
    let held = match claim? {
        Claim::Mine(held) => held,
        Claim::Recorded(json) => return Ok(KeyedResponse::Replayed(json)),
        Claim::InProgress => return Err(IdempotencyKeyError::InProgress.into()),
        Claim::OtherRequest => return Err(IdempotencyKeyError::OtherRequest.into()),
        Claim::CutOff { begun, fingerprint } => {
            let json = form
                .to_json(&cut_off(batch, begun))
                .map_err(|_| InternalError)?;
            // If storing takes longer, a repeated request comes to the same result.
            let recorded = keys.record(&key, &fingerprint, &json);
            drop(timeout(RESPONSE_ALLOWANCE, recorded).await);
            return Ok(KeyedResponse::Replayed(json));
        }
    };
    let process = Arc::clone(app.process());
    // Only requests without clients are counted here: the connection limit bounds the others.
    if process.detached.is_full(principal) {
        drop(timeout(RESPONSE_ALLOWANCE, held.did_not_run()).await);
        return Err(IdempotencyKeyError::TooManyDetached.into());
    }
    let (attachment, run) = process.detached.commit(principal, bytes);
    let waited = began.elapsed();
    let (sender, receiver) = oneshot::channel();
    let task = async move {
        let _run = run;
        let principal = caller.context.principal.clone();
        let max_bytes = app.http().idempotency_max_bytes;
        let ran = Box::pin(run::run(&app, batch, caller, waited, held.calls())).await;
        let response = Arc::new(ran.response);
        let mut stored = pin!(async {
            if ran.is_final {
                store(held, form, &response, principal.as_deref(), max_bytes).await;
            } else {
                held.did_not_run().await;
            }
        });
        let respond_by = ran.respond_by.min(Instant::now() + RESPONSE_ALLOWANCE);
        let is_stored = timeout_at(respond_by.into(), &mut stored).await.is_ok();
        // The receiver no longer exists if the client has disconnected.
        let _ = sender.send(Arc::clone(&response));
        if !is_stored {
            stored.await;
        }
    };
    process.calls.spawn(task.in_current_span());
    let response = receiver.await.map_err(|_| InternalError)?;
    drop(attachment);
    Ok(KeyedResponse::Ran(response))
}

/// Stores the response of a request that has run. If the responses of its principal exceed `max`,
/// stores only that the request has run.
async fn store(
    held: ClaimedKey,
    form: Form,
    response: &BatchResponse,
    principal: Option<&str>,
    max: u64,
) {
    let text = match form.to_json(response) {
        Ok(text) if held.admits(principal, text.len(), max).await => Ok(text),
        Ok(text) => {
            tracing::warn!(
                principal,
                bytes = text.len(),
                "The response of a request with an Idempotency-Key is not stored: \
                 http.idempotency_max_bytes is reached"
            );
            form.to_json(&not_stored(response, held.calls()))
        }
        Err(error) => Err(error),
    };
    match text {
        Ok(text) => held.ran(&text).await,
        Err(error) => tracing::error!(
            %error,
            "Cannot serialize the response of a request with an Idempotency-Key"
        ),
    }
}

/// Returns the SHA-256 hash of the request's content, independent of key order, and the memory of a
/// request with this content.
fn fingerprint(mut content: Value) -> (String, u64) {
    content.sort_all_objects();
    let text = content.to_string();
    (sha256_hex(&text), json_memory(&text))
}

/// Returns the response to a request that an earlier sidecar process started and did not complete.
/// `begun` has the call log IDs of the calls that were started.
fn cut_off(batch: BatchRequest, begun: Vec<Option<CallId>>) -> BatchResponse {
    let calls = batch.calls.into_iter().zip(begun);
    batch_response(calls.map(|(call, begun)| (call.id.clone(), cut_off_call(call, begun))))
}

/// Returns the response for a call whose response was not stored before its process stopped.
/// `begun` is the call log ID if the call was started.
fn cut_off_call(call: BatchCall, begun: Option<CallId>) -> ExecuteResponse {
    let error = match begun {
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
    if let Some(id) = begun {
        let metadata = &mut result.metadata;
        metadata.insert("interrupted".to_owned(), json!(true));
        metadata.insert("record_id".to_owned(), json!(id.to_string()));
    }
    response::ran(result)
}

/// Returns what is stored in place of a response that may not be stored: the outcome of its calls,
/// with their call log IDs from `records`.
fn not_stored(response: &BatchResponse, records: impl Iterator<Item = CallId>) -> BatchResponse {
    let results = response.results.iter().zip(records);
    batch_response(results.map(|(result, record)| {
        let replacement = not_stored_call(&result.response, record);
        (result.id.clone(), replacement)
    }))
}

/// Returns what is stored in place of a call's response that may not be stored.
fn not_stored_call(response: &ExecuteResponse, record: CallId) -> ExecuteResponse {
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
    metadata.insert("record_id".to_owned(), json!(record.to_string()));
    response::ran(result)
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
            assert_eq!(read(text).as_deref(), key, "{text}");
        }
        assert!(read(&"x".repeat(255)).is_some());
        assert!(read(&"x".repeat(256)).is_none());
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
            fingerprint(Form::SingleCall.content(&batch)).0
        };
        let request = of("t", r#"{"a": {"c": 1, "d": 2}, "b": 3}"#);
        assert_eq!(request, of("t", r#"{"b": 3, "a": {"d": 2, "c": 1}}"#));
        assert_ne!(request, of("u", r#"{"a": {"c": 1, "d": 2}, "b": 3}"#));
        assert_ne!(request, of("t", r#"{"a": {"c": 1, "d": 2}, "b": 4}"#));
    }
}
