//! The routes of the HTTP API, one file each, and the middleware that they share.

mod approvals;
mod body;
mod caller;
mod chat;
mod compatible;
mod completions;
mod cors;
mod error;
mod event_stream;
mod events;
mod executors;
mod formats;
mod gate;
mod health;
mod mcp;
mod messages;
mod metrics;
mod models;
mod openapi;
mod packs;
mod page;
mod parameters;
mod pins;
mod providers;
mod ready;
mod request_log;
mod request_memory;
mod results;
mod schema_check;
mod servers;
mod status;
mod streams;
mod tagged;
mod tool_calls;
mod tool_keys;
mod tools;
mod upgrade;
mod workers;

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use pillion_core::store::Store;
use pillion_wire::route;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use body::Body;
use error::RequestError;

/// Returns the router of the whole API.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for (path, methods) in table() {
        let path = path.trim_end_matches('/');
        router = router.route(path, methods.clone());
        // A wildcard route already matches paths with a trailing slash.
        if !path.contains("{*") {
            router = router.route(&format!("{path}/"), methods);
        }
    }
    let body_limit = DefaultBodyLimit::max(app.http().max_body_bytes.get());
    let router = router
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(app.clone())
        .layer(body_limit);
    add_middleware(router, app)
}

/// Returns every path and its methods. The paths are those of [`route`], which the client uses,
/// too. The handlers' `utoipa::path` attributes repeat the paths as literals, because `concat!`
/// cannot append a parameter such as `{tool_name}` to a constant. A test fails if the OpenAPI
/// document and this table differ.
fn table() -> Vec<(String, MethodRouter<App>)> {
    let tool = format!("{}{{tool_name}}", route::TOOLS);
    let execute = format!("{}{{tool_name}}", route::EXECUTE);
    let call = format!("{}{{id}}", route::TOOL_CALLS);
    let result = format!("{}{{id}}", route::RESULTS);
    let approval = format!("{}{{id}}", route::APPROVALS);
    let stream = format!("{}{{name}}", route::STREAMS);
    let kind = format!("{}{{pack}}/{{kind}}", route::PACKS);
    let item = format!("{kind}/{{name}}");
    let pin = format!("{}{{server}}/{{tool}}", route::PINS);
    let accept = format!("{pin}/accept");
    let chat = format!("{}{{id}}", route::CHAT);
    let model = format!("{}{{id}}", route::MODELS);
    // Many OpenAI clients put model IDs such as `meta-llama/...` into the path unescaped.
    let openai_model = format!("{}/{{*id}}", route::OPENAI_MODELS);
    let key = format!("{}{{name}}/key", route::PROVIDERS);
    let tool_key = format!("{}{{tool}}", route::TOOL_KEYS);
    let (approve, deny) = (format!("{approval}/approve"), format!("{approval}/deny"));
    let routes: Vec<(&str, MethodRouter<App>)> = vec![
        (route::TOOLS, get(tools::list::list)),
        (route::SCHEMAS, get(tools::schemas::schemas)),
        (&tool, get(tools::show::show)),
        (&execute, post(tools::execute::execute)),
        (
            route::BATCH_EXECUTE,
            post(tools::batch_execute::batch_execute),
        ),
        (route::TOOL_CALLS, get(tool_calls::list::list)),
        (
            route::TOOL_CALL_STATISTICS,
            get(tool_calls::statistics::statistics),
        ),
        (&call, get(tool_calls::show::show)),
        (&result, get(results::fetch)),
        (
            route::MCP,
            post(mcp::post).get(mcp::get).delete(mcp::delete),
        ),
        (route::MCP_STDIO, post(mcp::stdio)),
        (route::APPROVALS, get(approvals::list::list)),
        (&approval, get(approvals::show::show)),
        (&approve, post(approvals::decide::approve)),
        (&deny, post(approvals::decide::deny)),
        (route::CHAT, post(chat::begin).get(chat::list)),
        (
            &chat,
            post(chat::go_on).get(chat::show).delete(chat::forget),
        ),
        (route::MODELS, get(models::list)),
        (&model, get(models::show)),
        (route::PROVIDERS, get(providers::list)),
        (&key, put(providers::set_key).delete(providers::remove_key)),
        (route::TOOL_KEYS, get(tool_keys::list)),
        (&tool_key, put(tool_keys::set).delete(tool_keys::remove)),
        (route::CHAT_COMPLETIONS, post(completions::complete)),
        (route::MESSAGES, post(messages::create)),
        (route::OPENAI_MODELS, get(completions::models)),
        (&openai_model, get(completions::model)),
        (route::EVENTS, get(events::events)),
        (route::STREAMS, get(streams::list)),
        (&stream, get(streams::listen)),
        (route::PACKS, get(packs::list)),
        (&kind, get(packs::list_items)),
        (&item, delete(packs::remove)),
        (route::PINS, get(pins::list)),
        (&pin, get(pins::show)),
        (&accept, post(pins::accept)),
        (route::HEALTH, get(health::health)),
        (route::READY, get(ready::ready)),
        (route::METRICS, get(metrics::metrics)),
        (route::STATUS, get(status::status)),
        (route::WORKERS, post(workers::connect).get(workers::list)),
        (route::SCHEMA_CHECK, post(schema_check::check)),
        (route::EXECUTORS, post(executors::open)),
        (route::OPENAPI, get(openapi::openapi)),
    ];
    let routes = routes.into_iter();
    let routes = routes.map(|(path, methods)| (path.to_owned(), methods));
    let routes = routes.chain(formats::routes());
    routes.chain(servers::routes()).collect()
}

/// Adds the middleware around every route: request log and metrics, headers for web pages, error
/// formats of other APIs, panic handling, and authentication of TCP requests.
fn add_middleware(router: Router, app: App) -> Router {
    router
        .layer(from_fn_with_state(app.clone(), gate::enter))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(compatible::rewrite_errors))
        .layer(from_fn_with_state(app.clone(), cors::admit_pages))
        .layer(from_fn_with_state(app, request_log::log))
}

/// Returns the store, or an error if the sidecar has none.
fn store_of(app: &App) -> Result<Arc<dyn Store>, RequestError> {
    app.store().ok_or(RequestError::NoStore)
}

/// Reads the body before rejecting the request: unread bytes would make the server close the
/// connection, and a client that keeps the connection alive would lose its next request.
async fn unknown_route(uri: Uri, _body: Result<Body, RequestError>) -> RequestError {
    RequestError::UnknownRoute {
        path: uri.path().to_owned(),
    }
}

async fn method_not_allowed(method: Method) -> RequestError {
    RequestError::WrongMethod { method }
}

/// Responds to a panic of a handler; a panic of a tool ends in the executor. The panic message goes
/// to the log through the panic hook, and not to the client.
fn panicked(_payload: Box<dyn Any + Send>) -> Response {
    RequestError::Panicked.into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use axum::body::Body;
    use axum::http::{Request, StatusCode, header};
    use pillion_wire::{Failure, REQUEST_ID_HEADER};
    use serde_json::Value;
    use tower::ServiceExt;

    /// Routes that the OpenAPI document does not describe: those of the Model Context Protocol, and
    /// the document itself.
    const UNDOCUMENTED_ROUTES: [&str; 3] = [route::MCP, route::MCP_STDIO, route::OPENAPI];

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
            let request = Request::builder().method(method).uri(path);
            let request = request.body(Body::empty()).unwrap();
            router.clone().oneshot(request).await.unwrap()
        };
        let mut routes = BTreeSet::new();
        for (path, _) in table() {
            if UNDOCUMENTED_ROUTES.contains(&path.as_str()) {
                continue;
            }
            // No route has this method, so the `Allow` header of the response lists the route's
            // methods.
            let refusal = ask("TRACE", &path.replace(['{', '*', '}'], "")).await;
            assert_eq!(refusal.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
            let allowed = refusal.headers()[header::ALLOW].to_str().unwrap();
            let methods = allowed.split(',').filter(|method| *method != "HEAD");
            let path = path.trim_end_matches('/').replace("{*", "{");
            routes.extend(methods.map(|method| format!("{method} {path}")));
        }
        let document = ask("GET", route::OPENAPI).await.into_body();
        let document = axum::body::to_bytes(document, 1 << 20).await.unwrap();
        let document: Value = serde_json::from_slice(&document).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            let path = path.trim_end_matches('/');
            let methods = methods.as_object().unwrap().keys();
            described.extend(methods.map(|it| format!("{} {path}", it.to_uppercase())));
        }
        assert_eq!(routes, described);
    }

    #[tokio::test]
    async fn a_panic_gives_a_response_without_details() {
        let broken = get(async || -> &'static str { panic!("with a secret inside") });
        let router = add_middleware(Router::new().route("/broken", broken), app());
        let request = Request::get("/broken").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(response.headers().contains_key(REQUEST_ID_HEADER));
        let body = axum::body::to_bytes(response.into_body(), 10_000)
            .await
            .unwrap();
        let failure: Failure = serde_json::from_slice(&body).unwrap();
        assert_eq!(failure.error, "The sidecar failed unexpectedly");
        assert_eq!(failure.error_code, "internal_error");
    }
}
