//! The routes of the HTTP API, and the middleware that they share.

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
mod fallback;
mod formats;
mod gate;
mod mcp;
mod messages;
mod models;
mod openapi;
mod operations;
mod packs;
mod page;
mod parameters;
mod pins;
mod providers;
mod request_log;
mod request_memory;
mod results;
mod schema_check;
mod servers;
mod store;
mod table;
mod tagged;
mod tool_calls;
mod tool_keys;
mod tools;
mod upgrade;
mod vault_keys;
mod workers;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post};
use pillion_wire::route;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;

/// Returns the router of the whole API.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for (path, methods) in served_paths() {
        let path = path.trim_end_matches('/');
        router = router.route(path, methods.clone());
        // A wildcard route also matches paths with a trailing slash.
        if !path.contains("{*") {
            router = router.route(&format!("{path}/"), methods);
        }
    }
    let body_limit = DefaultBodyLimit::max(app.http().max_body_bytes.get());
    let router = router
        .fallback(fallback::unknown_route)
        .method_not_allowed_fallback(fallback::method_not_allowed)
        .with_state(app.clone())
        .layer(body_limit);
    add_middleware(router, app)
}

/// Returns the routes that the OpenAPI document does not describe: those of the Model Context
/// Protocol, and the document itself.
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
    let mut served = Vec::new();
    for (_, paths, methods) in table::documented_routes() {
        for mut path in paths.paths.into_keys() {
            if path == route::OPENAI_MODEL.path {
                // Many OpenAI clients put model IDs such as `meta-llama/...` into the path
                // unescaped.
                path = path.replace("{id}", "{*id}");
            }
            served.push((path, methods.clone()));
        }
    }
    served.extend(undocumented_routes().map(|(path, methods)| (path.to_owned(), methods)));
    served
}

/// Adds the middleware around every route: request log and metrics, headers for web pages, error
/// formats of other APIs, panic handling, and authentication of TCP requests.
fn add_middleware(router: Router, app: App) -> Router {
    router
        .layer(from_fn_with_state(app.clone(), gate::enter))
        .layer(CatchPanicLayer::custom(fallback::panicked))
        .layer(from_fn(compatible::rewrite_errors))
        .layer(from_fn_with_state(app.clone(), cors::admit_pages))
        .layer(from_fn_with_state(app, request_log::log))
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
            let routes = route::ALL.iter().filter(|(_, path)| is_included(path));
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
        let body = axum::body::to_bytes(response.into_body(), 10_000)
            .await
            .unwrap();
        let failure: Failure = serde_json::from_slice(&body).unwrap();
        assert_eq!(failure.error, "The sidecar failed unexpectedly");
        assert_eq!(failure.error_code, "internal_error");
    }
}
