use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use pillion_wire::route;
use serde::Deserialize;

use super::error::RequestError;
use super::event_stream::{self, last_event_id};
use super::parameters::Parameters;
use crate::app::App;
use pillion_gateway::access::{AccessGrant, TokenValidity};
use pillion_gateway::events::{Event, EventKinds, Listener};

/// The filter of the event stream.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EventQuery {
    /// Only events of these types, separated by commas: `call.pending`, `call.started`, `call.ended`,
    /// `server.status`, `tools.changed`, `approval.requested`, `approval.decided`,
    /// `configuration.reloaded`. The part before the dot selects all types of that group.
    #[param(
        pattern = "^(call|server|tools|approval|configuration)(,(call|server|tools|approval|configuration))*$"
    )]
    types: Option<String>,
}

/// Stream events.
///
/// Returns server-sent events. The first event is `ready`; its ID is a position to resume from.
/// With `Last-Event-ID`, the stream resumes after that event; the event `reset` means that events
/// in between are lost. An idle stream sends a comment every 15 s. A token for one user gets only
/// the calls and approvals in which that user is verified.
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
) -> Result<Response, RequestError> {
    let kinds = EventKinds::parse(query.types.as_deref().unwrap_or_default());
    let events = &app.process().events;
    let listener = events
        .listen(last_event_id(&headers), kinds.ok_or_else(unknown_type)?)
        .for_user(grant.only_user().map(str::to_owned));
    Ok(event_stream::respond(listener, token_validity))
}

impl event_stream::Events for Listener {
    async fn next(&mut self) -> Option<Bytes> {
        Listener::next(self).await
    }
}

fn unknown_type() -> RequestError {
    let known = Event::KINDS.join(", ");
    let expected = format!("a comma-separated list of {known}, or of their parts before the dot");
    RequestError::parameter("types", expected)
}
