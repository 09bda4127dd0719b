//! A server that closes its connections without announcing it, at every moment and in every way, or
//! that restarts: no tool call arrives twice, no request fails that is safe to repeat, and no tool
//! call fails that the server cannot have received.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pillion_mcp_client::{
    ErrorClass, McpClient, McpError, McpErrorKind, McpLogLevel, ServerConfig, TransportKind,
};
use pillion_testkit::{CloseKind, CloseTime, ClosingRules, ClosingServer};
use serde_json::json;
use tokio::time::{Instant, sleep};

const IDLE: Duration = Duration::from_millis(15);

const CLOSE_TIMES: [CloseTime; 6] = [
    CloseTime::AfterResponse,
    CloseTime::AfterIdle(IDLE),
    CloseTime::AtFirstByte,
    CloseTime::InHead,
    CloseTime::InsteadOfResponse,
    CloseTime::InResponse,
];

const KINDS: [CloseKind; 3] = [CloseKind::Fin, CloseKind::Close, CloseKind::Reset];

/// Number of requests in [`session`] during which the server can close the connection.
const REQUESTS: usize = 16;

fn client(server: &ClosingServer, stateless: bool) -> McpClient {
    let mut config = ServerConfig::new("closing", &server.url).unwrap();
    if !stateless {
        config.transport = TransportKind::StreamableHttp;
    }
    config.timeout = Duration::from_secs(10);
    McpClient::new(config)
}

/// Calls the tool `work`; `call` identifies the call on the server.
async fn work(client: &McpClient, call: i64) -> Result<(), McpError> {
    let called = client.call_tool("work", &json!({"call": call})).await;
    called.map(drop)
}

/// Checks that an error says that the tool may have run.
fn is_unknown_outcome(error: &McpError) -> bool {
    error.class() == ErrorClass::Unavailable
        && matches!(error.kind(), McpErrorKind::ConnectionBroken(_))
        && error.to_string().contains("may have run")
}

/// Sends each kind of request, with tool calls between them. Returns the failures of tool calls, by
/// number, and a description of all other failures.
async fn session(client: &McpClient, pause: Duration) -> (HashMap<i64, McpError>, Vec<String>) {
    let (mut calls, mut failures) = (HashMap::new(), Vec::new());
    let mut next = 0;
    for step in 0..10 {
        let (name, outcome) = match step {
            0 => ("tools/list", client.list_tools().await.map(drop)),
            1 => ("ping", client.ping().await),
            2 => ("prompts/list", client.list_prompts().await.map(drop)),
            3 => {
                let prompt = client.get_prompt("greet", &json!({})).await;
                ("prompts/get", prompt.map(drop))
            }
            4 => ("resources/list", client.list_resources().await.map(drop)),
            5 => {
                let read = client.read_resource("a:b").await;
                ("resources/read", read.map(drop))
            }
            6 => {
                let templates = client.list_resource_templates().await;
                ("resources/templates/list", templates.map(drop))
            }
            7 => {
                let reference = json!({"type": "ref/prompt", "name": "greet"});
                let completed = client.complete(&reference, "a", "b").await;
                ("completion/complete", completed.map(drop))
            }
            8 => {
                let set = client.set_log_level(McpLogLevel::Info).await;
                ("logging/setLevel", set)
            }
            _ => ("ping", client.ping().await),
        };
        if let Err(error) = outcome {
            failures.push(format!("{name}: {error}"));
        }
        for _ in 0..2 {
            sleep(pause).await;
            if let Err(error) = work(client, next).await {
                calls.insert(next, error);
            }
            next += 1;
        }
        sleep(pause).await;
    }
    (calls, failures)
}

/// Plays one case. Returns a description of what went wrong, if anything.
async fn play(rules: ClosingRules, pause: Duration) -> Option<String> {
    let server = ClosingServer::start(rules);
    let client = client(&server, rules.stateless);
    let (calls, mut wrong) = session(&client, pause).await;
    let received = server.calls();
    for (call, times) in &received {
        assert_eq!(*times, 1, "call {call} of {rules:?}");
    }
    for (call, error) in &calls {
        if !is_unknown_outcome(error) {
            wrong.push(format!("call {call}: {error}"));
        }
    }
    let max = match (rules.only, rules.time) {
        // After a pause, the client sees that the server has closed the connection, so no call
        // fails.
        (_, CloseTime::AfterResponse | CloseTime::AfterIdle(_)) if !pause.is_zero() => 0,
        // The client learns during the handshake that the server closes connections.
        (None, CloseTime::AfterResponse) => 0,
        // At most the one request during which the connection closed fails. If a close coincides
        // with a call, it is unknown whether the server received the call.
        (Some(_), _) => 1,
        // Without a handshake, a call may be the first request from which the client learns that
        // the server closes connections.
        (None, _) => usize::from(rules.stateless),
    };
    if calls.len() > max {
        let numbers: Vec<_> = calls.keys().collect();
        wrong.push(format!("{} of 20 calls failed: {numbers:?}", calls.len()));
    }
    let described = wrong.join("\n    ");
    (!wrong.is_empty()).then(|| format!("pause {pause:?}, {rules:?}\n    {described}"))
}

fn close_cases() -> Vec<(ClosingRules, Duration)> {
    let mut cases = Vec::new();
    for (dialect, time) in (0..3).flat_map(|dialect| CLOSE_TIMES.map(|time| (dialect, time))) {
        for kind in KINDS {
            if dialect == 1 && kind != CloseKind::Close {
                continue; // The form of responses has no influence.
            }
            for only in [None].into_iter().chain((0..REQUESTS).map(Some)) {
                for redirects in [false, true] {
                    let rules = ClosingRules {
                        time,
                        kind,
                        only,
                        stateless: dialect == 2,
                        streams: dialect == 1,
                        redirects,
                        ..ClosingRules::default()
                    };
                    let pause = match time {
                        CloseTime::AfterIdle(idle) => idle + Duration::from_millis(25),
                        _ if only.is_none_or(|only| only % 2 == 0) => Duration::ZERO,
                        _ => Duration::from_millis(10),
                    };
                    cases.push((rules, pause));
                }
            }
        }
    }
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unannounced_close_fails_only_calls_that_may_have_run() {
    let play_twice = |(rules, pause)| async move {
        play(rules, pause).await?;
        // On a busy machine, the server may close a connection later than the case expects.
        play(rules, pause).await
    };
    cases::play_all(close_cases(), 24, play_twice).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_keeps_no_connection_costs_no_call() {
    const CALLS: i64 = 300;
    let (mut report, mut are_allowed) = (String::new(), true);
    for redirects in [false, true] {
        for time in CLOSE_TIMES {
            for kind in KINDS {
                let server = ClosingServer::start(ClosingRules {
                    time,
                    kind,
                    only: None,
                    redirects,
                    ..ClosingRules::default()
                });
                let client = client(&server, false);
                let mut failed = 0;
                for call in 0..CALLS {
                    failed += i64::from(work(&client, call).await.is_err());
                    if matches!(time, CloseTime::AfterIdle(_)) {
                        // The pauses are about as long as the server's idle time.
                        let more = 300 * (u64::try_from(call).unwrap() % 5);
                        sleep(IDLE + Duration::from_micros(more) - Duration::from_micros(500))
                            .await;
                    }
                }
                assert!(server.calls().values().all(|times| *times == 1));
                let share = 100 * failed / CALLS;
                let path = if redirects { "full" } else { "direct" };
                report.push_str(&format!(
                    "{path} {time:?} {kind:?}: {failed} of {CALLS} failed ({share} %)\n"
                ));
                // The client learns the server's idle time from the first call during which the
                // connection closes.
                are_allowed &= failed <= i64::from(matches!(time, CloseTime::AfterIdle(_)));
            }
        }
    }
    eprintln!("{report}");
    assert!(are_allowed, "{report}");
}

/// Calls the tool and sends pings from 16 callers, while the server restarts twice.
async fn restart(down: Duration, redirects: bool, stateless: bool) {
    const CALLERS: usize = 16;
    let mut server = ClosingServer::start(ClosingRules {
        stateless,
        redirects,
        work: Duration::from_millis(3),
        ..ClosingRules::default()
    });
    let client = client(&server, stateless);
    client.list_tools().await.unwrap();
    let next = Arc::new(AtomicI64::new(0));
    let started = Instant::now();
    let until = started + Duration::from_secs(2) + down;
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (client, next) = (client.clone(), Arc::clone(&next));
            tokio::spawn(async move {
                let mut failures = Vec::new();
                while Instant::now() < until {
                    let call = next.fetch_add(1, Ordering::SeqCst);
                    if let Err(error) = work(&client, call).await {
                        failures.push((call, started.elapsed(), error));
                    }
                    if caller % 4 == 0
                        && let Err(error) = client.ping().await
                    {
                        failures.push((-1, started.elapsed(), error));
                    }
                }
                failures
            })
        })
        .collect();
    sleep(Duration::from_millis(200)).await;
    for _ in 0..2 {
        server = tokio::task::spawn_blocking(move || {
            server.stop();
            std::thread::sleep(down);
            server.start_again();
            server
        })
        .await
        .unwrap();
        sleep(Duration::from_millis(500)).await;
    }
    let mut report = String::new();
    let (mut unknown, mut wrong) = (0, 0);
    for caller in callers {
        let failures = caller.await.unwrap();
        // At each of the two restarts, one call may be in progress.
        if failures.len() > 2 {
            wrong += 1;
        }
        for (call, after, error) in failures {
            if call >= 0 && is_unknown_outcome(&error) {
                unknown += 1;
            } else {
                wrong += 1;
            }
            report.push_str(&format!("call {call} after {after:?}: {error}\n"));
        }
    }
    let total = next.load(Ordering::SeqCst);
    eprintln!(
        "full {redirects}, down {down:?}: {total} calls, {unknown} cut off, {wrong} wrong failures"
    );
    assert_eq!(wrong, 0, "{report}");
    assert!(server.calls().values().all(|times| *times == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_fails_only_calls_that_may_have_run() {
    for down in [10, 300, 1000] {
        for redirects in [false, true] {
            for stateless in [false, true] {
                restart(Duration::from_millis(down), redirects, stateless).await;
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_stays_down_fails_calls_in_a_bounded_time() {
    let mut server = ClosingServer::start(ClosingRules::default());
    let client = client(&server, false);
    work(&client, 0).await.unwrap();
    server.stop();
    let started = Instant::now();
    let error = work(&client, 1).await.unwrap_err();
    let has_failed_to_connect = matches!(error.kind(), McpErrorKind::ConnectionFailed(_));
    assert!(has_failed_to_connect, "{error}");
    let waited = started.elapsed();
    assert!((1..5).contains(&waited.as_secs()), "{waited:?}");
    // Later calls fail without waiting, until the server has responded.
    for _ in 0..10 {
        let started = Instant::now();
        work(&client, 2).await.unwrap_err();
        assert!(started.elapsed() < Duration::from_millis(200));
    }
    server.start_again();
    client.end_backoff();
    work(&client, 3).await.unwrap();
}

#[tokio::test]
async fn a_server_that_breaks_every_request_gets_each_a_few_times() {
    for time in [
        CloseTime::AtFirstByte,
        CloseTime::InsteadOfResponse,
        CloseTime::InResponse,
    ] {
        let server = ClosingServer::start(ClosingRules {
            time,
            always: true,
            ..ClosingRules::default()
        });
        let client = client(&server, false);
        let error = client.list_tools().await.unwrap_err();
        let is_broken = matches!(error.kind(), McpErrorKind::ConnectionBroken(_));
        assert!(is_broken, "{error}");
        // At most `initialize` with three repetitions, and the request that ends a session which a
        // cut-off response has named.
        let max = 4 + usize::from(time == CloseTime::InResponse);
        let connections = server.connections();
        assert!(connections <= max, "{time:?}: {connections}");
    }
}
