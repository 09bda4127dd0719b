//! Detection of transport and revision: unexpected responses to the first request, and the order of
//! attempts.

use std::sync::atomic::AtomicI64;

use pillion_mcp_client::ProtocolVersion;

use super::*;

/// Starts a server of revision 2025-11-25 without sessions that answers `server/discover` with
/// these faults.
async fn older_server(odd: Vec<Fault>) -> FaultServer {
    FaultServer::start(move |request| match request.rpc_method().as_str() {
        "server/discover" => odd.clone(),
        _ => older_response(request),
    })
    .await
}

fn older_response(request: &Recorded) -> Vec<Fault> {
    let reply = match request.rpc_method().as_str() {
        "initialize" => {
            Reply::result(&json!({"protocolVersion": "2025-11-25", "capabilities": {}}))
        }
        "tools/call" => Reply::raw_result(ROLLED),
        _ => return vec![Fault::text("202 Accepted", "Accepted")],
    };
    vec![Fault::reply(request, &reply)]
}

fn unknown_method(request: &Recorded) -> Vec<Fault> {
    let reply = Reply::error(-32601, "Method not found");
    vec![Fault::reply(request, &reply)]
}

/// Binds an address that a server has just released.
async fn bind_again(address: std::net::SocketAddr) -> tokio::net::TcpListener {
    for _ in 0..100 {
        if let Ok(listener) = tokio::net::TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{address} stays taken");
}

#[tokio::test]
async fn e6_an_unexpected_answer_to_discover_leads_to_the_handshake() {
    let error = |code: i64| {
        let error = json!({"code": code, "message": "No"});
        json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string()
    };
    let html = |status, body| vec![Fault::response(status, "text/html", body)];
    let no_session = "No valid session ID provided";
    let odd = [
        vec![Fault::text("500 Internal Server Error", "Oops")],
        vec![Fault::text("501 Not Implemented", "Unsupported method")],
        html("503 Service Unavailable", "<h1>Busy</h1>"),
        html("200 OK", "<h1>It works</h1>"),
        vec![Fault::response("202 Accepted", JSON, "")],
        vec![Fault::json("")],
        vec![Fault::json("{}")],
        vec![Fault::json(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)],
        vec![Fault::text("200 OK", error(-32601))],
        vec![Fault::json(error(-32601))],
        vec![Fault::json("{\"half\": ")],
        vec![Fault::response("200 OK", EVENT_STREAM, ": nothing\n\n")],
        vec![Fault::response("400 Bad Request", JSON, error(-32000))],
        vec![Fault::response("400 Bad Request", JSON, error(-32600))],
        vec![Fault::text("400 Bad Request", no_session)],
        html("404 Not Found", "<h1>404</h1>"),
        vec![Fault::text("405 Method Not Allowed", "")],
        vec![Fault::text("406 Not Acceptable", "")],
        vec![Fault::Close],
        vec![Fault::head(EVENT_STREAM), Fault::Close],
        vec![Fault::Hang],
    ];
    for faults in odd {
        let case = format!("{:?}", faults.first());
        let server = older_server(faults).await;
        let client = client_within(&server.url, TransportKind::Auto, Duration::from_secs(4));
        let called = roll(&client).await;
        let result = called.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(result.get(), ROLLED);
        let info = client.connection().await.unwrap();
        let expected = Some(ProtocolVersion::V2025_11_25);
        assert_eq!(info.protocol_version, expected, "{case}");
        assert_eq!(info.steps.len(), 2, "{case}");
        assert!(server.requests.count("initialize") == 1, "{case}");
    }
}

#[tokio::test]
async fn e6_an_error_of_the_newest_revision_never_leads_to_the_handshake() {
    for code in [-32020, -32021] {
        let error = json!({"code": code, "message": "Mend the request"});
        let body = json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string();
        let server = older_server(vec![Fault::response("400 Bad Request", JSON, body)]).await;
        let error = roll_error(&server.url, TransportKind::Auto).await;
        assert_eq!(error.rpc_error().unwrap().code, code);
        assert!(server.requests.calls("initialize").is_empty());
    }
}

#[tokio::test]
async fn e6_a_server_that_requires_a_credential_for_unknown_methods_is_used_without_one() {
    let challenge = [("WWW-Authenticate", "Bearer error=\"invalid_token\"")];
    let unauthorized =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Unauthorized"}}"#;
    for rejection in [
        Fault::text("401 Unauthorized", ""),
        Fault::text("403 Forbidden", "no"),
        Fault::response("401 Unauthorized", JSON, r#"{"error":"unauthorized"}"#),
        Fault::response("401 Unauthorized", JSON, unauthorized),
        Fault::response("403 Forbidden", JSON, unauthorized),
        Fault::response_with("401 Unauthorized", &challenge, ""),
    ] {
        let case = format!("{rejection:?}");
        let server = older_server(vec![rejection]).await;
        let client = client(&server.url, TransportKind::Auto);
        assert_eq!(roll(&client).await.unwrap().get(), ROLLED, "{case}");
        assert_eq!(server.requests.count("initialize"), 1, "{case}");
    }
}

#[tokio::test]
async fn e6_a_rejected_credential_ends_the_detection_after_the_handshake() {
    for (status, methods) in [
        ("401 Unauthorized", &["server/discover", "initialize"][..]),
        ("403 Forbidden", &["server/discover", "initialize"]),
        ("407 Proxy Authentication Required", &["server/discover"]),
    ] {
        let server = FaultServer::start(move |_| vec![Fault::text(status, "")]).await;
        let error = roll_error(&server.url, TransportKind::Auto).await;
        assert_eq!(error.http_status(), status[..3].parse().ok());
        let requests = server.requests.all();
        let sent = requests.iter().map(|request| request.rpc_method());
        assert!(sent.eq(methods.iter().copied()), "{status}: {requests:?}");
    }
}

#[tokio::test]
async fn e6_the_newest_offered_revision_is_used() {
    let supported = json!(["2025-03-26", "2025-06-18", "1999-01-01"]);
    let result = json!({"supportedVersions": supported});
    let error = json!({"code": -32022, "message": "No", "data": {"supported": supported}});
    for (status, reply) in [
        ("200 OK", Reply::result(&result)),
        ("400 Bad Request", Reply::raw_error(&error)),
    ] {
        let server = FaultServer::start(move |request| match request.rpc_method().as_str() {
            "server/discover" => {
                let response = reply.response(&request.rpc_id());
                vec![Fault::response(status, JSON, response)]
            }
            _ => older_response(request),
        })
        .await;
        let client = client(&server.url, TransportKind::Auto);
        roll(&client).await.unwrap();
        let initialize = server.requests.first("initialize");
        assert_eq!(initialize["params"]["protocolVersion"], "2025-06-18");
    }
}

#[tokio::test]
async fn e7_transports_are_tried_in_order() {
    for (dialect, steps, transport) in [
        (Dialect::Stateless, 1, TransportKind::StreamableHttp),
        (Dialect::StreamableJson, 2, TransportKind::StreamableHttp),
        (Dialect::PostSse, 3, TransportKind::PostSse),
        (Dialect::GetSse, 3, TransportKind::GetSse),
        (LEGACY_SSE, 3, TransportKind::LegacySse),
    ] {
        let (server, found) = start(dialect.clone(), TransportKind::Auto);
        let info = found.connection().await.unwrap();
        assert_eq!(info.transport, transport, "{dialect:?}");
        assert_eq!(info.steps.len(), steps, "{dialect:?}: {:?}", info.steps);
        let (last, others) = info.steps.split_last().unwrap();
        assert!(last.outcome.is_ok());
        // A server that does not know `server/discover` has responded nevertheless.
        assert!(others.iter().skip(1).all(|step| step.outcome.is_err()));
        // Another client of the same server has the cached result.
        let known = client(&server.url, TransportKind::Auto);
        let steps = known.connection().await.unwrap().steps;
        assert_eq!(steps.len(), 1, "{dialect:?}");
    }
}

#[tokio::test]
async fn e7_a_cached_transport_is_dropped_when_it_no_longer_works() {
    let listener = tokio::net::TcpListener::from_std(pillion_testkit::listen()).unwrap();
    let address = listener.local_addr().unwrap();
    let first = FaultServer::on(listener, older_response);
    roll(&client(&first.url, TransportKind::Auto))
        .await
        .unwrap();
    drop(first);
    // A server without a handshake, with event streams, runs at the same address.
    let listener = bind_again(address).await;
    let second = FaultServer::on(listener, |request| match request.rpc_method().as_str() {
        "tools/call" => super::good_response(request),
        _ => unknown_method(request),
    });
    let client = client(&second.url, TransportKind::Auto);
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
    let info = client.connection().await.unwrap();
    assert_eq!(info.transport, TransportKind::PostSse);
}

#[tokio::test]
async fn e7_a_server_that_starts_to_require_a_handshake_gets_it() {
    let upgraded = Arc::new(AtomicBool::new(false));
    let is_upgraded = Arc::clone(&upgraded);
    let server = FaultServer::start(move |request| {
        let is_upgraded = is_upgraded.load(Ordering::SeqCst);
        match request.rpc_method().as_str() {
            "tools/call" if is_upgraded && request.header("mcp-protocol-version").is_empty() => {
                vec![Fault::text("400 Bad Request", "Who are you?")]
            }
            "initialize" | "server/discover" if !is_upgraded => unknown_method(request),
            "server/discover" => vec![Fault::text("404 Not Found", "")],
            _ => older_response(request),
        }
    })
    .await;
    let client = client(&server.url, TransportKind::Auto);
    roll(&client).await.unwrap();
    let info = client.connection().await.unwrap();
    assert_eq!(info.transport, TransportKind::PostSse);
    upgraded.store(true, Ordering::SeqCst);
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
    let info = client.connection().await.unwrap();
    assert_eq!(info.transport, TransportKind::StreamableHttp);
    assert_eq!(server.requests.count("tools/call"), 3);
}

#[tokio::test]
async fn a_server_that_is_down_is_backed_off_for_a_while() {
    let listener = tokio::net::TcpListener::from_std(pillion_testkit::listen()).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = client(&format!("http://{address}/sse"), TransportKind::Auto);
    for _ in 0..3 {
        let error = roll(&client).await.unwrap_err();
        assert_matches!(error.kind(), McpErrorKind::ConnectionFailed(_));
    }
    let error = roll(&client).await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::KnownDown { .. });
    let reported = error.to_string();
    let cause = format!(
        "is down: Connection refused (os error 111) (http://{address}); Pillion tries again"
    );
    assert_contains!(reported, &cause);
    assert_eq!(error.class(), pillion_mcp_client::ErrorClass::Unavailable);
    let wait = error.retry_after().unwrap();
    assert!(wait <= Duration::from_millis(500));
    // When the server is back, the next attempt detects it.
    let listener = bind_again(address).await;
    let _server = FaultServer::on(listener, older_response);
    tokio::time::sleep(wait).await;
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
}

#[tokio::test]
async fn e7_discover_is_repeated_for_a_slow_server_without_handshake() {
    let discovered = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
    let slow = Duration::from_secs(3);
    let first = AtomicBool::new(true);
    let result = discovered.clone();
    let fake = FakeMcp::start_with(Dialect::Stateless, "server/discover", move |_| {
        let is_slow = first.swap(false, Ordering::SeqCst);
        let delay = if is_slow { slow } else { Duration::ZERO };
        Reply::result(&result).after(delay)
    });
    slow_at_first(&fake.url, "an error 400").await;

    let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
    let unsupported = json!({"code": -32022, "message": "No", "data": data});
    for (status, error) in [
        ("200 OK", json!({"code": -32601, "message": "No"})),
        ("404 Not Found", json!({"code": -32601, "message": "No"})),
        ("400 Bad Request", json!({"code": -32602, "message": "No"})),
        ("400 Bad Request", unsupported),
    ] {
        let first = AtomicBool::new(true);
        let case = format!("{status}: {error}");
        let discovered = discovered.clone();
        let server = FaultServer::start(move |request| {
            let (status, reply) = match request.rpc_method().as_str() {
                "server/discover" if first.swap(false, Ordering::SeqCst) => {
                    return vec![Fault::Wait(slow), Fault::Close];
                }
                "server/discover" => ("200 OK", Reply::result(&discovered)),
                "initialize" => (status, Reply::raw_error(&error)),
                _ => ("200 OK", Reply::raw_result(ROLLED)),
            };
            let response = reply.response(&request.rpc_id());
            vec![Fault::response(status, JSON, response)]
        })
        .await;
        slow_at_first(&server.url, &case).await;
    }
}

/// Checks that a server that is slow at first is detected as one of 2026-07-28, and that this is
/// cached.
async fn slow_at_first(url: &str, case: &str) {
    let found = client_within(url, TransportKind::Auto, Duration::from_secs(8));
    let info = found.connection().await.unwrap();
    let steps = &info.steps;
    let latest = Some(ProtocolVersion::LATEST);
    assert_eq!(info.protocol_version, latest, "{case}: {steps:?}");
    assert_eq!(roll(&found).await.unwrap().get(), ROLLED, "{case}");
    let info = client(url, TransportKind::Auto).connection().await.unwrap();
    assert_eq!(info.transport, TransportKind::StreamableHttp, "{case}");
    assert_eq!(info.protocol_version, latest, "{case}");
    assert_eq!(info.steps.len(), 1, "{case}");
}

#[tokio::test]
async fn e7_an_unconfirmed_transport_is_not_cached() {
    let server = FaultServer::start(move |request| {
        let response = match request.rpc_method().as_str() {
            "server/discover" => return vec![Fault::Hang],
            "tools/call" => return super::good_response(request),
            _ => Reply::error(-32601, "Method not found").response(&request.rpc_id()),
        };
        vec![Fault::json(response)]
    })
    .await;
    for _ in 0..2 {
        let client = client_within(&server.url, TransportKind::Auto, Duration::from_secs(2));
        assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
        let info = client.connection().await.unwrap();
        assert_eq!(info.transport, TransportKind::PostSse);
        assert_eq!(info.steps.len(), 4, "{:?}", info.steps);
    }
}

#[tokio::test]
async fn an_error_of_a_tool_is_returned_when_the_revision_cannot_be_detected() {
    let called = AtomicBool::new(false);
    let server = FaultServer::start(move |request| {
        let reply = match request.rpc_method().as_str() {
            "tools/call" => {
                called.store(true, Ordering::SeqCst);
                Reply::error(-32000, "no dice")
            }
            _ if called.load(Ordering::SeqCst) => {
                return vec![Fault::text("503 Service Unavailable", "")];
            }
            _ => Reply::result(&json!({"supportedVersions": ["2026-07-28"]})),
        };
        vec![Fault::reply(request, &reply)]
    })
    .await;
    let error = roll_error(&server.url, TransportKind::Auto).await;
    assert_eq!(error.rpc_error().unwrap().code, -32000);
    assert_eq!(server.requests.count("tools/call"), 1);
}

#[tokio::test]
async fn an_error_of_a_tool_triggers_one_detection_of_the_revision() {
    let code = Arc::new(AtomicI64::new(-32000));
    let answered = Arc::clone(&code);
    let server = FakeMcp::start_with(Dialect::Stateless, "tools/call", move |_| {
        Reply::error(answered.load(Ordering::SeqCst), "no dice")
    });
    let client = client(&server.url, TransportKind::Auto);
    let discoveries = || server.requests.count("server/discover");
    let call = async |expected: i64| {
        let error = roll(&client).await.unwrap_err();
        assert_eq!(error.rpc_error().unwrap().code, expected);
    };
    for _ in 0..3 {
        call(-32000).await;
        assert_eq!(discoveries(), 2);
    }
    // An error with another code does not mean a changed server.
    code.store(-32600, Ordering::SeqCst);
    for _ in 0..3 {
        call(-32600).await;
        assert_eq!(discoveries(), 3);
    }
    assert_eq!(server.requests.count("tools/call"), 6);
    assert!(server.requests.calls("initialize").is_empty());
}
