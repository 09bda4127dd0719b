use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use pillion_core::provider::{Provider, assistant_text};
use pillion_egress::{HttpAnswer, HttpError};
use pillion_sse::SseDecoder;

use super::{FailedAttempt, retry};
use crate::dialect::{self, ProviderDialect};
use crate::{Delta, ModelError, ModelErrorKind, TurnAnswer};

/// Maximum size of an error body that is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The size limits of an answer.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) answer_bytes: usize,
    pub(super) event_bytes: usize,
}

/// Reads an answer in the form that the server has sent: some servers send JSON although a stream
/// was requested.
pub(super) async fn read(
    dialect: &dyn ProviderDialect,
    answer: HttpAnswer,
    limits: Limits,
    is_streamed: bool,
    listener: &mut (dyn FnMut(Delta) + Send),
) -> Result<TurnAnswer, FailedAttempt> {
    let status = answer.status();
    if !status.is_success() {
        return Err(refusal(dialect, answer).await);
    }
    let provider = dialect.provider();
    let mut body = Body {
        is_event_stream: is_event_stream(&answer),
        answer,
        provider,
        left: limits.answer_bytes,
        limit: limits.answer_bytes,
    };
    let start = body.start().await?;
    if body.is_event_stream || !start.starts_with(b"{") && !start.starts_with(b"[") {
        let mut passed = |delta| {
            if is_streamed {
                listener(delta);
            }
        };
        read_events(dialect, body, start, limits.event_bytes, &mut passed).await
    } else {
        read_json(dialect, body, start, is_streamed, listener).await
    }
}

/// Creates the error for a failed connection. The message contains no part of the URL except the
/// host.
pub(super) fn connection_error(provider: Provider, error: &HttpError) -> ModelError {
    let kind = match error {
        HttpError::Refused(_) => ModelErrorKind::Refused,
        HttpError::Timeout => ModelErrorKind::Timeout,
        HttpError::TooLong { .. } => ModelErrorKind::Malformed,
        _ => ModelErrorKind::Unavailable,
    };
    ModelError::new(kind, format!("The provider '{provider}': {error}"))
}

/// Classifies an error that the provider itself reported. Broken connections are classified
/// elsewhere, because they may have a cost.
fn classify_error(error: ModelError) -> FailedAttempt {
    let may_repeat = match error.kind {
        ModelErrorKind::Unavailable | ModelErrorKind::RateLimited => true,
        ModelErrorKind::Unauthorized
        | ModelErrorKind::Exhausted
        | ModelErrorKind::Timeout
        | ModelErrorKind::Refused
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

/// Returns whether a provider sends this status only before it begins an answer. A provider may
/// detect other failures in the middle of an answer, such as a server error or a context that has
/// become too long.
fn is_rejection_status(status: u16) -> bool {
    matches!(status, 401..=404 | 429)
}

/// Creates the failure for a response without a 2xx status.
async fn refusal(dialect: &dyn ProviderDialect, mut answer: HttpAnswer) -> FailedAttempt {
    let status = answer.status().as_u16();
    let retry_after = retry::parse_retry_after(answer.headers());
    let mut body = BytesMut::new();
    // Errors while reading the body are ignored: the status is the most important information.
    while let Ok(Some(chunk)) = answer.chunk().await {
        let left_bytes = MAX_ERROR_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(left_bytes)]);
        if body.len() == MAX_ERROR_BYTES {
            break;
        }
    }
    let failure = dialect.failure(status, &body);
    let error = ModelError {
        status: Some(status),
        // Google sends the delay in the body.
        retry_after: retry_after.or(failure.retry_after),
        ..failure
    };
    classify_error(error)
}

async fn read_json(
    dialect: &dyn ProviderDialect,
    mut body: Body,
    start: Bytes,
    is_streamed: bool,
    listener: &mut (dyn FnMut(Delta) + Send),
) -> Result<TurnAnswer, FailedAttempt> {
    let mut read = BytesMut::from(start);
    while let Some(chunk) = body.chunk().await? {
        read.extend_from_slice(&chunk);
    }
    let json = serde_json::from_slice(&read)
        .map_err(|error| body.malformed(&format!("the body is not valid JSON ({error})")))?;
    let answer = dialect.answer(json).map_err(classify_error)?;
    if is_streamed {
        let text = assistant_text(body.provider, &answer.body).unwrap_or_default();
        if !text.is_empty() {
            listener(Delta::Text(text));
        }
    }
    Ok(answer)
}

async fn read_events(
    dialect: &dyn ProviderDialect,
    mut body: Body,
    start: Bytes,
    max_event_bytes: usize,
    listener: &mut (dyn FnMut(Delta) + Send),
) -> Result<TurnAnswer, FailedAttempt> {
    let mut decoder = SseDecoder::new(max_event_bytes);
    let mut stream = dialect.stream();
    let mut deltas = Vec::new();
    let mut next = Some(start);
    loop {
        let fed = match &next {
            Some(chunk) => decoder.feed(chunk),
            None => decoder.finish(),
        };
        fed.map_err(|error| body.malformed(&error.to_string()))?;
        while let Some(event) = decoder.next_event() {
            let pushed = stream.push(&event, &mut deltas);
            deltas.drain(..).for_each(&mut *listener);
            pushed.map_err(classify_error)?;
            if stream.is_complete() {
                return stream.finish().map_err(classify_error);
            }
        }
        if next.is_none() {
            return stream.finish().map_err(classify_error);
        }
        next = match body.chunk().await {
            Ok(next) => next,
            // The answer may be complete without an explicit end.
            Err(error) => return stream.finish().map_err(|_| error.into()),
        };
    }
}

fn is_event_stream(answer: &HttpAnswer) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start()
        .to_ascii_lowercase()
        .starts_with("text/event-stream")
}

/// A body that is read up to a limit.
struct Body {
    answer: HttpAnswer,
    is_event_stream: bool,
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
        let chunk = self.answer.chunk().await;
        let chunk = chunk.map_err(|error| ModelError {
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

    fn malformed(&self, what: &str) -> ModelError {
        dialect::malformed(self.provider, what)
    }
}
