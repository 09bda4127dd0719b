//! Streams of the sidecar's events, and of the events of packs.

use std::fmt::Write;
use std::pin::Pin;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use pillion_core::pack::{StreamListener, StreamMessage};
use pillion_wire::{StreamEntry, StreamList, route};
use serde::Deserialize;

use super::etag::EntityTags;
use super::event_stream::{self, last_event_id};
use super::parameters::{Parameters, PathParameter};
use crate::app::App;
use pillion_gateway::access::{AccessGrant, TokenValidity};
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::events::{Event, EventKinds, Listener};
use pillion_gateway::visibility::Visibility;
use pillion_management::error::{NOT_FOUND, RequestError, Result, route_error};

/// The filter of the event stream.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EventQuery {
    /// Restricts the stream to events of these types, separated by commas: `call.pending`,
    /// `call.started`, `call.ended`, `server.status`, `tools.changed`, `approval.requested`,
    /// `approval.decided`, `chat.stopped`, `configuration.reloaded`. The part before the dot
    /// selects all types of that group.
    #[param(
        pattern = "^(call|server|tools|approval|chat|configuration)(,(call|server|tools|approval|chat|configuration))*$"
    )]
    types: Option<String>,
}

/// Stream events.
///
/// Returns server-sent events. The first event is `ready`; its ID is a position from which a client
/// can resume. With `Last-Event-ID`, the stream resumes after that event; the event `reset` means
/// that events in between are lost. An idle stream sends a comment every 15 s. With a token that is
/// restricted to one user, the stream has only the events of calls, approvals and chats with that
/// verified user, and events that belong to no user.
#[utoipa::path(
    get,
    path = route::WATCH_EVENTS.path,
    params(
        EventQuery,
        ("last-event-id" = Option<String>, Header, description = "The ID of the last event that the client received"),
    ),
    responses(
        (status = 200, description = "The events", content_type = "text/event-stream", body = String),
        (status = 400, description = "An event type is unknown"),
    )
)]
pub(super) async fn events(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    token_validity: TokenValidity,
    headers: HeaderMap,
    Parameters(query): Parameters<EventQuery>,
) -> Result<Response> {
    let kinds = EventKinds::parse(query.types.as_deref().unwrap_or_default());
    let events = &app.process().events;
    let listener = events
        .listen(
            last_event_id(&headers),
            kinds.ok_or_else(unknown_type_error)?,
        )
        .for_user(grant.only_user().map(str::to_owned));
    Ok(event_stream::respond_with_events(listener, token_validity))
}

impl event_stream::EventSource for Listener {
    async fn next(&mut self) -> Option<Bytes> {
        Listener::next(self).await
    }
}

fn unknown_type_error() -> RequestError {
    let kinds = Event::KINDS.join(", ");
    let expected = format!("a comma-separated list of {kinds}, or of their parts before the dot");
    RequestError::invalid_parameter("types", expected)
}

route_error! {
    /// There is no event stream with the requested name that the client may see.
    #[derive(Debug, thiserror::Error)]
    #[error("There is no event stream '{0}'")]
    struct UnknownStream(String) => NOT_FOUND
}

/// List the event streams of packs.
#[utoipa::path(
    get,
    path = route::LIST_STREAMS.path,
    params(("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the list")),
    responses(
        (status = 200, description = "The streams", body = StreamList),
        (status = 304, description = "The list has not changed"),
    )
)]
pub(super) async fn list(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    client_tags: EntityTags,
) -> Result<Response> {
    let packs = app.visible_packs(&Visibility::new(grant.tools));
    let streams = packs.streams().map(|stream| StreamEntry {
        name: stream.name().to_owned(),
        uri: stream.uri().to_owned(),
        description: stream.description().to_owned(),
    });
    client_tags.respond(&StreamList {
        success: true,
        streams: streams.collect(),
    })
}

/// Stream the events of a pack.
///
/// Returns server-sent events, like `/api/v1/events`. The first event is `ready`; its ID is a
/// position from which a client can resume. With `Last-Event-ID`, the stream resumes after that
/// event; the event `reset` means that events in between are lost. With a token that is restricted
/// to one user, the stream has only that user's events.
#[utoipa::path(
    get,
    path = route::WATCH_STREAM.path,
    params(
        ("name" = String, Path, description = "The stream's name"),
        ("last-event-id" = Option<String>, Header, description = "The ID of the last event that the client received"),
    ),
    responses(
        (status = 200, description = "The events", content_type = "text/event-stream", body = String),
        (status = 404, description = "Stream not found, or the token may not use any tool of the stream's pack"),
    )
)]
pub(super) async fn listen(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    token_validity: TokenValidity,
    PathParameter(name): PathParameter,
    headers: HeaderMap,
) -> Result<Response> {
    let packs = app.visible_packs(&Visibility::new(grant.tools.clone()));
    let stream = packs
        .stream(&name)
        .ok_or_else(|| UnknownStream(truncate_input(&name)))?;
    let pack_events = PackEventStream {
        listener: stream.listen(last_event_id(&headers)),
        only_user: grant.only_user().map(str::to_owned),
        shutdown: Box::pin(app.process().wait_for_draining()),
    };
    Ok(event_stream::respond_with_events(
        pack_events,
        token_validity,
    ))
}

/// A pack stream that is sent to a client.
struct PackEventStream {
    listener: StreamListener,
    /// If set, only this user's events are sent.
    only_user: Option<String>,
    /// Resolves when the sidecar stops.
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl event_stream::EventSource for PackEventStream {
    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            biased;
            () = &mut self.shutdown => None,
            event = next_event(&mut self.listener, self.only_user.as_deref()) => Some(event),
        }
    }
}

/// Returns the next event that the client may see. Cancellation-safe: dropping the future loses no
/// event.
async fn next_event(listener: &mut StreamListener, only_user: Option<&str>) -> Bytes {
    loop {
        let message = listener.next().await;
        if let StreamMessage::Event(event) = &message
            && only_user.is_some()
            && only_user != event.user.as_deref()
        {
            continue;
        }
        if let Some(text) = to_sse(&message) {
            return text.into();
        }
    }
}

fn to_sse(message: &StreamMessage) -> Option<String> {
    let mut text = String::new();
    let (id, kind, data) = match message {
        StreamMessage::Ready { id } => {
            text.push_str("retry: 2000\n");
            (id, "ready", "{}")
        }
        StreamMessage::Reset { id } => (id, "reset", "{}"),
        StreamMessage::Event(event) => (&event.id, event.kind.as_str(), &*event.data),
        _ => return None,
    };
    // Writing to a string never fails.
    let _ = write!(text, "id: {id}\nevent: {kind}\ndata: {data}\n\n");
    Some(text)
}
