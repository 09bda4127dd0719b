//! The event stream after whose events a page loads its live parts again.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use pillion_gateway::access::{AccessGate, SessionLifetime};
use pillion_gateway::events::{EventKinds, Listener};
use pillion_gateway::process::Process;
use tokio::time::{sleep, timeout};

use crate::Console;
use crate::admission::{SessionCookie, check_token};
use crate::error::{PageError, Result};
use crate::form::QueryFields;
use crate::visitor::Visitor;

/// Minimum interval between two events of a stream. Everything that happens meanwhile is one change.
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which a comment is sent, so that a broken connection is detected, and at which the
/// session is checked.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// The events of one page. Does not keep the [`Console`], because that would keep the tools and
/// connections of a configuration that a reload has replaced.
struct ChangeStream {
    listener: Listener,
    session: StreamSession,
    /// Resolves when a reload has replaced the configuration.
    reload: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The session to which a stream belongs.
struct StreamSession {
    process: Arc<Process>,
    gate: Option<Arc<AccessGate>>,
    lifetime: SessionLifetime,
    /// `None` if an application forwards the requests of the browser.
    cookie: Option<SessionCookie>,
}

/// Sends the event `change` whenever something has changed that the query's `types` name, until the
/// session ends or the configuration is reloaded. The script then opens another stream, for which
/// the new configuration applies.
pub(crate) async fn changes(
    State(console): State<Console>,
    visitor: Visitor,
    cookie: Option<Extension<SessionCookie>>,
    QueryFields(query): QueryFields,
) -> Result<Response> {
    let kinds = EventKinds::parse(query.get("types").unwrap_or_default())
        .ok_or(PageError::NotFound("There is no such kind of event."))?;
    let process = console.gateway.process();
    let only_user = visitor.grant().only_user().map(str::to_owned);
    let changes = ChangeStream {
        listener: process.events.listen(None, kinds).for_user(only_user),
        session: StreamSession {
            process: Arc::clone(process),
            gate: console.gate.clone(),
            lifetime: console.session_lifetime(),
            cookie: cookie.map(|Extension(cookie)| cookie),
        },
        reload: Box::pin(process.wait_for_reload_after(console.applied_reloads)),
    };
    let stream = unfold(changes, async |mut changes| {
        let event = changes.next().await?;
        Some((Ok::<_, Infallible>(event), changes))
    });
    let content_type = [(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))];
    Ok((content_type, Body::from_stream(stream)).into_response())
}

impl ChangeStream {
    /// Returns the next event or comment; `None` if the stream ends.
    async fn next(&mut self) -> Option<Bytes> {
        let next_event = tokio::select! {
            biased;
            () = &mut self.reload => return None,
            event = timeout(HEARTBEAT_INTERVAL, self.listener.next()) => event,
        };
        if !self.session.is_valid().await {
            return None;
        }
        match next_event {
            Ok(event) => {
                event?;
                // The events of the interval are skipped: one update of the page shows them all.
                let interval = sleep(CHANGE_INTERVAL);
                tokio::pin!(interval);
                loop {
                    tokio::select! {
                        biased;
                        () = &mut interval => break,
                        () = &mut self.reload => return None,
                        event = self.listener.next() => { event?; }
                    }
                }
                Some(Bytes::from_static(b"event: change\ndata: {}\n\n"))
            }
            Err(_) => Some(Bytes::from_static(b":\n\n")),
        }
    }
}

impl StreamSession {
    /// Returns whether the browser is still signed in. A browser whose requests an application
    /// forwards counts as signed in: the application ends its stream.
    async fn is_valid(&self) -> bool {
        let Some(SessionCookie(cookie)) = &self.cookie else {
            return true;
        };
        let sessions = &self.process.browser_sessions;
        match sessions.peek(cookie, self.lifetime) {
            Some(session) => check_token(self.gate.as_ref(), &session)
                .await
                .unwrap_or(false),
            None => false,
        }
    }
}
