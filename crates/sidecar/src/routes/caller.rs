use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use pillion_core::tool::{ApprovalWish, CallContext, TraceContext};
use pillion_wire::{APPROVAL_HEADER, APPROVAL_WAIT_HEADER, CHANNEL_HEADER, USER_HEADER};
use serde::Deserialize;

use super::error::RequestError;
use crate::access::{Grant, Peer, Scope};
use crate::app::App;
use crate::config::AskClients;

/// Longest user or channel, in bytes: the rate limiter keeps them.
const LONGEST_BYTES: usize = 256;

/// On whose behalf the request runs, from its headers. The socket's permissions say who
/// may connect; whoever does is trusted to name the user.
pub(super) struct Caller(pub(super) CallContext);

impl FromRequestParts<App> for Caller {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, RequestError> {
        let approval = ApprovalWish {
            named: text_of(parts, APPROVAL_HEADER)?,
            wait: wait_of(parts)?,
            decider: decider_of(parts, app),
        };
        Ok(Self(CallContext {
            user: text_of(parts, USER_HEADER)?,
            channel: text_of(parts, CHANNEL_HEADER)?,
            principal: principal_of(parts),
            caller: Some("rest".to_owned()),
            approval,
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

/// Who the caller is, if it may be asked to decide on its own call.
fn decider_of(parts: &Parts, app: &App) -> Option<String> {
    let grant = parts.extensions.get::<Grant>()?;
    let may_decide = match app.approvals().section().ask_clients {
        AskClients::Deciders => grant.allows(Scope::Approve),
        AskClients::All => true,
        AskClients::Nobody => false,
    };
    may_decide.then(|| grant.holder(parts.extensions.get()))
}

/// How long the request may wait for a decision; the query wins.
fn wait_of(parts: &Parts) -> Result<Duration, RequestError> {
    #[derive(Deserialize)]
    struct Asked {
        wait_ms: Option<i64>,
    }
    let asked = Query::<Asked>::try_from_uri(&parts.uri);
    let Query(asked) = asked.map_err(|_| RequestError::BadQuery)?;
    let millis = match (asked.wait_ms, text_of(parts, APPROVAL_WAIT_HEADER)?) {
        (Some(millis), _) => {
            u64::try_from(millis).map_err(|_| RequestError::BadParameter { name: "wait_ms" })?
        }
        (None, None) => 0,
        (None, Some(text)) => text.parse().map_err(|_| RequestError::BadParameter {
            name: APPROVAL_WAIT_HEADER,
        })?,
    };
    Ok(Duration::from_millis(millis))
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
