use bytes::{Bytes, BytesMut};
use pillion_core::json_values::{MAX_VALUES, TooManyValues, count_with_strings, count_with_texts};
use pillion_core::{compute, lone_surrogates};
use pillion_egress::{HttpError, HttpResponse};
use pillion_providers::{Provider, TurnStream, assistant_text};
use pillion_sse::SseDecoder;
use serde_json::Value;

use super::{FailedAttempt, retry};
use crate::{Delta, ModelError, ModelErrorKind, TurnResponse};

/// Maximum size of an error body that is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Maximum number of tool calls in a streamed response, and of parts of any kind in a complete
/// response.
const MAX_PARTS: usize = 16_384;

/// Number of JSON values in each event that do not count toward the maximum number of values in a
/// response. A long response has very many events, and Pillion stores only the piece of text in an
/// event, not the other values.
const UNCOUNTED_VALUES_PER_EVENT: usize = 24;

/// The size limits of a response.
#[derive(Clone, Copy)]
pub(super) struct ResponseLimits {
    pub(super) response_bytes: usize,
    pub(super) event_bytes: usize,
}

/// Reads a response as JSON or as a stream, whichever the server has sent. Some servers send JSON
/// although a stream was requested.
pub(super) async fn read_response(
    provider: Provider,
    response: HttpResponse,
    limits: ResponseLimits,
    is_streamed: bool,
    listener: &mut (dyn FnMut(Delta) + Send),
) -> Result<TurnResponse, FailedAttempt> {
    let status = response.status();
    if !status.is_success() {
        return Err(read_rejection(provider, response).await);
    }
    let mut body = ResponseBody {
        response,
        provider,
        remaining_bytes: limits.response_bytes,
        max_bytes: limits.response_bytes,
    };
    let first_bytes = body.read_first_bytes().await?;
    // A body that begins with a bracket is JSON, whatever its content type is, because no
    // server-sent event begins with a bracket.
    if !first_bytes.starts_with(b"{") && !first_bytes.starts_with(b"[") {
        let mut on_delta = |delta| {
            if is_streamed {
                listener(delta);
            }
        };
        read_events(body, first_bytes, limits.event_bytes, &mut on_delta).await
    } else {
        read_json(body, first_bytes, is_streamed, listener).await
    }
}

/// Creates the error for a failed connection. The message contains no part of the URL except the
/// host.
pub(super) fn connection_error(provider: Provider, error: &HttpError) -> ModelError {
    let kind = match error {
        HttpError::Denied(_) => ModelErrorKind::Rejected,
        HttpError::Timeout => ModelErrorKind::Timeout,
        HttpError::TooLong { .. } => ModelErrorKind::Malformed,
        _ => ModelErrorKind::Unavailable,
    };
    ModelError::new(
        kind,
        format!("The request to the provider '{provider}' failed: {error}"),
    )
}

/// Determines whether a request may be repeated after an error that the provider reported. Must not
/// be used for a broken connection, because the provider may bill the lost response.
fn classify_error(error: ModelError) -> FailedAttempt {
    let may_repeat = match error.kind {
        ModelErrorKind::Unavailable | ModelErrorKind::RateLimited => true,
        ModelErrorKind::Unauthorized
        | ModelErrorKind::Exhausted
        | ModelErrorKind::Timeout
        | ModelErrorKind::Rejected
        | ModelErrorKind::ContextTooLong
        | ModelErrorKind::Malformed
        | ModelErrorKind::Cancelled => false,
    };
    FailedAttempt {
        may_repeat,
        may_have_begun: !error.status.is_some_and(is_rejection_status),
        error,
    }
}

/// Returns whether a provider reports this status only before it begins a response. Other failures,
/// such as a server error or a context that has become too long, can occur in the middle of a
/// response.
fn is_rejection_status(status: u16) -> bool {
    matches!(status, 401..=404 | 429)
}

/// Creates the failure for a response without a 2xx status.
async fn read_rejection(provider: Provider, mut response: HttpResponse) -> FailedAttempt {
    let status = response.status().as_u16();
    let retry_after = retry::parse_retry_after(response.headers());
    let mut body = BytesMut::new();
    // Errors while reading the body are ignored, because the status, which matters most, is already
    // known.
    while let Ok(Some(chunk)) = response.chunk().await {
        let remaining_bytes = MAX_ERROR_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(remaining_bytes)]);
        if body.len() == MAX_ERROR_BYTES {
            break;
        }
    }
    let failure = provider.api().failure(status, &body);
    let error = ModelError {
        status: Some(status),
        // Google sends the time before a retry in the body, not in a header.
        retry_after: retry_after.or(failure.retry_after),
        ..failure
    };
    classify_error(error)
}

async fn read_json(
    mut body: ResponseBody,
    first_bytes: Bytes,
    is_streamed: bool,
    listener: &mut (dyn FnMut(Delta) + Send),
) -> Result<TurnResponse, FailedAttempt> {
    let mut body_bytes = BytesMut::from(first_bytes);
    while let Some(chunk) = body.read_chunk().await? {
        body_bytes.extend_from_slice(&chunk);
    }
    let byte_count = body_bytes.len();
    let parse_body = move || {
        (count_with_texts(&body_bytes) <= MAX_VALUES).then(|| {
            match std::str::from_utf8(&body_bytes) {
                Ok(text) => serde_json::from_str(&lone_surrogates::replace(text)),
                Err(_) => serde_json::from_slice(&body_bytes),
            }
        })
    };
    let parse_result = compute::run(&body.account(), byte_count, parse_body).await;
    let json_result = parse_result.ok_or_else(|| body.too_many_values_error())?;
    let json = json_result
        .map_err(|error| body.malformed_error(&format!("the body is not valid JSON ({error})")))?;
    check_parts(body.provider, &json)?;
    let response = body
        .provider
        .api()
        .parse_response(json)
        .map_err(classify_error)?;
    // The body may be an array of responses; the maximum number of parts applies to all these
    // responses together.
    check_parts(body.provider, &response.body)?;
    if is_streamed {
        let text = assistant_text(body.provider, &response.body).unwrap_or_default();
        if !text.is_empty() {
            listener(Delta::Text(text));
        }
    }
    Ok(response)
}

async fn read_events(
    mut body: ResponseBody,
    first_bytes: Bytes,
    max_event_bytes: usize,
    listener: &mut (dyn FnMut(Delta) + Send),
) -> Result<TurnResponse, FailedAttempt> {
    let mut decoder = SseDecoder::new(max_event_bytes);
    let mut stream = body.provider.api().stream();
    let mut deltas = Vec::new();
    let mut next_chunk = Some(first_bytes);
    let mut value_count = 0;
    let account = body.account();
    loop {
        let decode_result = match &next_chunk {
            Some(chunk) => decoder.feed(chunk),
            None => decoder.finish(),
        };
        decode_result.map_err(|error| body.malformed_error(&error.to_string()))?;
        while let Some(event) = decoder.next_event() {
            // The arguments of a call are JSON text that arrives in pieces, as strings in many
            // events, so the JSON values inside strings are counted, too.
            let event_values = count_with_strings(event.data.as_bytes());
            value_count += event_values.saturating_sub(UNCOUNTED_VALUES_PER_EVENT);
            if value_count > MAX_VALUES {
                return Err(body.too_many_values_error().into());
            }
            let byte_count = event.data.len();
            let push_event = move || {
                let push_result = stream.push(&event, &mut deltas);
                (stream, deltas, push_result)
            };
            let push_result;
            (stream, deltas, push_result) = compute::run(&account, byte_count, push_event).await;
            if deltas.iter().any(is_beyond_limit) {
                return Err(too_many_parts_error(body.provider).into());
            }
            deltas.drain(..).for_each(&mut *listener);
            push_result.map_err(classify_error)?;
            if stream.is_complete() {
                return body.finish(stream).await;
            }
        }
        if next_chunk.is_none() {
            return body.finish(stream).await;
        }
        next_chunk = match body.read_chunk().await {
            Ok(chunk) => chunk,
            // The connection failed, but the response is complete: only the event that marks the
            // end of the response is missing.
            Err(error) if stream.is_complete_if_broken() => {
                return body.finish(stream).await.map_err(|_| error.into());
            }
            Err(error) => return Err(error.into()),
        };
    }
}

/// Returns whether a delta belongs to a call beyond the maximum number of calls in a response.
fn is_beyond_limit(delta: &Delta) -> bool {
    matches!(delta, Delta::ToolCall { index, .. } if *index >= MAX_PARTS)
}

/// Checks the number of calls and other parts of a complete response.
fn check_parts(provider: Provider, body: &Value) -> Result<(), ModelError> {
    let parts = body.pointer(provider.api().parts_pointer());
    let count = parts.and_then(Value::as_array).map_or(0, Vec::len);
    if count > MAX_PARTS {
        return Err(too_many_parts_error(provider));
    }
    Ok(())
}

fn too_many_parts_error(provider: Provider) -> ModelError {
    let problem = format!("the response has more than {MAX_PARTS} calls or other parts");
    provider.api().malformed(&problem)
}

/// The body of a response, which is read up to a maximum size.
struct ResponseBody {
    response: HttpResponse,
    provider: Provider,
    remaining_bytes: usize,
    max_bytes: usize,
}

impl ResponseBody {
    /// Returns the first bytes after leading white space; empty for an empty body.
    async fn read_first_bytes(&mut self) -> Result<Bytes, ModelError> {
        while let Some(chunk) = self.read_chunk().await? {
            let trimmed_chunk = chunk.trim_ascii_start();
            if !trimmed_chunk.is_empty() {
                return Ok(chunk.slice_ref(trimmed_chunk));
            }
        }
        Ok(Bytes::new())
    }

    async fn read_chunk(&mut self) -> Result<Option<Bytes>, ModelError> {
        let chunk = self.response.chunk().await.map_err(|error| ModelError {
            may_have_cost: true,
            ..connection_error(self.provider, &error)
        })?;
        let length = chunk.as_ref().map_or(0, Bytes::len);
        match self.remaining_bytes.checked_sub(length) {
            Some(remaining_bytes) => self.remaining_bytes = remaining_bytes,
            None => {
                let limit = self.max_bytes;
                return Err(connection_error(
                    self.provider,
                    &HttpError::TooLong { limit },
                ));
            }
        }
        Ok(chunk)
    }

    /// Returns the complete response of a stream. Runs in the queue for long computations, because
    /// the arguments of calls may be long JSON texts.
    async fn finish(&self, stream: Box<dyn TurnStream>) -> Result<TurnResponse, FailedAttempt> {
        let byte_count = self.max_bytes - self.remaining_bytes;
        let account = self.account();
        let result = compute::run(&account, byte_count, || stream.finish()).await;
        let response = result.map_err(classify_error)?;
        check_parts(self.provider, &response.body)?;
        Ok(response)
    }

    /// Returns the name under which long computations are queued, so that computations for
    /// different providers take turns.
    fn account(&self) -> String {
        format!("responses of {}", self.provider)
    }

    fn too_many_values_error(&self) -> ModelError {
        self.malformed_error(&format!("the response has {TooManyValues}"))
    }

    fn malformed_error(&self, problem: &str) -> ModelError {
        self.provider.api().malformed(problem)
    }
}
