//! MCP servers that close their connections without announcing it, or restart, seen by a caller of
//! the sidecar. The tests of the client in `crates/mcp-client/tests` cover every close.

use std::sync::atomic::AtomicI64;

use pillion_testkit::{CloseKind, CloseTime, ClosingRules, ClosingServer};

use crate::prelude::*;

fn start(server: &ClosingServer) -> Sidecar {
    let url = &server.url;
    Sidecar::with_config(&detected_entry("far", url, ""))
}

/// Calls the tool; returns the code and the text of the error.
fn work(sidecar: &Sidecar, call: i64) -> Result<(), (String, String)> {
    let arguments = json!({"call": call}).to_string();
    let response = sidecar
        .post("/api/v1/tools/execute/far_work", arguments)
        .json();
    let result = &response["result"];
    match result["success"].as_bool() {
        Some(true) => Ok(()),
        _ => Err((
            result["error_code"].to_string(),
            result["error"].to_string(),
        )),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e9_a_server_that_closes_its_connections_costs_no_call() {
    for time in [
        CloseTime::AfterResponse,
        CloseTime::AtFirstByte,
        CloseTime::InHead,
        CloseTime::InsteadOfResponse,
    ] {
        for kind in [CloseKind::Close, CloseKind::Reset] {
            let rules = ClosingRules {
                time,
                kind,
                only: None,
                ..ClosingRules::default()
            };
            let server = ClosingServer::start(rules);
            let sidecar = start(&server);
            for call in 0..50 {
                let called = work(&sidecar, call);
                called.unwrap_or_else(|error| panic!("{rules:?}, call {call}: {error:?}"));
            }
            assert!(
                server.calls().values().all(|times| *times == 1),
                "{rules:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e9_a_restart_fails_only_calls_that_may_have_run() {
    const CALLERS: usize = 4;
    let mut server = ClosingServer::start(ClosingRules {
        work: Duration::from_millis(3),
        ..ClosingRules::default()
    });
    let sidecar = start(&server);
    work(&sidecar, 0).unwrap();
    let (next, ended) = (AtomicI64::new(1), AtomicBool::new(false));
    let failures: Vec<_> = thread::scope(|scope| {
        let caller = || {
            let mut failures = Vec::new();
            while !ended.load(Ordering::SeqCst) {
                let call = next.fetch_add(1, Ordering::SeqCst);
                failures.extend(work(&sidecar, call).err());
            }
            failures
        };
        let callers = [(); CALLERS].map(|()| scope.spawn(caller));
        for down in [10, 300] {
            thread::sleep(Duration::from_millis(200));
            server.stop();
            thread::sleep(Duration::from_millis(down));
            server.start_again();
        }
        thread::sleep(Duration::from_millis(500));
        ended.store(true, Ordering::SeqCst);
        let failures = callers.into_iter().map(|caller| caller.join().unwrap());
        failures.flatten().collect()
    });
    assert!(failures.len() <= 2 * CALLERS, "{failures:?}");
    for (code, text) in &failures {
        assert_eq!(code, "\"unavailable\"", "{text}");
        assert_contains!(text, "the tool may have run");
    }
    assert!(server.calls().values().all(|times| *times == 1));
}
