//! Tests HTTP tools with a local server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use axum::routing::any;
use pillion_core::tool::{CallContext, ErrorCode, Tool, ToolFailure, ToolOutput};
use pillion_http_tools::{HttpTool, HttpToolEntry};
use serde_json::{Value, json};

fn response(status: u16, kind: &str, body: impl Into<Body>) -> Response<Body> {
    let builder = Response::builder().status(status);
    let with_type = builder.header("content-type", kind);
    with_type.body(body.into()).unwrap()
}

/// Responds with the request as JSON.
async fn echo(request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let headers: serde_json::Map<_, _> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap_or("?"))))
        .collect();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let shown = json!({
        "method": parts.method.as_str(),
        "uri": parts.uri.to_string(),
        "headers": headers,
        "body": serde_json::from_slice::<Value>(&body).unwrap_or_default(),
    });
    response(200, "application/json; charset=utf-8", shown.to_string())
}

/// Starts a server, and an echo server with another origin. Returns their URLs.
async fn servers() -> (String, String) {
    let serve = async |router: Router| {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    };
    let other = serve(Router::new().fallback(any(echo))).await;
    let fixed = |status: u16, kind: &'static str, body: &'static str| {
        any(move || async move { response(status, kind, body) })
    };
    let with_header = |status: u16, name: &'static str, value: String| {
        any(move || async move {
            let mut response = response(status, "text/plain", "");
            let value = value.parse().unwrap();
            response.headers_mut().insert(name, value);
            response
        })
    };
    let problem = r#"{"detail": "size is too small"}"#;
    // PHP escapes JSON like this.
    let escaped = r#"["tok\/en-\u0031234", "?t=tok%2Fen-1234", "tok%2fen-1234",
        "\"tok\\/en-1234\"", "dG9rL2VuLTEyMzQ="]"#;
    let binary = || async { response(200, "image/png", vec![0xff, 0xfe]) };
    let long = || async { response(200, "text/plain", vec![b'x'; 4096]) };
    let slow = || async { tokio::time::sleep(Duration::from_secs(60)).await };
    let mut router = Router::new()
        .route("/422", fixed(422, "application/problem+json", problem))
        .route("/204", any(|| async { StatusCode::NO_CONTENT }))
        .route("/429", with_header(429, "retry-after", "7".to_owned()))
        .route("/text", fixed(200, "text/plain", "[1]"))
        .route("/broken", fixed(200, "application/json", "{\"a\":"))
        .route("/binary", any(binary))
        .route("/long", any(long))
        .route("/slow", any(slow))
        .route("/away", with_header(307, "location", other.clone()))
        .route("/escaped", fixed(200, "application/json", escaped))
        .fallback(any(echo));
    for status in [401, 403, 404, 500, 504] {
        router = router.route(&format!("/{status}"), fixed(status, "text/plain", "no"));
    }
    (serve(router).await, other)
}

fn tool(mut declared: Value) -> Arc<HttpTool> {
    declared["name"] = json!("far");
    declared["description"] = json!("A test");
    let entry: HttpToolEntry = serde_json::from_value(declared).unwrap();
    Arc::new(HttpTool::new(entry).unwrap())
}

async fn call(tool: &Arc<HttpTool>, arguments: Value) -> Result<ToolOutput, ToolFailure> {
    let arguments = arguments.as_object().cloned().unwrap();
    Arc::clone(tool)
        .call(arguments, CallContext::default())
        .await
}

#[tokio::test]
async fn a_call_sends_the_declared_request() {
    let (url, _) = servers().await;
    let tool = tool(json!({
        "method": "post",
        "url": format!("{url}/users/{{id}}/notes?v=1"),
        "query": {"tag": {"$from": "/input/tags"}, "fixed": "a b", "lacking": {"$from": "/input/none"}},
        "headers": {"X-Tenant": {"$from": "/input/tenant"}, "X-Fixed": "fixed-value"},
        "body": {"text": {"$from": "/input/text"}, "more": {"$from": "/input/more"}, "n": 1},
        "authentication": {"type": "api-key", "key": "hush-hush", "header": "x-tenant"},
        "secret_headers": ["x-fixed"],
    }));
    let arguments = json!({"id": "a/b", "tags": ["x", "y&z=1"], "tenant": "t1", "text": "\"hi\""});
    let output = call(&tool, arguments).await.unwrap();
    let request = &output.result;
    let uri = "/users/a%2Fb/notes?v=1&tag=x&tag=y%26z%3D1&fixed=a%20b";
    assert_eq!(request["method"], "POST");
    assert_eq!(request["uri"], uri);
    assert_eq!(request["body"], json!({"text": "\"hi\"", "n": 1}));
    assert_eq!(request["headers"]["x-fixed"], "[redacted]");
    assert_eq!(request["headers"]["content-type"], "application/json");
    // The credential takes precedence over an argument, and is redacted in the response.
    assert_eq!(request["headers"]["x-tenant"], "[redacted]");
    assert_eq!(output.metadata["http_status"], 200);
}

#[tokio::test]
async fn an_argument_cannot_become_another_header() {
    let (url, _) = servers().await;
    let tool = tool(json!({"url": url, "headers": {"X-A": {"$from": "/input/a"}}}));
    for bad in ["x\r\nX-B: 1", "x\nX-B: 1", "x\0"] {
        let failure = call(&tool, json!({"a": bad})).await.unwrap_err();
        assert_eq!(failure.code, ErrorCode::InvalidInput, "{bad:?}");
        let message =
            "The value of the header 'x-a' has characters that are not allowed in a header";
        assert_eq!(failure.message, message);
    }
}

#[tokio::test]
async fn statuses_become_error_codes() {
    let (url, _) = servers().await;
    let tool = tool(json!({"url": format!("{url}/{{what}}")}));
    for (what, code) in [
        ("401", ErrorCode::Denied),
        ("403", ErrorCode::Denied),
        ("404", ErrorCode::NotFound),
        ("422", ErrorCode::InvalidInput),
        ("429", ErrorCode::RateLimited),
        ("500", ErrorCode::Unavailable),
        ("504", ErrorCode::Timeout),
        ("broken", ErrorCode::InternalError),
        ("binary", ErrorCode::InternalError),
    ] {
        let failure = call(&tool, json!({"what": what})).await.unwrap_err();
        assert_eq!(failure.code, code, "{what}: {failure}");
        if what == "422" {
            let message = "'127.0.0.1' responded with HTTP status 422: size is too small";
            assert_eq!(failure.message, message);
            assert_eq!(failure.result, json!({"detail": "size is too small"}));
        }
        let wait = failure.metadata.get("retry_after");
        assert_eq!(wait, (what == "429").then_some(&json!(7)), "{what}");
    }
    let output = call(&tool, json!({"what": "204"})).await.unwrap();
    assert_eq!(output.result, json!("Done: status 204, no response body"));
    // A text response stays text, even if it could be parsed as JSON.
    let output = call(&tool, json!({"what": "text"})).await.unwrap();
    assert_eq!(output.result, json!("[1]"));
}

#[tokio::test]
async fn the_operator_configures_accepted_statuses_and_the_result() {
    let (url, _) = servers().await;
    let fine = tool(json!({"url": format!("{url}/404"), "success": ["2xx", 404]}));
    assert_eq!(call(&fine, json!({})).await.unwrap().result, json!("no"));
    let part = tool(json!({"url": format!("{url}/x"), "result_at": "/headers/accept"}));
    let output = call(&part, json!({})).await.unwrap();
    assert_eq!(output.result, "application/json");
    let lacking = tool(json!({"url": format!("{url}/x"), "result_at": "/nothing"}));
    let failure = call(&lacking, json!({})).await.unwrap_err();
    assert_eq!(failure.message, "The response has no value at /nothing");
}

#[tokio::test]
async fn time_and_size_of_responses_are_limited() {
    let (url, _) = servers().await;
    let slow = tool(json!({"url": format!("{url}/slow"), "timeout_ms": 200}));
    let failure = call(&slow, json!({})).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::Timeout);
    assert_eq!(failure.message, "'127.0.0.1' did not respond within 0.2s");
    let long = tool(json!({"url": format!("{url}/long"), "max_answer_bytes": 1000}));
    let too_long = call(&long, json!({})).await.unwrap_err();
    let message = "The response of '127.0.0.1' is longer than 1000 bytes";
    assert_eq!(too_long.message, message);
    let stopped = tool(json!({"url": "http://127.0.0.1:1/"}));
    let unreachable = call(&stopped, json!({})).await.unwrap_err();
    assert_eq!(unreachable.code, ErrorCode::Unavailable);
}

#[tokio::test]
async fn l1_a_redirect_to_another_origin_is_not_followed() {
    let (url, _) = servers().await;
    let away = tool(json!({
        "url": format!("{url}/away"), "authentication": {"type": "bearer", "token": "hush-hush"},
    }));
    let failure = call(&away, json!({})).await.unwrap_err();
    let reason = "to another origin or too many times: Pillion does not follow the redirect";
    assert!(failure.message.contains(reason), "{failure}");
    assert!(!format!("{away:?}").contains("hush"));
}

#[tokio::test]
async fn an_argument_may_be_used_more_than_once_in_the_url() {
    let url = "https://x.example/{lang}/compare/{lang}";
    let declared = json!({"name": "compare", "description": "A test", "url": url});
    let tool = HttpTool::new(serde_json::from_value(declared).unwrap()).unwrap();
    let schema = tool.definition().input_schema();
    assert_eq!(schema["required"], json!(["lang"]));
}

#[tokio::test]
async fn invalid_declarations_are_rejected_at_start() {
    let error_with = |changes: Value| {
        let mut declared =
            json!({"name": "far", "description": "A test", "url": "https://x.example/"});
        let members = changes.as_object().cloned().unwrap();
        declared.as_object_mut().unwrap().extend(members);
        let entry: HttpToolEntry = serde_json::from_value(declared).unwrap();
        let error = HttpTool::new(entry).unwrap_err();
        format!("{}: {error}", error.key)
    };
    let from_step = json!({"q": {"$from": "/steps/a"}});
    let strange = json!({"properties": {"q": {"type": "strange"}}});
    let broken_token = json!({"type": "bearer", "token": "hush\n"});
    for (key, value, message) in [
        (
            "url",
            json!("http://x.example/"),
            "plain http to 'x.example' is not allowed",
        ),
        (
            "url",
            json!("https://169.254.169.254/"),
            "connections to the link-local address",
        ),
        ("url", json!("ftp://x.example/"), "only https"),
        ("body", json!({}), "a GET request cannot have a body"),
        ("method", json!("CONNECT"), "the method must be GET"),
        (
            "headers",
            json!({"Host": "y"}),
            "the header 'Host' is set by the HTTP client and cannot be configured",
        ),
        (
            "headers",
            json!({"a b": "y"}),
            "'a b' is not a valid header name",
        ),
        (
            "query",
            from_step,
            "q: '/steps/a': references to steps are not allowed here",
        ),
        ("input_schema", strange, ""),
        ("result_at", json!("data"), "'data' is not a JSON pointer"),
        ("timeout_ms", json!(0), ""),
        ("authentication", broken_token, "the credential has"),
        (
            "authentication",
            json!({"type": "oauth"}),
            "HTTP tools do not support oauth",
        ),
    ] {
        let error = error_with(json!({key: value}));
        assert!(
            error.contains(&format!("{key}: {message}")),
            "{error}\n  is not\n{message}"
        );
        assert!(!error.contains("hush"), "{error}");
    }
    let undeclared = json!({"query": {"q": {"$from": "/input/q"}}, "input_schema": {}});
    let error = error_with(undeclared);
    let message = "the schema has no property 'q', which the request uses";
    assert!(error.contains(message), "{error}");
}

#[tokio::test]
async fn l1_a_credential_is_removed_in_every_notation() {
    let (url, _) = servers().await;
    let tool = tool(json!({
        "url": format!("{url}/escaped"),
        "authentication": {"type": "bearer", "token": "tok/en-1234"},
    }));
    let output = call(&tool, json!({})).await.unwrap();
    let mask = "[redacted]";
    let expected = json!([mask, "?t=[redacted]", mask, "\"[redacted]\"", "[redacted]="]);
    assert_eq!(output.result, expected);
}
