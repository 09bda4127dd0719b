use std::convert::Infallible;
use std::fmt::Write;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use pillion_core::pack::{Heard, StreamListener};
use pillion_wire::{StreamEntry, StreamList};
use tokio::time::timeout;

use super::error::RequestError;
use super::events::HEARTBEAT;
use super::tagged::Known;
use crate::access::Grant;
use crate::app::App;

/// Lists the event streams of packs.
#[utoipa::path(
    get,
    path = "/api/v1/streams/",
    tag = "events",
    summary = "List the event streams of packs",
    params(("if-none-match" = Option<String>, Header, description = "The `ETag` of the list that the client has")),
    responses(
        (status = 200, description = "The streams", body = StreamList),
        (status = 304, description = "The list is the same"),
    )
)]
pub(super) async fn list(State(app): State<App>, known: Known) -> Result<Response, RequestError> {
    let streams = app.packs().streams().iter().map(|stream| StreamEntry {
        name: stream.name().to_owned(),
        uri: stream.uri().to_owned(),
        description: stream.description().to_owned(),
    });
    known.or(&StreamList {
        success: true,
        streams: streams.collect(),
    })
}

/// What happens in a part of a pack, as it happens (K2).
#[utoipa::path(
    get,
    path = "/api/v1/streams/{name}",
    tag = "events",
    summary = "Listen to an event stream of a pack",
    description = "Server-sent events, as those of `/api/v1/events`: the first is `ready`, whose id is a place to come back to; with `Last-Event-ID` the stream goes on after that event, and `reset` says that events in between are lost. A token that was made for one user hears of that user's events.",
    params(
        ("name" = String, Path, description = "The stream's name"),
        ("last-event-id" = Option<String>, Header, description = "The id of the last event that was seen"),
    ),
    responses(
        (status = 200, description = "The events", content_type = "text/event-stream", body = String),
        (status = 404, description = "There is no such stream"),
    )
)]
pub(super) async fn listen(
    State(app): State<App>,
    Extension(grant): Extension<Grant>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    let Path(name) = path.map_err(|_| RequestError::UnknownStream)?;
    let stream = app.packs().stream(&name);
    let stream = stream.ok_or(RequestError::UnknownStream)?;
    let last = headers.get("last-event-id");
    // What is no text is nothing that we have sent.
    let last = last.map(|last| last.to_str().unwrap_or_default());
    let outgoing = Outgoing {
        listener: stream.listen(last),
        only_of: grant.calls_of().map(str::to_owned),
    };
    let body = outgoing.until(app.process().draining());
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    Ok((headers, body).into_response())
}

/// A stream on its way to one who listens.
struct Outgoing {
    listener: StreamListener,
    /// The user of whose events alone it tells, where that is one user.
    only_of: Option<String>,
}

impl Outgoing {
    /// It takes the next events when the connection has room for them, and not before. It ends when
    /// the sidecar stops.
    fn until(self, stopping: impl Future<Output = ()> + Send + 'static) -> Body {
        let begin = (self, Box::pin(stopping));
        let stream = unfold(begin, async |(mut outgoing, mut stopping)| {
            let next = tokio::select! {
                biased;
                () = &mut stopping => return None,
                next = timeout(HEARTBEAT, outgoing.next()) => next,
            };
            let next = next.unwrap_or(Bytes::from_static(b": \n\n"));
            Some((Ok::<_, Infallible>(next), (outgoing, stopping)))
        });
        Body::from_stream(Box::pin(stream))
    }

    /// The next event that it may tell of. Its future may be dropped, and nothing is lost.
    async fn next(&mut self) -> Bytes {
        loop {
            let heard = self.listener.next().await;
            if let Heard::Event(event) = &heard
                && self.only_of.is_some()
                && self.only_of != event.user
            {
                continue;
            }
            if let Some(text) = written(&heard) {
                return text.into();
            }
        }
    }
}

fn written(heard: &Heard) -> Option<String> {
    let mut text = String::new();
    let (id, kind, data) = match heard {
        Heard::Ready { id } => {
            text.push_str("retry: 2000\n");
            (id, "ready", "{}")
        }
        Heard::Reset { id } => (id, "reset", "{}"),
        Heard::Event(event) => (&event.id, event.kind.as_str(), &*event.data),
        _ => return None,
    };
    // Writing to a string cannot fail.
    let _ = write!(text, "id: {id}\nevent: {kind}\ndata: {data}\n\n");
    Some(text)
}
