//! The routes of the HTTP API, and the middleware that they share.

mod approvals;
mod chat;
mod compatible;
mod completions;
mod console;
mod cors;
mod etag;
mod event_stream;
mod events;
mod executors;
mod extract;
mod fallback;
mod formats;
mod mcp;
mod messages;
mod models;
mod openapi;
mod operations;
mod packs;
mod parameters;
mod pins;
mod providers;
mod request_memory;
mod results;
mod schema_check;
mod servers;
mod table;
mod tool_calls;
mod tool_keys;
mod tools;
mod upgrade;
mod vault_keys;
mod workers;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{DefaultBodyLimit, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use pillion_core::tool::TraceContext;
use pillion_wire::{REQUEST_ID_HEADER, route};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{Instrument, field};
use uuid::Uuid;

use crate::app::App;
use crate::current_app::CurrentApp;
use pillion_gateway::access::{
    AccessGate, AccessGrant, AccessRejection, Admission, Peer, Scope, TokenValidity,
};
use pillion_gateway::telemetry::Span;
use request_memory::RequestMemory;

/// Maximum length of a client's request ID, in bytes.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// Routes that clients poll every few seconds. Requests for these routes are logged at the level
/// debug.
const POLLED_ROUTES: [&str; 4] = [
    route::HEALTH.path,
    route::READY.path,
    route::METRICS.path,
    route::STATUS.path,
];

/// Returns the router of the whole API.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for (path, methods) in served_paths() {
        let route_path = path.trim_end_matches('/');
        router = router.route(route_path, methods.clone());
        // Only paths without a wildcard get a second route with a trailing slash, because a
        // wildcard also matches paths with a trailing slash.
        if !route_path.contains("{*") {
            router = router.route(&format!("{route_path}/"), methods);
        }
    }
    let body_limit = DefaultBodyLimit::max(app.http().max_body_bytes.get());
    let complete_router = router
        .fallback(fallback::reject_unknown_route)
        .method_not_allowed_fallback(fallback::reject_method)
        .with_state(app.clone())
        .layer(body_limit);
    add_middleware(complete_router, app)
}

/// Returns the routes that the OpenAPI document does not describe: the routes of the Model Context
/// Protocol, and the route of the document itself.
fn undocumented_routes() -> [(&'static str, MethodRouter<App>); 3] {
    let mcp = post(mcp::http).get(mcp::http).delete(mcp::http);
    [
        (route::MCP_POST.path, mcp),
        (route::MCP_STDIO.path, post(mcp::stdio)),
        (route::OPENAPI.path, get(openapi::openapi)),
    ]
}

/// Returns the path of each route, in the syntax of the router, with its handlers.
fn served_paths() -> Vec<(String, MethodRouter<App>)> {
    let mut handlers_by_path = Vec::new();
    for (_, paths, methods) in table::documented_routes() {
        for mut path in paths.paths.into_keys() {
            if path == route::OPENAI_MODEL.path {
                // The parameter `id` matches several path segments, because many OpenAI clients put
                // model IDs such as `meta-llama/...` into the path unescaped.
                path = path.replace("{id}", "{*id}");
            }
            handlers_by_path.push((path, methods.clone()));
        }
    }
    handlers_by_path
        .extend(undocumented_routes().map(|(path, methods)| (path.to_owned(), methods)));
    handlers_by_path
}

/// Adds the middleware around every route: request log and metrics, CORS headers, error formats of
/// the compatible APIs, panic handling, and authentication of TCP requests.
fn add_middleware(router: Router, app: App) -> Router {
    let api = router
        .layer(from_fn_with_state(app.clone(), authenticate))
        .layer(CatchPanicLayer::custom(fallback::respond_to_panic))
        .layer(from_fn(compatible::rewrite_errors))
        .layer(from_fn_with_state(app.clone(), cors::admit_pages));
    // The console authenticates browsers itself, by their sessions.
    console::add_pages(api, &app).layer(from_fn_with_state(app, log_request))
}

/// The ID of a request, stored as a request extension. If the request runs one tool, the call has
/// this ID, too.
#[derive(Clone)]
struct HttpRequestId(Arc<str>);

/// Assigns the request ID and the trace context, opens the span of the request's log lines, and
/// writes one log line when the request is finished. Arguments and results are never logged.
async fn log_request(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let matched_path = parts.extensions.get::<MatchedPath>().cloned();
    // The log has the route's pattern instead of the path, because the path may contain arbitrary
    // data.
    let route = matched_path.as_ref().map_or("unknown", MatchedPath::as_str);
    let logged_request = LoggedRequest::begin(&app, &mut parts, route);
    let id_header = HeaderValue::from_str(&logged_request.id).ok();
    let request = Request::from_parts(parts, body);
    let mut response = next
        .run(request)
        .instrument(logged_request.span.clone())
        .await;
    logged_request.finish(&app, response.status());
    if let Some(id_header) = id_header {
        response.headers_mut().insert(REQUEST_ID_HEADER, id_header);
    }
    response
}

/// A running request. The end of the request writes a log line, updates the metrics and ends the
/// trace span.
struct LoggedRequest<'r> {
    id: Arc<str>,
    /// The span of the request's log lines.
    span: tracing::Span,
    method: Method,
    route: &'r str,
    trace_span: Option<Span>,
    started_at: Instant,
}

impl<'r> LoggedRequest<'r> {
    /// Begins a request for `route`, and adds the request's ID and trace context to its extensions.
    fn begin(app: &App, parts: &mut Parts, route: &'r str) -> Self {
        let id = read_request_id(&parts.headers);
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
            let parent = read_trace_context(&parts.headers);
            telemetry.start_http_span(method.as_str(), route, &id, parent.as_ref())
        });
        let trace = trace_span.as_ref().and_then(Span::context);
        if let Some(trace) = trace.or_else(|| read_trace_context(&parts.headers)) {
            span.record("trace_id", trace.trace_id());
            parts.extensions.insert(trace);
        }
        Self {
            id,
            span,
            method,
            route,
            trace_span,
            started_at: Instant::now(),
        }
    }

    /// Ends the request with the status `status`: writes the request's log line and counts the
    /// request in the metrics.
    fn finish(self, app: &App, status: StatusCode) {
        let (method, route) = (self.method, self.route);
        let elapsed = self.started_at.elapsed();
        let duration_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let status = status.as_u16();
        let requests = &app.metrics().requests;
        requests.add(method.as_str(), route, status, elapsed);
        if let Some(mut trace_span) = self.trace_span {
            trace_span.set_http_status(status);
        }
        let _entered_span = self.span.enter();
        // A macro is needed because `tracing` requires a level that is known at compile time.
        macro_rules! log_finished {
            ($level:ident) => {
                tracing::$level!(%method, route, status, duration_ms, "Request finished")
            };
        }
        // The statuses 502 and 504 mean that an MCP server or a model provider failed, not the
        // sidecar.
        let is_upstream_failure = matches!(status, 502 | 504);
        if is_upstream_failure {
            log_finished!(warn);
        } else if status >= 500 && route != route::READY.path {
            log_finished!(error);
        } else if is_polled(route) {
            log_finished!(debug);
        } else {
            log_finished!(info);
        }
    }
}

fn is_polled(route: &str) -> bool {
    let mut polled_routes = POLLED_ROUTES.iter();
    polled_routes.any(|polled_route| route.starts_with(polled_route))
}

/// Returns the trace context of the request (W3C Trace Context).
fn read_trace_context(headers: &HeaderMap) -> Option<TraceContext> {
    let header_text = |header| headers.get(header)?.to_str().ok();
    TraceContext::parse(header_text("traceparent")?, header_text("tracestate"))
}

/// Returns the client's request ID if it is short visible ASCII, else a new one.
fn read_request_id(headers: &HeaderMap) -> Arc<str> {
    let header = headers.get(REQUEST_ID_HEADER);
    match header.and_then(|value| value.to_str().ok()) {
        Some(id) if (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) => id.into(),
        _ => Uuid::now_v7().to_string().into(),
    }
}

/// Authenticates the request and stores its grant as an extension, or rejects the request. Every
/// request over TCP needs a valid token. A request over the Unix socket needs none, because the
/// socket's permissions and rules admitted its connection.
async fn authenticate(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let grant = match parts.extensions.get::<Peer>() {
        Some(Peer::Network { .. }) => {
            let Some(gate) = &app.access().gate else {
                return AccessRejection::TcpDisabled.into_response();
            };
            let grant = match gate.check_request(&parts, required_scope(&parts)).await {
                Ok(grant) => grant,
                Err(rejection) => return rejection.into_response(),
            };
            if let Some(grant) = &grant {
                let current_app = parts.extensions.get().map(CurrentApp::downgrade);
                let token_validity = AccessGate::token_validity(&parts, grant, move || {
                    let current_app = current_app.as_ref()?()?;
                    current_app.app().access().gate.clone()
                });
                parts.extensions.insert(token_validity);
            }
            grant
        }
        local_peer => Some(local_grant(local_peer)),
    };
    if let Some(grant) = &grant
        && !Admission::admit_request(&parts, &grant.principal()).await
    {
        return AccessRejection::NoFreePermit.into_response();
    }
    let memory = RequestMemory::for_body(body.size_hint().upper(), &app, grant.as_ref());
    if let Some(grant) = grant {
        tracing::Span::current().record("client", &grant.name);
        parts.extensions.insert(grant);
    }
    if let Some(memory) = &memory {
        parts.extensions.insert(memory.clone());
    }
    let response = next.run(Request::from_parts(parts, body)).await;
    match memory {
        Some(memory) => memory.hold(response),
        None => response,
    }
}

/// Returns the scope that a request needs. For a path without a route, any valid token is
/// sufficient to get the response that there is no such route.
fn required_scope(request: &Parts) -> Scope {
    match request.extensions.get::<MatchedPath>() {
        Some(_) => Scope::required_scope(&request.method, request.uri.path()),
        None => Scope::Read,
    }
}

/// Returns the grant of a process on the Unix socket, which may do everything.
fn local_grant(peer: Option<&Peer>) -> AccessGrant {
    match peer {
        Some(Peer::Process { uid, .. }) => AccessGrant::for_local_user(*uid),
        // A request without a peer comes from code that calls the router directly, such as a test.
        _ => AccessGrant {
            name: "in-process".to_owned(),
            ..AccessGrant::for_local_user(0)
        },
    }
}

/// Extracts the validity of the request's token. Without a token, the validity is unlimited.
impl FromRequestParts<App> for TokenValidity {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use axum::body::Body;
    use axum::http::{Request, header};
    use pillion_wire::Failure;
    use serde_json::Value;
    use tower::ServiceExt;

    fn app() -> App {
        App::build(
            &pillion_config::Config::default(),
            pillion_gateway::tools::registry().unwrap(),
            None,
        )
    }

    #[tokio::test]
    async fn i5_the_openapi_document_describes_exactly_the_routes() {
        let router = router(app());
        let ask = async |method: &str, path: &str| {
            let builder = Request::builder().method(method).uri(path);
            let request = builder.body(Body::empty()).unwrap();
            router.clone().oneshot(request).await.unwrap()
        };
        let mut served = BTreeSet::new();
        for (path, _) in served_paths() {
            // No route has the method TRACE, so the response's `Allow` header lists the route's
            // methods.
            let rejection = ask("TRACE", &path.replace(['{', '*', '}'], "")).await;
            assert_eq!(rejection.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
            let allowed = rejection.headers()[header::ALLOW].to_str().unwrap();
            let methods = allowed.split(',').filter(|method| *method != "HEAD");
            let path = path.replace("{*", "{");
            served.extend(methods.map(|method| format!("{method} {path}")));
        }
        let routes = |is_included: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
            let routes = route::ALL_ROUTES
                .iter()
                .filter(|(_, path)| is_included(path));
            routes
                .map(|(method, path)| format!("{method} {path}"))
                .collect()
        };
        assert_eq!(routes(&|_| true), served);

        let body = ask("GET", route::OPENAPI.path).await.into_body();
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                described.insert(format!("{} {path}", method.to_uppercase()));
                // The summaries in the document have no line breaks, unlike the handlers' comments.
                let summary = operation["summary"].as_str().unwrap();
                let description = operation["description"].as_str().unwrap_or_default();
                assert!(!summary.ends_with('.'), "{summary}");
                assert!(![summary, description].concat().contains('\n'), "{summary}");
            }
        }
        let undocumented = undocumented_routes().map(|(path, _)| path);
        assert_eq!(routes(&|path| !undocumented.contains(&path)), described);
    }

    #[tokio::test]
    async fn a_panic_gives_a_response_without_details() {
        let broken = get(async || -> &'static str { panic!("with a secret inside") });
        let router = add_middleware(Router::new().route("/broken", broken), app());
        let request = Request::get("/broken").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(response.headers().contains_key(REQUEST_ID_HEADER));
        let body = axum::body::to_bytes(response.into_body(), 10_000).await;
        let failure: Failure = serde_json::from_slice(&body.unwrap()).unwrap();
        assert_eq!(
            failure.error,
            "The sidecar failed unexpectedly: see its log"
        );
        assert_eq!(failure.error_code, "internal_error");
    }
}
