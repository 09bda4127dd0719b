use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use pillion_core::tool::{CallContext, TraceContext};
use pillion_wire::{CHANNEL_HEADER, USER_HEADER};

use super::error::RequestError;
use crate::access::{Grant, Peer};
use crate::app::App;

/// Longest user or channel, in bytes: the rate limiter keeps them.
const LONGEST_BYTES: usize = 256;

/// On whose behalf the request runs, from its headers. The socket's permissions say who
/// may connect; whoever does is trusted to name the user.
pub(super) struct Caller(pub(super) CallContext);

impl FromRequestParts<App> for Caller {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, RequestError> {
        Ok(Self(CallContext {
            user: text_of(parts, USER_HEADER)?,
            channel: text_of(parts, CHANNEL_HEADER)?,
            principal: principal_of(parts),
            caller: Some("rest".to_owned()),
            trace: trace_of(parts),
            ..CallContext::default()
        }))
    }
}

/// Who was let in. The names of tokens and of local users cannot be taken for each other.
fn principal_of(parts: &Parts) -> Option<String> {
    let Grant { name, .. } = parts.extensions.get::<Grant>()?;
    Some(match parts.extensions.get::<Peer>() {
        Some(Peer::Network { .. }) => format!("token:{name}"),
        _ => name.clone(),
    })
}

/// The trace that the request belongs to (W3C Trace Context); its id is in the log.
fn trace_of(parts: &Parts) -> Option<TraceContext> {
    let text = |header| parts.headers.get(header)?.to_str().ok();
    let trace = TraceContext::parse(text("traceparent")?, text("tracestate"))?;
    tracing::Span::current().record("trace_id", trace.trace_id());
    Some(trace)
}

/// The header's value; an empty one counts as none.
fn text_of(parts: &Parts, header: &'static str) -> Result<Option<String>, RequestError> {
    let Some(value) = parts.headers.get(header) else {
        return Ok(None);
    };
    let bytes = value.as_bytes();
    match std::str::from_utf8(bytes) {
        Ok("") => Ok(None),
        Ok(text) if bytes.len() <= LONGEST_BYTES => Ok(Some(text.to_owned())),
        _ => Err(RequestError::BadHeader {
            header,
            limit_bytes: LONGEST_BYTES,
        }),
    }
}
