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

/// Returns every path and its methods.
fn table() -> Vec<(String, MethodRouter<App>)> {
    // Many OpenAI clients put model IDs such as `meta-llama/...` into the path unescaped.
    let openai_model = route::OPENAI_MODEL.path.replace("{id}", "{*id}");
    let routes: Vec<(&str, MethodRouter<App>)> = vec![
        (route::LIST_TOOLS.path, get(tools::list::list)),
        (route::LIST_SCHEMAS.path, get(tools::schemas::schemas)),
        (route::SHOW_TOOL.path, get(tools::show::show)),
        (route::EXECUTE_TOOL.path, post(tools::execute::execute)),
        (
            route::EXECUTE_BATCH.path,
            post(tools::batch_execute::batch_execute),
        ),
        (route::LIST_TOOL_CALLS.path, get(tool_calls::list::list)),
        (
            route::TOOL_CALL_STATISTICS.path,
            get(tool_calls::statistics::statistics),
        ),
        (route::SHOW_TOOL_CALL.path, get(tool_calls::show::show)),
        (route::FETCH_RESULT.path, get(results::fetch)),
        (
            route::MCP_POST.path,
            post(mcp::post).get(mcp::get).delete(mcp::delete),
        ),
        (route::MCP_STDIO.path, post(mcp::stdio)),
        (route::LIST_APPROVALS.path, get(approvals::list::list)),
        (route::SHOW_APPROVAL.path, get(approvals::show::show)),
        (route::APPROVE.path, post(approvals::decide::approve)),
        (route::DENY.path, post(approvals::decide::deny)),
        (route::LIST_CHATS.path, post(chat::begin).get(chat::list)),
        (
            route::SHOW_CHAT.path,
            post(chat::go_on).get(chat::show).delete(chat::forget),
        ),
        (route::LIST_MODELS.path, get(models::list)),
        (route::SHOW_MODEL.path, get(models::show)),
        (route::LIST_PROVIDERS.path, get(providers::list)),
        (
            route::SET_PROVIDER_KEY.path,
            put(providers::set_key).delete(providers::remove_key),
        ),
        (route::LIST_TOOL_KEYS.path, get(tool_keys::list)),
        (
            route::SET_TOOL_KEY.path,
            put(tool_keys::set).delete(tool_keys::remove),
        ),
        (route::CHAT_COMPLETIONS.path, post(completions::complete)),
        (route::ANTHROPIC_MESSAGES.path, post(messages::create)),
        (route::OPENAI_MODELS.path, get(completions::models)),
        (&openai_model, get(completions::model)),
        (route::WATCH_EVENTS.path, get(events::events)),
        (route::LIST_STREAMS.path, get(streams::list)),
        (route::WATCH_STREAM.path, get(streams::listen)),
        (route::LIST_PACKS.path, get(packs::list)),
        (route::LIST_PACK_ITEMS.path, get(packs::list_items)),
        (route::REMOVE_PACK_ITEM.path, delete(packs::remove)),
        (route::LIST_PINS.path, get(pins::list)),
        (route::SHOW_PIN.path, get(pins::show)),
        (route::ACCEPT_PIN.path, post(pins::accept)),
        (route::HEALTH.path, get(health::health)),
        (route::READY.path, get(ready::ready)),
        (route::METRICS.path, get(metrics::metrics)),
        (route::STATUS.path, get(status::status)),
        (
            route::LIST_WORKERS.path,
            post(workers::connect).get(workers::list),
        ),
        (route::CHECK_SCHEMAS.path, post(schema_check::check)),
        (route::FORMAT_TOOLS.path, post(formats::tools)),
        (route::PARSE_TOOL_CALLS.path, post(formats::tool_calls)),
        (route::PARSE_TEXT.path, post(formats::text)),
        (route::PARSE_MESSAGES.path, post(formats::messages)),
        (route::FORMAT_RESULTS.path, post(formats::results)),
        (route::OPEN_EXECUTOR.path, post(executors::open)),
        (route::OPENAPI.path, get(openapi::openapi)),
        (
            route::LIST_SERVERS.path,
            get(servers::list::list).post(servers::add::add),
        ),
        (
            route::TEST_NEW_SERVER.path,
            post(servers::test::test_unsaved),
        ),
        (route::REFRESH_SERVERS.path, post(servers::refresh::refresh)),
        (route::ROTATE_VAULT.path, post(servers::refresh::rotate)),
        (
            route::SHOW_SERVER.path,
            get(servers::show::show)
                .put(servers::change::replace)
                .patch(servers::change::patch)
                .delete(servers::remove::remove),
        ),
        (route::ENABLE_SERVER.path, post(servers::change::enable)),
        (route::DISABLE_SERVER.path, post(servers::change::disable)),
        (
            route::RECONNECT_SERVER.path,
            post(servers::change::reconnect),
        ),
        (
            route::CONNECT_SERVER.path,
            post(servers::connection::connect),
        ),
        (
            route::DISCONNECT_SERVER.path,
            post(servers::connection::disconnect),
        ),
        (
            route::LIST_SERVER_CREDENTIALS.path,
            get(servers::credentials::list),
        ),
        (
            route::SET_SERVER_CREDENTIAL.path,
            put(servers::credentials::set).delete(servers::credentials::remove),
        ),
        (route::LIST_SERVER_TOOLS.path, get(servers::tools::tools)),
        (
            route::LIST_SERVER_RESOURCES.path,
            get(servers::resources::list),
        ),
        (
            route::READ_SERVER_RESOURCE.path,
            get(servers::resources::read),
        ),
        (route::TEST_SERVER.path, post(servers::test::test)),
    ];
    let routes = routes.into_iter();
    routes
        .map(|(path, methods)| (path.to_owned(), methods))
        .collect()
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
    const UNDOCUMENTED_ROUTES: [&str; 3] = [
        route::MCP_POST.path,
        route::MCP_STDIO.path,
        route::OPENAPI.path,
    ];

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
        let document = ask("GET", route::OPENAPI.path).await.into_body();
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
