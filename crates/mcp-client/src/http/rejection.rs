use std::time::Duration;

use http::HeaderValue;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use pillion_sse::{SseDecoder, SseEvent};
use tokio::time::timeout;

use super::body_form::BodyForm;
use super::response::{content_encoding, parse_event};
use crate::message::{IncomingMessage, ResponseIdScan, RpcOutcome, RpcRequestId};
use crate::session_loss::{ResponseForm, ResponseTopic, SessionLoss, session_loss};
use crate::{McpErrorKind, RpcError};

/// Maximum size of the body of an HTTP error, in bytes. The rest is not read.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// A response whose HTTP status is not a success.
pub(crate) struct Rejection {
    /// The [`McpErrorKind::HttpStatus`] of the response.
    pub(crate) error: McpErrorKind,
    pub(crate) response: RejectionResponse,
    /// The topic of the JSON-RPC error's message, or of the body if it has no JSON-RPC error.
    topic: ResponseTopic,
}

/// Whether the body of an HTTP error is the response to its request. Only
/// [`RejectionResponse::Missing`] allows concluding from the status that the server has not
/// processed the request.
pub(crate) enum RejectionResponse {
    /// The body is not the response to the request: it is not JSON-RPC, or its ID is missing or
    /// differs.
    Missing,
    /// The body was cut off, too large or damaged, and may be the response to the request.
    Unknown,
    /// The JSON-RPC response with the ID of the request.
    Response(RpcOutcome),
}

impl Rejection {
    /// Reads the head and the body of an HTTP error response to the request with the given ID.
    pub(crate) async fn read(
        mut response: reqwest::Response,
        request_id: Option<&RpcRequestId>,
    ) -> Self {
        let header_text = |header: Option<&HeaderValue>| {
            let value = header?.to_str().ok()?;
            Some(value.chars().take(1024).collect::<String>())
        };
        let headers = response.headers();
        let retry_after_seconds =
            header_text(headers.get(RETRY_AFTER)).and_then(|text| text.trim().parse().ok());
        let challenge = header_text(headers.get(WWW_AUTHENTICATE));
        let status = response.status().as_u16();
        let body = RejectionBody::read(&mut response).await;
        let rpc_response = request_id.map_or(RejectionResponse::Missing, |id| body.response_to(id));
        let rpc_error = match &rpc_response {
            RejectionResponse::Response(Err(error)) => Some(error.clone()),
            _ => body.find_rpc_error(),
        };
        let topic = match &rpc_error {
            Some(error) => ResponseTopic::from_text(&error.message),
            None => ResponseTopic::from_text(&String::from_utf8_lossy(&body.bytes)),
        };
        let error = McpErrorKind::HttpStatus {
            status,
            retry_after: retry_after_seconds.map(Duration::from_secs),
            challenge,
            rpc_error: rpc_error.map(Box::new),
        };
        Self {
            error,
            response: rpc_response,
            topic,
        }
    }

    /// Returns whether the HTTP error means that the server no longer knows the session of the
    /// request. `has_session` is `true` if the request named a session.
    pub(crate) fn session_loss(&self, has_session: bool) -> SessionLoss {
        let McpErrorKind::HttpStatus {
            status,
            retry_after,
            challenge,
            rpc_error,
        } = &self.error
        else {
            return SessionLoss::None;
        };
        let form = match (&self.response, rpc_error) {
            (RejectionResponse::Response(Ok(_)) | RejectionResponse::Unknown, _) => {
                return SessionLoss::None;
            }
            (RejectionResponse::Response(Err(_)), _) => ResponseForm::RpcResponse,
            (RejectionResponse::Missing, Some(error)) => ResponseForm::Error(error.code),
            (RejectionResponse::Missing, None) => ResponseForm::Other,
        };
        // A response with a challenge or a `Retry-After` is not about the session, but about the
        // credential or the time of the next request.
        if *status != 404 && (challenge.is_some() || retry_after.is_some()) {
            return SessionLoss::None;
        }
        session_loss(*status, form, self.topic, has_session)
    }

    /// Returns whether the server knows the session, according to this HTTP error in response to a
    /// `ping`; `None` if the status means that the server is busy or failed.
    pub(crate) fn knows_session(&self, has_session: bool) -> Option<bool> {
        if self.session_loss(has_session) != SessionLoss::None {
            return Some(false);
        }
        let is_busy = |status: u16| matches!(status, 408 | 425 | 429 | 500..);
        let was_busy =
            matches!(self.error, McpErrorKind::HttpStatus { status, .. } if is_busy(status));
        (!was_busy).then_some(true)
    }

    /// Returns the JSON-RPC response to the request, if the body contains one.
    ///
    /// # Errors
    /// The HTTP error, if the body contains no JSON-RPC response to the request, or if the status
    /// itself matters to the caller. The status matters for requests that open a session
    /// (`opens_session`), and if the server requests a credential or a pause.
    pub(crate) fn into_outcome(self, opens_session: bool) -> Result<RpcOutcome, McpErrorKind> {
        let is_error_of_request = matches!(
            self.error,
            McpErrorKind::HttpStatus { status, retry_after: None, .. }
                if !matches!(status, 401 | 403 | 407 | 429)
        );
        match self.response {
            RejectionResponse::Response(outcome) if !opens_session && is_error_of_request => {
                Ok(outcome)
            }
            RejectionResponse::Response(Ok(result)) if !opens_session => Ok(Ok(result)),
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
        let read_operation = async {
            while let Ok(chunk) = response.chunk().await {
                let Some(chunk) = chunk else {
                    return true;
                };
                let remaining_bytes = MAX_BODY_BYTES - bytes.len();
                bytes.extend_from_slice(&chunk[..chunk.len().min(remaining_bytes)]);
                if chunk.len() > remaining_bytes {
                    return false;
                }
            }
            false
        };
        let has_ended = timeout(BODY_TIMEOUT, read_operation).await.unwrap_or(false);
        Self {
            is_complete: has_ended && (bytes.is_empty() || !is_encoded),
            bytes,
        }
    }

    /// Returns the first JSON-RPC error in the body, whatever its ID.
    fn find_rpc_error(&self) -> Option<RpcError> {
        if !self.is_stream() {
            return RpcError::from_error_body(&self.bytes);
        }
        let mut events = self.parse_events().into_iter();
        events.find_map(|event| RpcError::from_error_body(event.data.as_bytes()))
    }

    /// Returns whether the body is the response to the request with this ID.
    fn response_to(&self, request_id: &RpcRequestId) -> RejectionResponse {
        let messages: Option<Vec<IncomingMessage>> = if self.is_stream() {
            Some(self.parse_events().iter().flat_map(parse_event).collect())
        } else {
            let text = String::from_utf8_lossy(&self.bytes);
            IncomingMessage::parse(text.trim_start_matches('\u{feff}').trim()).ok()
        };
        let is_damaged = messages.is_none();
        for message in messages.into_iter().flatten() {
            if let IncomingMessage::Response { id, outcome } = message
                && id == *request_id
            {
                return RejectionResponse::Response(outcome);
            }
        }
        let contains_id = || ResponseIdScan::find(&self.bytes).is_some_and(|id| id == *request_id);
        if !self.is_complete || is_damaged && contains_id() {
            return RejectionResponse::Unknown;
        }
        RejectionResponse::Missing
    }

    fn is_stream(&self) -> bool {
        BodyForm::detect(&self.bytes) == Some(BodyForm::EventStream)
    }

    /// Returns the events of a body that is an event stream, as far as the body was read.
    fn parse_events(&self) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::new(MAX_BODY_BYTES);
        if decoder.feed(&self.bytes).is_ok() {
            drop(decoder.finish());
        }
        std::iter::from_fn(|| decoder.next_event()).collect()
    }
}
