//! Streamable HTTP of all revisions at one endpoint: a POST belongs to revision 2026-07-28 if the
//! request names that revision, and otherwise to a session (MCP 2026-07-28 and 2025-11-25,
//! "Transports").

mod headers;
mod legacy;
mod modern;
mod stream;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pillion_mcp_client::{Feature, ProtocolVersion, RpcError};
use serde_json::value::RawValue;

use super::Caller;
use super::stateless::VERSION_HEADER;
use crate::lines::trim_message;
use pillion_gateway::access::TokenValidity;
use pillion_gateway::calling_client::message::{self, INVALID_REQUEST, Inbound, UnreadableMessage};

const JSON_MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/json");

/// A request with the context that all handlers need.
pub struct Exchange<'a> {
    /// The sender of the request, and the MCP server that handles the request.
    pub caller: Caller,
    /// The headers of the HTTP request.
    pub headers: &'a HeaderMap,
    /// Whether the origin was already checked. Over TCP, the access gate checks the origin with
    /// `tcp.allowed_origins`.
    pub is_origin_checked: bool,
    /// Checks, for streams that stay open, that the token of the request is still valid.
    pub token_validity: TokenValidity,
}

impl Exchange<'_> {
    /// Handles a POST: a message, or a batch of messages, in any revision.
    pub async fn post(self, body: &[u8]) -> Response {
        if let Some(rejection) = self.reject_origin() {
            return rejection;
        }
        let Ok(text) = std::str::from_utf8(body) else {
            let reason = "Parse error: the body is not valid UTF-8";
            let error = RpcError::new(message::PARSE_ERROR, reason);
            return error_response(StatusCode::BAD_REQUEST, None, error);
        };
        let trimmed_text = trim_message(text);
        if trimmed_text.starts_with('[') {
            return legacy::batch(&self, trimmed_text).await;
        }
        let inbound = match Inbound::parse(text) {
            Ok(inbound) => inbound,
            Err(UnreadableMessage { id, error }) => {
                return error_response(StatusCode::BAD_REQUEST, id.as_deref(), error);
            }
        };
        if self.is_stateless(&inbound) {
            modern::post(&self, inbound).await
        } else {
            legacy::post(&self, inbound).await
        }
    }

    /// Handles a GET: opens the stream of a session.
    pub fn get(&self) -> Response {
        self.handle_in_session(legacy::get)
    }

    /// Handles a DELETE: ends a session.
    pub fn delete(&self) -> Response {
        self.handle_in_session(legacy::delete)
    }

    fn reject_origin(&self) -> Option<Response> {
        if self.is_origin_checked {
            return None;
        }
        headers::reject_origin(self.headers)
    }

    /// Handles a request that exists only in revisions with sessions.
    fn handle_in_session(&self, handler: fn(&Self) -> Response) -> Response {
        if let Some(rejection) = self.reject_origin() {
            return rejection;
        }
        if self.declares_stateless_version() {
            return post_only_response();
        }
        handler(self)
    }

    /// Returns whether the version header names a revision without sessions.
    fn declares_stateless_version(&self) -> bool {
        let header = self.version_header();
        let version = header.and_then(|version| version.parse::<ProtocolVersion>().ok());
        version.is_some_and(|version| version.supports(Feature::RequestMetadata))
    }

    fn version_header(&self) -> Option<&str> {
        self.headers.get(VERSION_HEADER)?.to_str().ok()
    }

    /// Returns whether a message belongs to a revision without sessions. This is the case if one of
    /// these conditions holds.
    ///
    /// - The version header names a revision without sessions.
    /// - There is no session ID, and the message is a `server/discover` request.
    /// - There is no session ID, and the message is a request other than `initialize` that names a
    ///   revision in `_meta` or an unknown revision in the version header.
    fn is_stateless(&self, inbound: &Inbound) -> bool {
        if self.declares_stateless_version() {
            return true;
        }
        if headers::session_id(self.headers).is_some() {
            return false;
        }
        let Inbound::Request(request) = inbound else {
            return false;
        };
        if request.method == "server/discover" {
            return true;
        }
        let version = self.version_header();
        let is_unknown_version =
            version.is_some_and(|text| text.parse::<ProtocolVersion>().is_err());
        let meta = request.meta();
        request.method != "initialize"
            && (is_unknown_version || meta.contains_key(message::PROTOCOL_VERSION_KEY))
    }
}

/// Returns an HTTP response whose JSON body is one message.
fn json_response(status: StatusCode, message: axum::body::Bytes) -> Response {
    (status, [(header::CONTENT_TYPE, JSON_MEDIA_TYPE)], message).into_response()
}

/// Returns the response to a request that failed with `error`.
pub fn error_response(status: StatusCode, id: Option<&RawValue>, error: RpcError) -> Response {
    json_response(status, message::response(id, &Err(error)))
}

/// Returns status 202, the response to a POST whose message needs no response in MCP.
fn accepted_response() -> Response {
    StatusCode::ACCEPTED.into_response()
}

/// Returns an error response for a missing session, or for a message that the session does not
/// allow.
fn error_response_without_id(status: StatusCode, code: i64, reason: &str) -> Response {
    error_response(status, None, RpcError::new(code, reason))
}

fn post_only_response() -> Response {
    let mut response = error_response_without_id(
        StatusCode::METHOD_NOT_ALLOWED,
        INVALID_REQUEST,
        "Protocol versions without sessions (2026-07-28) support only POST",
    );
    let allow_header = HeaderValue::from_static("POST");
    response.headers_mut().insert(header::ALLOW, allow_header);
    response
}

/// Returns an HTTP response whose body is an event stream.
fn event_stream_response(body: Body) -> Response {
    let content_type = HeaderValue::from_static("text/event-stream");
    let cache_control = HeaderValue::from_static("no-cache, no-transform");
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, cache_control),
    ];
    (headers, body).into_response()
}
