use std::time::Duration;

use http::HeaderValue;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use pillion_sse::SseDecoder;
use tokio::time::timeout;

use super::answer::{content_encoding, messages_of};
use super::body_form::BodyForm;
use crate::jsonrpc::{Incoming, MessageId, RpcOutcome, RpcRequestId};
use crate::{McpErrorKind, RpcError};

/// Maximum size of the body of a rejection, in bytes. The rest is not read.
const MAX_REASON_LEN: usize = 64 * 1024;

/// A response whose HTTP status is not a success.
pub(crate) struct Rejection {
    /// The [`McpErrorKind::HttpStatus`] of the response.
    pub(crate) error: McpErrorKind,
    pub(crate) answer: RejectionAnswer,
}

/// What the body of a rejection says about its request. Only [`RejectionAnswer::Missing`] allows to
/// conclude from the status that the server has not processed the request.
pub(crate) enum RejectionAnswer {
    /// The body is not a response to the request: it is not JSON-RPC, or has no id or another one.
    Missing,
    /// The body was cut off, too large or damaged, and may be the response to the request.
    Unknown,
    /// The JSON-RPC response with the id of the request.
    Response(RpcOutcome),
}

impl Rejection {
    /// Reads the head and body of a response to the request with this id.
    pub(crate) async fn read(
        mut response: reqwest::Response,
        request: Option<&RpcRequestId>,
    ) -> Self {
        let text = |header: Option<&HeaderValue>| {
            let text = header?.to_str().ok()?;
            Some(text.chars().take(1024).collect::<String>())
        };
        let headers = response.headers();
        let seconds = text(headers.get(RETRY_AFTER)).and_then(|text| text.trim().parse().ok());
        let challenge = text(headers.get(WWW_AUTHENTICATE));
        let status = response.status().as_u16();
        let body = RejectionBody::read(&mut response).await;
        let answer = match request {
            Some(request) => body.answer(request),
            None => RejectionAnswer::Missing,
        };
        let rpc = match &answer {
            RejectionAnswer::Response(Err(error)) => Some(error.clone()),
            _ => RpcError::of_error_body(&body.bytes),
        };
        let error = McpErrorKind::HttpStatus {
            status,
            retry_after: seconds.map(Duration::from_secs),
            challenge,
            rpc: rpc.map(Box::new),
        };
        Self { error, answer }
    }

    /// Returns the response to the request, if there is one.
    ///
    /// # Errors
    /// The HTTP status if there is no response, or if the status itself matters to the caller: for
    /// requests that open a session (`opens`), and if the server requests a credential or a pause.
    pub(crate) fn into_outcome(self, opens: bool) -> Result<RpcOutcome, McpErrorKind> {
        let is_answer_of_server = matches!(
            self.error,
            McpErrorKind::HttpStatus { status, retry_after: None, .. }
                if !matches!(status, 401 | 403 | 407 | 429)
        );
        match self.answer {
            RejectionAnswer::Response(outcome) if !opens && is_answer_of_server => Ok(outcome),
            RejectionAnswer::Response(Ok(result)) if !opens => Ok(Ok(result)),
            _ => Err(self.error),
        }
    }
}

struct RejectionBody {
    bytes: Vec<u8>,
    is_complete: bool,
}

impl RejectionBody {
    async fn read(response: &mut reqwest::Response) -> Self {
        const BODY_TIMEOUT: Duration = Duration::from_secs(2);
        let is_encoded = content_encoding(response).is_some();
        let mut bytes = Vec::new();
        let read = async {
            while let Ok(chunk) = response.chunk().await {
                let Some(chunk) = chunk else {
                    return true;
                };
                let room = MAX_REASON_LEN - bytes.len();
                bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return false;
                }
            }
            false
        };
        let is_complete = timeout(BODY_TIMEOUT, read).await.unwrap_or(false);
        let is_complete = is_complete && (bytes.is_empty() || !is_encoded);
        Self { bytes, is_complete }
    }

    fn answer(&self, request: &RpcRequestId) -> RejectionAnswer {
        let is_stream = BodyForm::of(&self.bytes) == Some(BodyForm::EventStream);
        let parsed = if is_stream {
            Some(self.events())
        } else {
            let text = String::from_utf8_lossy(&self.bytes);
            Incoming::parse(text.trim_start_matches('\u{feff}').trim()).ok()
        };
        let is_damaged = parsed.is_none();
        for message in parsed.into_iter().flatten() {
            if let Incoming::Response { id, outcome } = message
                && id.equals_loosely(request)
            {
                return RejectionAnswer::Response(outcome);
            }
        }
        let has_id = || MessageId::of(&self.bytes).is_some_and(|id| id.equals_loosely(request));
        if !self.is_complete || is_damaged && has_id() {
            return RejectionAnswer::Unknown;
        }
        RejectionAnswer::Missing
    }

    /// Returns the messages of an event stream, as far as the stream was read.
    fn events(&self) -> Vec<Incoming> {
        let mut decoder = SseDecoder::new(MAX_REASON_LEN);
        let mut messages = Vec::new();
        if decoder.feed(&self.bytes).is_ok() {
            drop(decoder.finish());
        }
        while let Some(event) = decoder.next_event() {
            messages.extend(messages_of(&event));
        }
        messages
    }
}
