//! Lists of records whose stored JSON is large, or needs much memory when parsed.

use crate::hostile_server::{self, HostileReply};
use crate::prelude::*;

const MIB: u64 = 1024 * 1024;

/// Starts a daemon that has run `calls` calls with `bytes` bytes of empty arrays.
fn daemon(calls: usize, bytes: usize, settings: &str) -> Daemon {
    let url = hostile_server::start(HostileReply::well);
    let server = detected_entry("s", &url, "");
    let daemon = Daemon::with_config(&format!("{settings}{server}"));
    let arrays = vec!["[]"; bytes / 3].join(",");
    for nth in 0..calls {
        let body = format!(r#"{{"nth":{nth},"arrays":[{arrays}]}}"#);
        let reply = daemon.post("/api/v1/tools/execute/s_echo", body);
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    daemon
}

/// Reads a list to its end, with the highest limit. Returns the pages, in order.
fn pages(socket: &Path, path: &str, member: &str) -> Vec<Vec<Value>> {
    let (mut pages, mut query) = (Vec::new(), String::new());
    loop {
        let target = format!("{path}?limit=1000{query}");
        let timeout = Duration::from_secs(120);
        let response = socket
            .send_within("GET", &target, "", b"", timeout)
            .expect(200);
        pages.push(response[member].items().clone());
        match response["next"].as_str() {
            Some(next) => query = format!("&after={next}"),
            None => return pages,
        }
    }
}

/// Returns all records of a list, which has two pages. Reading them takes a limited amount of memory.
fn two_pages(daemon: &Daemon, path: &str, member: &str) -> Vec<Value> {
    let before = daemon.memory_bytes("VmHWM");
    let pages = pages(&daemon.socket, path, member);
    let growth = daemon.memory_bytes("VmHWM") - before;
    assert!(growth < 120 * MIB, "{growth} bytes");
    assert_eq!(pages.len(), 2);
    pages.concat()
}

#[test]
fn a_page_of_calls_is_limited_in_bytes_and_not_parsed() {
    let daemon = daemon(150, 60_000, "");
    let calls = two_pages(&daemon, "/api/v1/tool-calls/", "calls");
    let numbers = calls
        .iter()
        .map(|call| call["arguments"]["nth"].as_u64().unwrap());
    assert!(numbers.eq((0..150).rev()));
    assert!(
        calls
            .iter()
            .all(|call| call["arguments"]["arrays"].items().len() == 20_000)
    );
}

#[test]
fn long_arguments_of_approvals_are_not_parsed_for_a_list() {
    let daemon = daemon(10, 1_000_000, "[approvals]\npolicy = \"always-ask\"\n");
    let approvals = two_pages(&daemon, "/api/v1/approvals/", "approvals");
    assert_eq!(approvals.len(), 10);
    assert!(
        approvals
            .iter()
            .all(|approval| approval.get("arguments").is_none())
    );
    let path = format!("/api/v1/approvals/{}", approvals[9]["id"].text());
    let shown = daemon.get(&path).json();
    assert_eq!(shown["approval"]["arguments"]["nth"], 0);
}
