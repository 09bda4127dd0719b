//! Tests random sequences of messages: every request gets exactly one response, whatever the order,
//! the IDs and the sizes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pillion_config::Config;
use pillion_core::registry::ToolRegistry;
use pillion_gateway::access::Peer;
use pillion_gateway::process::Process;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, WriteHalf};
use tokio::time::timeout;

use super::{ExecutorRequest, PhpExecutor};
use crate::app::App;
use crate::current_app::CurrentApp;

const MESSAGES: usize = 150;

/// A small generator of random numbers (xorshift), so that a failed seed can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn text(&mut self, max: u64) -> String {
        let length = usize::try_from(self.below(max)).unwrap();
        "ä\"\\x".chars().cycle().take(length).collect()
    }
}

/// The messages that were sent, by which the responses are checked.
#[derive(Default)]
struct Expected {
    /// The number of requests with each ID.
    requests: HashMap<String, usize>,
    /// The number of cancellations of each execution, by its ID.
    cancellations: HashMap<String, usize>,
}

impl Expected {
    /// Returns whether responses are missing.
    fn misses(&self, responses: &HashMap<String, usize>) -> bool {
        self.requests.iter().any(|(id, requests)| {
            let cancelled = self.cancellations.get(id).copied().unwrap_or(0);
            responses.get(id).copied().unwrap_or(0) + cancelled < *requests
        })
    }

    fn check(&self, responses: &HashMap<String, usize>, seed: u64) {
        for (id, count) in responses {
            let requests = self.requests.get(id).copied().unwrap_or(0);
            assert!(*count <= requests, "seed {seed}: {id}: {count} responses");
        }
    }
}

fn call(random: &mut Random) -> Value {
    let name = ["greet", "nothing", "sidecar"][usize::try_from(random.below(3)).unwrap()];
    let arguments = json!({"name": random.text(300)}).to_string();
    json!({"id": random.text(20), "name": name, "arguments": arguments, "inPhp": name == "greet"})
}

fn execution(random: &mut Random) -> Value {
    let calls: Vec<_> = (0..random.below(5)).map(|_| call(random)).collect();
    let headers = (0..random.below(3) * 80).map(|n| (format!("x-{n}"), json!("v")));
    let mut params = json!({
        "calls": calls,
        "parallel": random.below(2) == 0,
        "nested": random.below(2) == 0,
        "approved": [random.text(50)],
        "headers": headers.collect::<serde_json::Map<_, _>>(),
        "callbacks": {"before": random.below(4) == 0},
    });
    match random.below(12) {
        0 => params["calls"] = json!("none"),
        1 => params["definitions"] = json!({"tools": [{"number": 1}]}),
        2 => params["calls"] = (0..10_001).map(|_| json!({"id": "", "name": ""})).collect(),
        _ => {}
    }
    params
}

fn message(random: &mut Random, number: usize, expected: &mut Expected) -> Value {
    match random.below(10) {
        0 => {
            let id = random.below(20);
            *expected.cancellations.entry(id.to_string()).or_default() += 1;
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
        }
        1 => {
            json!({"jsonrpc": "2.0", "method": "notifications/unknown", "params": random.text(100)})
        }
        2 | 3 => {
            let id = json!(format!("{number}-{}", random.text(3_000)));
            expected.requests.insert(id.to_string(), 1);
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/unknown"})
        }
        _ => {
            // Ids are used again, even while their executions run.
            let id = random.below(20);
            *expected.requests.entry(id.to_string()).or_default() += 1;
            let params = execution(random);
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/execute", "params": params})
        }
    }
}

fn definitions() -> Value {
    json!({"tools": [
        {"number": 1, "name": "greet", "description": "Greets", "category": "general",
            "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}}},
        {"number": 2, "name": "sidecar", "description": "Missing", "category": "general",
            "inputSchema": {}, "sidecarName": "missing"},
    ]})
}

fn executor() -> PhpExecutor {
    let config = Config::default();
    let app = App::build(&config, Arc::new(ToolRegistry::new()), None);
    let current_app = CurrentApp::new(app);
    let peer = Peer::Process {
        uid: 0,
        gid: 0,
        pid: Some(1),
    };
    let options = json!({"timeout": 5.0});
    PhpExecutor::new(ExecutorRequest { options }, current_app, peer).unwrap()
}

async fn send_line(writer: &mut WriteHalf<DuplexStream>, message: &Value) {
    let line = format!("{message}\n");
    writer.write_all(line.as_bytes()).await.unwrap();
}

/// Sends the messages, and responds to the sidecar's requests until all own requests have
/// responses.
async fn converse(stream: DuplexStream, seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut expected = Expected::default();
    let first = json!({"jsonrpc": "2.0", "id": 999, "method": "tools/execute",
        "params": {"definitions": definitions(), "calls": []}});
    expected.requests.insert("999".to_owned(), 1);
    let mut unsent = vec![first];
    unsent.extend((0..MESSAGES).map(|number| message(&mut random, number, &mut expected)));
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    let (replies, mut to_send) = tokio::sync::mpsc::channel::<Value>(10_000);
    // Writes and reads are independent, because either side may stop reading for a while.
    let writing = tokio::spawn(async move {
        for message in unsent {
            while let Ok(reply) = to_send.try_recv() {
                send_line(&mut writer, &reply).await;
            }
            send_line(&mut writer, &message).await;
        }
        while let Some(reply) = to_send.recv().await {
            send_line(&mut writer, &reply).await;
        }
        writer
    });
    let mut responses: HashMap<String, usize> = HashMap::new();
    let mut results = 0;
    while expected.misses(&responses) {
        let line = timeout(Duration::from_secs(60), lines.next_line())
            .await
            .unwrap_or_else(|_| panic!("seed {seed}: a request has no response"));
        let message: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        match message["method"].as_str() {
            Some("tools/call" | "before" | "approve") => {
                let outcome = json!({"tool_call_id": "", "tool_name": "", "success": true,
                    "result": random.text(2_000)});
                let reply = json!({"jsonrpc": "2.0", "id": message["id"],
                    "result": {"outcome": outcome}});
                replies.send(reply).await.unwrap();
            }
            Some("notifications/result") => results += 1,
            Some(_) => {}
            None => *responses.entry(message["id"].to_string()).or_default() += 1,
        }
        if random.below(50) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    expected.check(&responses, seed);
    assert!(results > 0, "seed {seed}: no call has a result");
    drop(replies);
    // Results of cancelled executions may still arrive.
    let rest = async { while lines.next_line().await.is_ok_and(|line| line.is_some()) {} };
    tokio::select! {
        written = writing => drop(written.unwrap()),
        () = rest => panic!("seed {seed}: the sidecar closed the connection"),
    }
}

#[tokio::test]
async fn every_request_is_answered_once_whatever_the_order_the_ids_and_the_sizes() {
    for seed in 1..=12 {
        // The buffers are small, so that both sides often wait for each other.
        let (php, sidecar) = tokio::io::duplex(4096);
        let admission = Process::default().watch_admission(None);
        let (shutdown, process_end) = (std::future::pending(), std::future::pending());
        let serving = executor().serve(sidecar, shutdown, process_end, admission);
        let serving = tokio::spawn(serving);
        converse(php, seed).await;
        timeout(Duration::from_secs(10), serving)
            .await
            .unwrap()
            .unwrap();
    }
}
