use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use pillion_core::tool::TraceContext;
use pillion_wire::{REQUEST_ID_HEADER, route};
use tracing::{Instrument, field};
use uuid::Uuid;

use crate::app::App;
use pillion_gateway::access::Peer;
use pillion_gateway::telemetry::Span;

/// Maximum length of a client's request ID, in bytes.
const MAX_ID_LEN: usize = 128;

/// Routes that are polled every few seconds.
const POLLED_ROUTES: [&str; 4] = [
    route::HEALTH.path,
    route::READY.path,
    route::METRICS.path,
    route::STATUS.path,
];

/// The ID of a request, which is also the ID of its call. Stored as a request extension.
#[derive(Clone)]
pub(super) struct HttpRequestId(pub(super) Arc<str>);

/// Assigns the request ID and the trace context, opens the span of the request's log lines, and
/// writes one log line when the request is finished. Arguments and results are never logged.
pub(super) async fn log(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = id_of(&request);
    let header = HeaderValue::from_str(&id).ok();
    request
        .extensions_mut()
        .insert(HttpRequestId(Arc::clone(&id)));
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    // Logs the route's pattern, because the path may contain arbitrary data.
    let route = route
        .as_ref()
        .map_or("unknown", MatchedPath::as_str)
        .to_owned();
    let span = tracing::info_span!(
        "request",
        request_id = %id, tool_name = field::Empty, client = field::Empty,
        uid = field::Empty, pid = field::Empty, address = field::Empty, trace_id = field::Empty
    );
    match request.extensions().get::<Peer>() {
        Some(Peer::Process { uid, pid, .. }) => {
            span.record("uid", uid);
            span.record("pid", pid);
        }
        Some(Peer::Network { address }) => {
            span.record("address", field::display(address));
        }
        None => {}
    }
    let is_watched = POLLED_ROUTES
        .iter()
        .any(|watched| route.starts_with(watched));
    let telemetry = app.process().telemetry.as_ref().filter(|_| !is_watched);
    let mut traced = telemetry.map(|telemetry| {
        let parent = trace_of(request.headers());
        telemetry.http_request(method.as_str(), &route, &id, parent.as_ref())
    });
    let trace = traced.as_ref().and_then(Span::context);
    if let Some(trace) = trace.or_else(|| trace_of(request.headers())) {
        span.record("trace_id", trace.trace_id());
        request.extensions_mut().insert(trace);
    }
    let started = Instant::now();

    let mut response = next.run(request).instrument(span.clone()).await;

    let elapsed = started.elapsed();
    let duration_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let status = response.status().as_u16();
    let requests = &app.metrics().requests;
    requests.add(method.as_str(), &route, status, elapsed);
    if let Some(traced) = &mut traced {
        traced.http_status(status);
    }
    drop(traced);
    let _entered = span.enter();
    // `tracing` fixes the level of an event at compile time.
    macro_rules! finished {
        ($level:ident) => {
            tracing::$level!(%method, route, status, duration_ms, "Request finished")
        };
    }
    // An MCP server failed, not the sidecar.
    let is_of_upstream = matches!(status, 502 | 504);
    if is_of_upstream {
        finished!(warn);
    } else if status >= 500 && route != route::READY.path {
        finished!(error);
    } else if is_watched {
        finished!(debug);
    } else {
        finished!(info);
    }
    if let Some(header) = header {
        response.headers_mut().insert(REQUEST_ID_HEADER, header);
    }
    response
}

/// Returns the trace context of the request (W3C Trace Context).
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |header| headers.get(header)?.to_str().ok();
    TraceContext::parse(text("traceparent")?, text("tracestate"))
}

/// Returns the client's request ID if it is short visible ASCII, else a new one.
fn id_of(request: &Request) -> Arc<str> {
    let brought = request.headers().get(REQUEST_ID_HEADER);
    let brought = brought.and_then(|value| value.to_str().ok());
    match brought {
        Some(id) if (1..=MAX_ID_LEN).contains(&id.len()) => id.into(),
        _ => Uuid::now_v7().to_string().into(),
    }
}
