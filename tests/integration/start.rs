//! The time until a sidecar answers after it was killed, with many calls of the last minutes in its
//! call log. `PILLION_START_CALLS` sets their number.

use pillion_core::store::{
    CallFilter, CallLog, CallStatus, PageRequest, Timestamp, ToolCallRecord,
};
use pillion_store::{SqlStore, StoreOptions};

use crate::prelude::*;

fn execute(daemon: &Daemon, tool: &str, arguments: &Value) -> Option<String> {
    let path = format!("/api/v1/tools/execute/{tool}");
    let reply = daemon.post(&path, arguments.to_string());
    match serde_json::from_slice(&reply.body).unwrap() {
        ExecuteResponse::Executed(ran) => ran.result.error_code,
        other => panic!("{other:?}"),
    }
}

/// Records calls of the killed sidecar in the last minutes, the first of them of a limited tool.
async fn record(path: &std::path::Path, number: usize) {
    let store = SqlStore::open(&StoreOptions::at_file(path)).await.unwrap();
    let all = CallFilter::default();
    let page = store.calls(&all, &PageRequest::first(1)).await.unwrap();
    let known = &page.items[0];
    for number in 0..number {
        let tool = match number {
            0 => "get_time",
            _ => "calculator",
        };
        let mut call = ToolCallRecord::begin(known.process.clone(), tool, "{}".to_owned());
        call.user.clone_from(&known.user);
        call.principal.clone_from(&known.principal);
        call.status = CallStatus::Success;
        call.completed_at = Some(Timestamp::now());
        call.duration = Some(Duration::from_micros(300));
        store.record_local_call(call).await.unwrap();
    }
    store.close().await;
}

#[test]
fn c7_a_start_does_not_wait_for_the_count_of_recorded_calls_and_limits_hold() {
    let number =
        std::env::var("PILLION_START_CALLS").map_or(20_000, |number| number.parse().unwrap());
    let toml = "[tools.get_time]\nrate_limit = { per_hour = 1 }\n";
    let mut daemon = Daemon::with_config(toml);
    let sum = json!({"expression": "6 * 7"});
    assert_eq!(execute(&daemon, "calculator", &sum), None);
    daemon.kill();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime
        .unwrap()
        .block_on(record(&daemon.store_path(), number));

    let start = Instant::now();
    let daemon = daemon.again();
    assert_eq!(execute(&daemon, "calculator", &sum), None);
    let answered = start.elapsed();
    // Only the oldest of the recorded calls exhausts the limit.
    let limited = execute(&daemon, "get_time", &json!({}));
    assert_eq!(limited.as_deref(), Some("rate_limited"));
    daemon.wait_for_log("Counted recorded calls");
    eprintln!(
        "{number} calls: the first answer after {answered:?}, all calls counted after {:?}",
        start.elapsed()
    );
}
