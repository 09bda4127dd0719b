use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;

use super::*;
use crate::access::TokenList;

const TOKEN: &str = "correct-horse-battery";

fn gate() -> AccessGate {
    let tcp = TcpSection {
        allowed_hosts: vec!["tools.example".to_owned()],
        allowed_origins: vec!["https://page.example".to_owned()],
        ..TcpSection::default()
    };
    let tokens = TokenList::from_variable(&format!("ci read {TOKEN}"), "T").unwrap();
    let listen = "127.0.0.5:7420".parse().unwrap();
    AccessGate::new(&tcp, listen, Arc::new(tokens))
}

async fn status(request: axum::http::request::Builder) -> u16 {
    let (request, ()) = request.body(()).unwrap().into_parts();
    let required = Scope::required_scope(&request.method, request.uri.path());
    match gate().check_request(&request, required).await {
        Ok(_) => 200,
        Err(rejection) => rejection.into_response().status().as_u16(),
    }
}

fn get(path: &str) -> axum::http::request::Builder {
    Request::get(path).header("authorization", format!("Bearer {TOKEN}"))
}

#[tokio::test]
async fn l3_a_foreign_host_header_is_refused() {
    for host in [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1:7420",
        "[::1]:7420",
        "127.0.0.5:7420",
        "tools.example",
    ] {
        let request = get("/metrics").header("host", host);
        assert_eq!(status(request).await, 200, "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "",
        "evil@localhost",
        "127.0.0.6",
    ] {
        // Even routes without a token are closed to pages of other sites.
        for path in ["/metrics", "/healthz"] {
            let request = get(path).header("host", host);
            assert_eq!(status(request).await, 403, "{path} {host}");
        }
    }
    assert_eq!(status(get("/metrics")).await, 403);
    let twice = get("/metrics").header("host", "localhost");
    assert_eq!(status(twice.header("host", "evil.example")).await, 403);
    let absolute = get("http://evil.example/metrics").header("host", "localhost");
    assert_eq!(status(absolute).await, 403);
}

#[tokio::test]
async fn l3_a_page_of_another_origin_is_refused() {
    let from = |origin: &str| {
        let request = get("/metrics").header("host", "localhost:7420");
        request.header("origin", origin)
    };
    assert_eq!(status(from("http://localhost:7420")).await, 200);
    assert_eq!(status(from("https://page.example")).await, 200);
    for origin in [
        "http://localhost:3000",
        "http://evil.example",
        "null",
        "file://",
    ] {
        assert_eq!(status(from(origin)).await, 403, "{origin}");
    }
}

#[test]
fn l3_only_pages_of_configured_origins_are_admitted_to_read_responses() {
    let is_page = |host: &str, origins: &[&str]| {
        let request = Request::get("/metrics").header("host", host);
        let request = origins
            .iter()
            .fold(request, |request, origin| request.header("origin", *origin));
        let (request, ()) = request.body(()).unwrap().into_parts();
        gate().is_from_configured_page(&request)
    };
    let page = "https://page.example";
    assert!(is_page("localhost:7420", &[page]));
    assert!(is_page("tools.example", &["HTTPS://PAGE.EXAMPLE"]));
    for (host, origins) in [
        ("localhost", vec![]),
        ("localhost", vec!["http://localhost"]),
        ("localhost", vec!["https://evil.example"]),
        ("localhost", vec!["https://page.example.evil.example"]),
        ("localhost", vec!["https://page.example:8443"]),
        ("localhost", vec!["http://page.example"]),
        ("localhost", vec!["null"]),
        ("localhost", vec!["*"]),
        ("localhost", vec![page, "https://evil.example"]),
        ("localhost", vec![page, page]),
        ("evil.example", vec![page]),
    ] {
        assert!(!is_page(host, &origins), "{host} {origins:?}");
    }
}

#[tokio::test]
async fn l3_a_token_is_needed_and_its_scope_holds() {
    let here = |request: axum::http::request::Builder| request.header("host", "localhost");
    assert_eq!(status(here(Request::get("/metrics"))).await, 401);
    assert_eq!(status(here(Request::get("/healthz"))).await, 200);
    for value in ["Bearer wrong", "Basic abc", "Bearer", "nonsense", ""] {
        let request = here(Request::get("/metrics")).header("authorization", value);
        assert_eq!(status(request).await, 401, "{value}");
    }
    let run = Request::post("/api/v1/tools/execute/x");
    let run = here(run).header("authorization", format!("bearer {TOKEN}"));
    assert_eq!(status(run).await, 403);
}

#[tokio::test]
async fn l3_compatible_apis_accept_the_token_in_the_header_of_their_clients() {
    let request = |path, key: &'static str| {
        let request = Request::get(path).header("host", "localhost");
        request.header("x-api-key", key)
    };
    assert_eq!(status(request("/v1/models", TOKEN)).await, 200);
    assert_eq!(status(request("/v1/models", "wrong")).await, 401);
    assert_eq!(status(request("/metrics", TOKEN)).await, 401);
    let two = request("/v1/models", TOKEN).header("x-api-key", TOKEN);
    assert_eq!(status(two).await, 401);
    // The header `Authorization` takes precedence.
    let both = request("/v1/models", TOKEN).header("authorization", "Bearer wrong");
    assert_eq!(status(both).await, 401);
}

#[test]
fn l3_an_unauthorized_response_is_a_problem_and_names_the_authentication_scheme() {
    let response = AccessRejection::NoToken.into_response();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    let headers = response.headers();
    assert_eq!(headers["content-type"], "application/problem+json");
    assert_eq!(headers["www-authenticate"], "Bearer realm=\"pillion\"");
}

#[test]
fn the_host_name_is_extracted_from_every_form() {
    assert_eq!(host_name("localhost"), Some("localhost"));
    assert_eq!(host_name("localhost:7420"), Some("localhost"));
    assert_eq!(host_name("[::1]:7420"), Some("[::1]"));
    assert_eq!(host_name("[::1]"), Some("[::1]"));
    for bad in ["", ":80", "a:b", "[::1", "[::1]x", "localhost:80:evil"] {
        assert_eq!(host_name(bad), None, "{bad}");
    }
}
