//! L1: no text contains a credential.

use std::error::Error;
use std::fmt::Write;

use pillion_mcp_client::{Authentication, MessageStyle};
use pillion_testkit::TlsServer;

use super::*;

/// Returns all texts of an error.
fn texts(error: &McpError) -> String {
    let mut texts = format!("{error}\n{error:?}\n{error:#?}\n{:?}", error.kind());
    let mut source = error.source();
    while let Some(error) = source {
        write!(texts, "\n{error}\n{error:?}").unwrap();
        source = error.source();
    }
    texts
}

fn secretive(url: &str, transport: TransportKind) -> McpClient {
    let mut config = config(&format!("{url}?key=hush-query"), transport);
    config.authentication = Authentication::bearer("hush-token");
    config.token_in_query = true;
    config.headers = [("X-Api-Key".to_owned(), "hush-header".into())].into();
    config.timeout = Duration::from_millis(500);
    McpClient::new(config)
}

#[tokio::test]
async fn l1_no_secret_in_any_error_or_debug_text() {
    let elsewhere = "http://127.0.0.1:1/?key=hush-query";
    let faults = [
        vec![Fault::Close],
        vec![Fault::Hang],
        vec![Fault::response("401 No", JSON, "")],
        vec![Fault::response("500 No", JSON, "")],
        vec![Fault::response("200 OK", "text/html", "<html>")],
        vec![Fault::json("{bad")],
        vec![Fault::json("")],
        vec![Fault::response("200 OK", EVENT_STREAM, b"data: \xff\n\n")],
        vec![Fault::head(EVENT_STREAM), Fault::Close],
        vec![Fault::Send(b"nonsense\r\n\r\n".to_vec()), Fault::Close],
        vec![Fault::redirect("307 Elsewhere", elsewhere)],
        vec![Fault::redirect("307 Round", "?key=hush-query")],
        vec![Fault::redirect("307 Nowhere", "::")],
    ];
    for faults in faults {
        let response = faults.clone();
        let server = FaultServer::start(move |_| response.clone()).await;
        for (_, transport) in dialects() {
            let client = secretive(&server.url, transport);
            let text = texts(&roll(&client).await.unwrap_err());
            assert!(!text.contains("hush"), "{faults:?}: {text}");
            let debug = format!("{client:?}");
            assert_contains!(debug, "test");
            assert_lacks!(debug, "hush");
        }
    }
}

#[tokio::test]
async fn l1_no_error_repeats_a_credential_that_the_server_echoes() {
    type Echo = Box<dyn Fn(&str) -> Vec<Fault> + Send + Sync>;
    let message = |text: &str| {
        let error = json!({"code": -32000, "message": text, "data": {"seen": text}});
        json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string()
    };
    let echoes: Vec<Echo> = vec![
        Box::new(move |text| vec![Fault::json(message(text))]),
        Box::new(move |text| vec![Fault::response("400 No", JSON, message(text))]),
        Box::new(move |text| {
            let long = format!("{}{text}", "y".repeat(4_060));
            vec![Fault::json(message(&long))]
        }),
        Box::new(|text| {
            let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{text}\"");
            let headers = [("WWW-Authenticate", challenge.as_str())];
            vec![Fault::response_with("401 No", &headers, "")]
        }),
        Box::new(|text| vec![Fault::json(json!(text).to_string())]),
        Box::new(|text| {
            let invalid = json!({"jsonrpc": "2.0", "id": text, "result": text, "error": text});
            vec![Fault::json(invalid.to_string())]
        }),
        Box::new(|text| vec![Fault::response("200 OK", text, "")]),
    ];
    for (number, echo) in echoes.into_iter().enumerate() {
        let server = FaultServer::start(move |request| {
            let header = |name: &str| request.headers.get(name).and_then(|it| it.to_str().ok());
            let text = ["authorization", "x-api-key"].map(|name| header(name).unwrap_or_default());
            echo(&format!("{} {}", text.join(" "), request.path))
        })
        .await;
        for (_, transport) in dialects() {
            let client = secretive(&server.url, transport);
            let text = texts(&roll(&client).await.unwrap_err());
            assert!(!text.contains("hush"), "{number}: {text}");
        }
    }
}

#[tokio::test]
async fn l1_no_secret_in_the_error_of_a_connection_that_fails() {
    let untrusted = TlsServer::untrusted();
    for url in [
        "http://127.0.0.1:1/mcp",
        "https://no-such-host.invalid/mcp",
        "http://plain.example/mcp",
        "https://169.254.169.254/mcp",
        &untrusted.url,
    ] {
        for style in [MessageStyle::Http, MessageStyle::Sse] {
            let mut config = secretive(url, TransportKind::Auto).config().clone();
            config.message_style = Some(style);
            let error = roll(&McpClient::new(config)).await.unwrap_err();
            let text = texts(&error);
            assert!(!text.contains("hush"), "{url}: {text}");
        }
    }
}
