//! A redirect never forwards a credential to another origin, and never turns a POST into a GET.

use pillion_mcp_client::Authentication;

use super::*;

fn redirect(status: u16, location: &str) -> Vec<Fault> {
    let headers = [("Location", location), ("Content-Type", JSON)];
    let line = format!("{status} Elsewhere");
    vec![Fault::response_with(&line, &headers, "")]
}

/// Starts a server that redirects every request except those to `/good`.
async fn redirecting(status: u16, location: String) -> FaultServer {
    FaultServer::start(move |request| match request.path.as_str() {
        "/good" => good_response(request),
        _ => redirect(status, &location),
    })
    .await
}

fn client(url: &str, transport: TransportKind) -> McpClient {
    let mut config = config(url, transport);
    config.authentication = Authentication::bearer("hush");
    McpClient::new(config)
}

#[tokio::test]
async fn l1_a_redirect_to_another_origin_is_refused() {
    let text = "MCP SSE request failed: the server redirects to another origin or too many times: \
                Pillion does not follow the redirect";
    let failure = Failure::unavailable(text, |kind| matches!(kind, McpErrorKind::Redirect));
    for status in [301, 302, 303, 307, 308] {
        for transport in [TransportKind::PostSse, TransportKind::LegacySse] {
            let elsewhere = FaultServer::start(good_response).await;
            let server = redirecting(status, elsewhere.url.clone()).await;
            let error = roll_error(&server.url, transport).await;
            failure.check(&error, &format!("{status}"));
            assert!(elsewhere.requests.all().is_empty(), "{status}");
            assert_eq!(server.requests.all().len(), 1, "{status}");
        }
    }
    let server = redirecting(307, "https://evil.example/".to_owned()).await;
    let error = roll(&client(&server.url, TransportKind::PostSse)).await;
    failure.check(&error.unwrap_err(), "https");
}

#[tokio::test]
async fn a_307_or_308_within_the_origin_is_followed_with_everything() {
    for status in [307, 308] {
        let server = redirecting(status, "/good".to_owned()).await;
        let client = client(&server.url, TransportKind::PostSse);
        assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
        let requests = server.requests.all();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[1].path, "/good");
        assert_eq!(requests[1].method, "POST");
        assert_eq!(requests[1].header("authorization"), "Bearer hush");
        assert_eq!(requests[1].header("content-type"), "application/json");
        assert_eq!(requests[1].body, requests[0].body);
    }
}

#[tokio::test]
async fn a_301_302_or_303_is_not_followed() {
    for (status, text) in [
        (301, "MCP SSE request failed with HTTP 301"),
        (302, "MCP SSE request failed with HTTP 302"),
        (303, "MCP SSE request failed with HTTP 303"),
    ] {
        let server = redirecting(status, "/good".to_owned()).await;
        let client = client(&server.url, TransportKind::PostSse);
        let failure =
            Failure::unavailable(text, |kind| matches!(kind, McpErrorKind::HttpStatus { .. }));
        failure.check(&roll(&client).await.unwrap_err(), text);
        assert_eq!(server.requests.all().len(), 1);
    }
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let server = redirecting(307, "/sse".to_owned()).await;
    let error = roll_error(&server.url, TransportKind::PostSse).await;
    assert_matches!(error.kind(), McpErrorKind::Redirect);
    assert!(server.requests.all().len() <= 10);
}

#[tokio::test]
async fn a_redirect_to_an_invalid_location_is_an_error() {
    for location in ["", "http://", "::", "\u{7f}", "file:///etc/passwd"] {
        let server = redirecting(307, location.to_owned()).await;
        let client = client(&format!("{}?x=1", server.url), TransportKind::PostSse);
        let error = roll(&client).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Unavailable, "{location:?}");
    }
}
