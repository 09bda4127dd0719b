//! The event stream after whose events a page loads its live parts again.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use pillion_gateway::events::{EventKinds, Listener};
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

struct ChangeStream {
    listener: Listener,
    console: Console,
    cookie: Option<SessionCookie>,
}

/// Sends the event `change` whenever something has changed that the query's `types` name, until the
/// session ends.
pub(crate) async fn changes(
    State(console): State<Console>,
    visitor: Visitor,
    cookie: Option<Extension<SessionCookie>>,
    QueryFields(query): QueryFields,
) -> Result<Response> {
    let kinds = EventKinds::parse(query.get("types").unwrap_or_default())
        .ok_or(PageError::NotFound("There is no such kind of event."))?;
    let events = &console.gateway.process().events;
    let only_user = visitor.grant().only_user().map(str::to_owned);
    let changes = ChangeStream {
        listener: events.listen(None, kinds).for_user(only_user),
        console: console.clone(),
        cookie: cookie.map(|Extension(cookie)| cookie),
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
        let next_event = timeout(HEARTBEAT_INTERVAL, self.listener.next()).await;
        if !self.is_session_valid().await {
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
                        event = self.listener.next() => { event?; }
                    }
                }
                Some(Bytes::from_static(b"event: change\ndata: {}\n\n"))
            }
            Err(_) => Some(Bytes::from_static(b":\n\n")),
        }
    }

    /// Returns whether the browser is still signed in. A browser whose requests an application
    /// forwards always is: the application ends its stream.
    async fn is_session_valid(&self) -> bool {
        let Some(SessionCookie(cookie)) = &self.cookie else {
            return true;
        };
        let sessions = self.console.sessions();
        match sessions.peek(cookie, self.console.session_lifetime()) {
            Some(session) => check_token(&self.console, &session).await.unwrap_or(false),
            None => false,
        }
    }
}
