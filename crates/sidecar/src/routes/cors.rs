//! Headers that let the web pages of `tcp.allowed_origins` use the API (Fetch Standard, "CORS
//! protocol").

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_REQUEST_HEADERS, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderName, Method};
use axum::middleware::Next;
use axum::response::Response;
use pillion_gateway::access::Peer;
use pillion_wire::{
    APPROVAL_HEADER, APPROVAL_WAIT_HEADER, CHANNEL_HEADER, IDEMPOTENCY_KEY_HEADER,
    IDEMPOTENCY_REPLAYED_HEADER, REQUEST_ID_HEADER, USER_HEADER,
};
use tower::{Layer, ServiceExt};
use tower_http::cors::{AllowOrigin, AllowPrivateNetwork, CorsLayer};

use super::compatible::{CHAT_HEADER, SHOULD_RETRY_HEADER};
use crate::app::App;

/// The time for which a browser may cache the response to a preflight request. If an origin is
/// removed from the configuration, its pages get 403 at once, regardless of this time.
const PREFLIGHT_CACHE_TTL: Duration = Duration::from_secs(600);

/// The methods of the API.
const ALLOWED_METHODS: [Method; 6] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];

/// The request headers of the API.
const REQUEST_HEADERS: [HeaderName; 18] = [
    AUTHORIZATION,
    CONTENT_TYPE,
    IF_NONE_MATCH,
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static(IDEMPOTENCY_KEY_HEADER),
    HeaderName::from_static(REQUEST_ID_HEADER),
    HeaderName::from_static(USER_HEADER),
    HeaderName::from_static(CHANNEL_HEADER),
    HeaderName::from_static(APPROVAL_HEADER),
    HeaderName::from_static(APPROVAL_WAIT_HEADER),
    CHAT_HEADER,
];

/// The response headers that a page may read, in addition to headers such as `Content-Type`, which
/// every page may read.
const EXPOSED_HEADERS: [HeaderName; 8] = [
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static(REQUEST_ID_HEADER),
    HeaderName::from_static(IDEMPOTENCY_REPLAYED_HEADER),
    CHAT_HEADER,
    SHOULD_RETRY_HEADER,
    RETRY_AFTER,
    WWW_AUTHENTICATE,
    ETAG,
];

/// Handles CORS for web pages of the configured origins: responds to preflight requests, which
/// carry no token, and adds the CORS headers to all other responses, including errors. Other
/// requests are forwarded unchanged; [`AccessGate`](pillion_gateway::access::AccessGate) rejects
/// requests of other web pages.
pub(super) async fn admit_pages(State(app): State<App>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let is_remote = matches!(parts.extensions.get(), Some(Peer::Network { .. }));
    let gate = app.access().gate.as_ref().filter(|_| is_remote);
    let is_from_page = gate.is_some_and(|gate| gate.is_from_configured_page(&parts));
    let request = Request::from_parts(parts, body);
    if !is_from_page {
        return next.run(request).await;
    }
    let layer = CorsLayer::new()
        .allow_origin(AllowOrigin::mirror_request())
        .allow_methods(ALLOWED_METHODS)
        .allow_headers(allowed_headers(request.headers()))
        .allow_private_network(AllowPrivateNetwork::yes())
        .expose_headers(EXPOSED_HEADERS)
        .max_age(PREFLIGHT_CACHE_TTL);
    let layer_outcome = layer.layer(next).oneshot(request).await;
    layer_outcome.unwrap_or_else(|never| match never {})
}

/// Returns the headers that the page may send: the headers of the API, and the headers that the
/// page requests. Requested headers cannot be listed in advance: `Mcp-Param-*` have the names of a
/// tool's parameters, and the clients of OpenAI and Anthropic send many additional headers. A
/// request needs a token whatever its headers are.
fn allowed_headers(preflight: &HeaderMap) -> Vec<HeaderName> {
    let requested_names = preflight
        .get_all(ACCESS_CONTROL_REQUEST_HEADERS)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse::<HeaderName>().ok())
        // `*` in a list of allowed headers would allow all headers.
        .filter(|name| name.as_str() != "*");
    let mut allowed_names = REQUEST_HEADERS.to_vec();
    for name in requested_names {
        if !REQUEST_HEADERS.contains(&name) {
            allowed_names.push(name);
        }
    }
    allowed_names
}
