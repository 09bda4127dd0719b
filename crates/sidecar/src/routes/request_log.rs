use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
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

/// Routes that clients poll every few seconds. Their requests are logged at the level debug.
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
pub(super) async fn log(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let matched = parts.extensions.get::<MatchedPath>().cloned();
    // Logs the route's pattern, because the path may contain arbitrary data.
    let route = matched.as_ref().map_or("unknown", MatchedPath::as_str);
    let logged = LoggedRequest::begin(&app, &mut parts, route);
    let header = HeaderValue::from_str(&logged.id).ok();
    let request = Request::from_parts(parts, body);
    let mut response = next.run(request).instrument(logged.span.clone()).await;
    logged.finish(&app, response.status());
    if let Some(header) = header {
        response.headers_mut().insert(REQUEST_ID_HEADER, header);
    }
    response
}

/// A running request: its log line, metrics and trace span.
pub(super) struct LoggedRequest<'r> {
    pub(super) id: Arc<str>,
    /// The span of the request's log lines.
    pub(super) span: tracing::Span,
    method: Method,
    route: &'r str,
    trace_span: Option<Span>,
    started: Instant,
}

impl<'r> LoggedRequest<'r> {
    /// Begins a request for `route`, and adds the request's ID and trace context to its extensions.
    pub(super) fn begin(app: &App, parts: &mut Parts, route: &'r str) -> Self {
        let id = id_of(&parts.headers);
        parts.extensions.insert(HttpRequestId(Arc::clone(&id)));
        let span = tracing::info_span!(
            "request",
            request_id = %id, tool_name = field::Empty, client = field::Empty,
            uid = field::Empty, pid = field::Empty, address = field::Empty, trace_id = field::Empty
        );
        match parts.extensions.get::<Peer>() {
            Some(Peer::Process { uid, pid, .. }) => {
                span.record("uid", uid);
                span.record("pid", pid);
            }
            Some(Peer::Network { address }) => {
                span.record("address", field::display(address));
            }
            None => {}
        }
        let method = parts.method.clone();
        let telemetry = app.process().telemetry.as_ref();
        let trace_span = telemetry.filter(|_| !is_polled(route)).map(|telemetry| {
            let parent = trace_of(&parts.headers);
            telemetry.http_request(method.as_str(), route, &id, parent.as_ref())
        });
        let trace = trace_span.as_ref().and_then(Span::context);
        if let Some(trace) = trace.or_else(|| trace_of(&parts.headers)) {
            span.record("trace_id", trace.trace_id());
            parts.extensions.insert(trace);
        }
        Self {
            id,
            span,
            method,
            route,
            trace_span,
            started: Instant::now(),
        }
    }

    /// Ends the request with this status.
    pub(super) fn finish(self, app: &App, status: StatusCode) {
        let (method, route) = (self.method, self.route);
        let elapsed = self.started.elapsed();
        let duration_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let status = status.as_u16();
        let requests = &app.metrics().requests;
        requests.add(method.as_str(), route, status, elapsed);
        if let Some(mut trace_span) = self.trace_span {
            trace_span.http_status(status);
        }
        let _entered = self.span.enter();
        // `tracing` requires a level that is known at compile time.
        macro_rules! finished {
            ($level:ident) => {
                tracing::$level!(%method, route, status, duration_ms, "Request finished")
            };
        }
        // These statuses mean that an MCP server failed, not the sidecar.
        let is_of_upstream = matches!(status, 502 | 504);
        if is_of_upstream {
            finished!(warn);
        } else if status >= 500 && route != route::READY.path {
            finished!(error);
        } else if is_polled(route) {
            finished!(debug);
        } else {
            finished!(info);
        }
    }
}

fn is_polled(route: &str) -> bool {
    POLLED_ROUTES.iter().any(|polled| route.starts_with(polled))
}

/// Returns the trace context of the request (W3C Trace Context).
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |header| headers.get(header)?.to_str().ok();
    TraceContext::parse(text("traceparent")?, text("tracestate"))
}

/// Returns the client's request ID if it is short visible ASCII, else a new one.
fn id_of(headers: &HeaderMap) -> Arc<str> {
    let header = headers.get(REQUEST_ID_HEADER);
    match header.and_then(|value| value.to_str().ok()) {
        Some(id) if (1..=MAX_ID_LEN).contains(&id.len()) => id.into(),
        _ => Uuid::now_v7().to_string().into(),
    }
}
