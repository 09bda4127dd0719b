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

/// Maximum number of calls, or of other parts, of a response.
const MAX_PARTS: usize = 16_384;

/// Number of JSON values of each event that do not count toward the limit of a response: a response
/// may have very many events, of which only the pieces of text are stored.
const FREE_VALUES_OF_EVENT: usize = 24;

/// The size limits of a response.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) response_bytes: usize,
    pub(super) event_bytes: usize,
}

/// Reads a response as JSON or as a stream, as the server has sent it: some servers send JSON
/// although a stream was requested.
pub(super) async fn read(
    provider: Provider,
    response: HttpResponse,
    limits: Limits,
    is_streamed: bool,
    listener: &mut (dyn FnMut(Delta) + Send),
) -> Result<TurnResponse, FailedAttempt> {
    let status = response.status();
    if !status.is_success() {
        return Err(rejection(provider, response).await);
    }
    let mut body = Body {
        response,
        provider,
        left: limits.response_bytes,
        limit: limits.response_bytes,
    };
    let start = body.start().await?;
    // No event begins with a bracket, so such a body is JSON, whatever the content type is.
    if !start.starts_with(b"{") && !start.starts_with(b"[") {
        let mut passed = |delta| {
            if is_streamed {
                listener(delta);
            }
        };
        read_events(body, start, limits.event_bytes, &mut passed).await
    } else {
        read_json(body, start, is_streamed, listener).await
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
    ModelError::new(kind, format!("The provider '{provider}': {error}"))
}

/// Classifies an error that the provider reported. A broken connection is classified elsewhere,
/// because the provider may bill the response.
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

/// Returns whether a provider sends this status only before it begins a response. A provider may
/// detect other failures in the middle of a response, such as a server error or a context that has
/// become too long.
fn is_rejection_status(status: u16) -> bool {
    matches!(status, 401..=404 | 429)
}

/// Creates the failure for a response without a 2xx status.
async fn rejection(provider: Provider, mut response: HttpResponse) -> FailedAttempt {
    let status = response.status().as_u16();
    let retry_after = retry::parse_retry_after(response.headers());
    let mut body = BytesMut::new();
    // Errors while reading the body are ignored, because the status is known and matters most.
    while let Ok(Some(chunk)) = response.chunk().await {
        let left_bytes = MAX_ERROR_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(left_bytes)]);
        if body.len() == MAX_ERROR_BYTES {
            break;
        }
    }
    let failure = provider.api().failure(status, &body);
    let error = ModelError {
        status: Some(status),
        // Google sends the delay in the body.
        retry_after: retry_after.or(failure.retry_after),
        ..failure
    };
    classify_error(error)
}

async fn read_json(
    mut body: Body,
    start: Bytes,
    is_streamed: bool,
    listener: &mut (dyn FnMut(Delta) + Send),
) -> Result<TurnResponse, FailedAttempt> {
    let mut read = BytesMut::from(start);
    while let Some(chunk) = body.chunk().await? {
        read.extend_from_slice(&chunk);
    }
    let bytes = read.len();
    let parse = move || {
        (count_with_texts(&read) <= MAX_VALUES).then(|| match std::str::from_utf8(&read) {
            Ok(text) => serde_json::from_str(&lone_surrogates::replace(text)),
            Err(_) => serde_json::from_slice(&read),
        })
    };
    let parsed = compute::run(&body.account(), bytes, parse).await;
    let json = parsed.ok_or_else(|| body.too_many_values())?;
    let json =
        json.map_err(|error| body.malformed(&format!("the body is not valid JSON ({error})")))?;
    check_parts(body.provider, &json)?;
    let response = body
        .provider
        .api()
        .parse_response(json)
        .map_err(classify_error)?;
    // The limit applies to the total of the parts of an array of responses.
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
    mut body: Body,
    start: Bytes,
    max_event_bytes: usize,
    listener: &mut (dyn FnMut(Delta) + Send),
) -> Result<TurnResponse, FailedAttempt> {
    let mut decoder = SseDecoder::new(max_event_bytes);
    let mut stream = body.provider.api().stream();
    let mut deltas = Vec::new();
    let mut next = Some(start);
    let mut values = 0;
    let account = body.account();
    loop {
        let fed = match &next {
            Some(chunk) => decoder.feed(chunk),
            None => decoder.finish(),
        };
        fed.map_err(|error| body.malformed(&error.to_string()))?;
        while let Some(event) = decoder.next_event() {
            // The arguments of a call arrive in pieces, as strings of many events, so the values in
            // strings count, too.
            let of_event = count_with_strings(event.data.as_bytes());
            values += of_event.saturating_sub(FREE_VALUES_OF_EVENT);
            if values > MAX_VALUES {
                return Err(body.too_many_values().into());
            }
            let bytes = event.data.len();
            let push = move || {
                let pushed = stream.push(&event, &mut deltas);
                (stream, deltas, pushed)
            };
            let pushed;
            (stream, deltas, pushed) = compute::run(&account, bytes, push).await;
            if deltas.iter().any(is_beyond_limit) {
                return Err(too_many_parts(body.provider).into());
            }
            deltas.drain(..).for_each(&mut *listener);
            pushed.map_err(classify_error)?;
            if stream.is_complete() {
                return body.finish(stream).await;
            }
        }
        if next.is_none() {
            return body.finish(stream).await;
        }
        next = match body.chunk().await {
            Ok(next) => next,
            // The response may be complete without an explicit end.
            Err(error) if stream.is_complete_if_broken() => {
                return body.finish(stream).await.map_err(|_| error.into());
            }
            Err(error) => return Err(error.into()),
        };
    }
}

/// Returns whether a delta belongs to a call above the limit.
fn is_beyond_limit(delta: &Delta) -> bool {
    matches!(delta, Delta::ToolCall { index, .. } if *index >= MAX_PARTS)
}

/// Checks the number of calls and other parts of a complete response.
fn check_parts(provider: Provider, body: &Value) -> Result<(), ModelError> {
    let parts = body.pointer(provider.api().parts_pointer());
    let count = parts.and_then(Value::as_array).map_or(0, Vec::len);
    if count > MAX_PARTS {
        return Err(too_many_parts(provider));
    }
    Ok(())
}

fn too_many_parts(provider: Provider) -> ModelError {
    let what = format!("the answer has more than {MAX_PARTS} calls or other parts");
    provider.api().malformed(&what)
}

/// The body of a response, which is read up to a limit.
struct Body {
    response: HttpResponse,
    provider: Provider,
    left: usize,
    limit: usize,
}

impl Body {
    /// Returns the first bytes after leading white space; empty for an empty body.
    async fn start(&mut self) -> Result<Bytes, ModelError> {
        while let Some(chunk) = self.chunk().await? {
            let start = chunk.trim_ascii_start();
            if !start.is_empty() {
                return Ok(chunk.slice_ref(start));
            }
        }
        Ok(Bytes::new())
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, ModelError> {
        let chunk = self.response.chunk().await.map_err(|error| ModelError {
            may_have_cost: true,
            ..connection_error(self.provider, &error)
        })?;
        let length = chunk.as_ref().map_or(0, Bytes::len);
        match self.left.checked_sub(length) {
            Some(left) => self.left = left,
            None => {
                let limit = self.limit;
                return Err(connection_error(
                    self.provider,
                    &HttpError::TooLong { limit },
                ));
            }
        }
        Ok(chunk)
    }

    /// Returns the complete response of a stream. The arguments of its calls may be long JSON
    /// texts.
    async fn finish(&self, stream: Box<dyn TurnStream>) -> Result<TurnResponse, FailedAttempt> {
        let bytes = self.limit - self.left;
        let account = self.account();
        let finished = compute::run(&account, bytes, || stream.finish()).await;
        let response = finished.map_err(classify_error)?;
        check_parts(self.provider, &response.body)?;
        Ok(response)
    }

    /// Returns the account under which long computations for this provider take turns.
    fn account(&self) -> String {
        format!("answers of {}", self.provider)
    }

    fn too_many_values(&self) -> ModelError {
        self.malformed(&format!("the answer has {TooManyValues}"))
    }

    fn malformed(&self, what: &str) -> ModelError {
        self.provider.api().malformed(what)
    }
}
