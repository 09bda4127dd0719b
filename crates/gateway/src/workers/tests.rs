use std::future::pending;
use std::sync::Barrier;
use std::time::Duration;

use futures_util::FutureExt;
use pillion_core::tool::{CallContext, JsonObject};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::*;
use crate::process::Process;
use crate::test_support::tool;

#[derive(Debug)]
struct NoListener;

impl ToolListener for NoListener {
    fn tools_changed(&self) {}
}

fn workers(registry: &Arc<ToolRegistry>) -> Arc<Workers> {
    let (registry, section) = (Arc::clone(registry), WorkersSection::default());
    Workers::new(registry, Arc::new(NoListener), Arc::default(), section)
}

fn registration(tools: impl IntoIterator<Item = String>) -> CheckedRegistration {
    let tools = tools
        .into_iter()
        .map(|name| json!({"name": name, "description": "a worker's"}));
    let registration = json!({"name": "test", "tools": tools.collect::<Vec<_>>()});
    let registration: Registration = serde_json::from_value(registration).unwrap();
    registration.check().unwrap()
}

#[tokio::test]
async fn a_call_cancelled_before_it_was_sent_does_not_count_for_the_worker() {
    let registry = Arc::new(ToolRegistry::new());
    let workers = workers(&registry);
    let worker = workers
        .admit(registration(["echo".to_owned()]), None)
        .unwrap();
    let tool = registry.get("echo").unwrap();
    let call = || {
        let tool = Arc::clone(tool.tool());
        tool.call(JsonObject::new(), CallContext::default())
    };
    // Repeated, because a single attempt may succeed by chance.
    for _ in 0..20 {
        workers.mark_idle(worker.id());
        let mut given_up = call();
        let has_ended = (&mut given_up).now_or_never().is_some();
        assert!(!has_ended, "the worker has it");
    }
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let process = Process::default();
    let admission = process.watch_admission(None);
    let working = tokio::spawn(worker.serve_calls(theirs, pending(), pending(), admission));
    let call_task = tokio::spawn(call());
    let (reader, mut writer) = tokio::io::split(ours);
    let mut lines = BufReader::new(reader).lines();
    let line = lines.next_line().await.unwrap();
    let request: Value = serde_json::from_str(&line.expect("the connection holds")).unwrap();
    let result = json!({"content": [{"type": "text", "text": "done"}]});
    let result = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    let text = format!("{result}\n");
    writer.write_all(text.as_bytes()).await.unwrap();
    assert!(call_task.await.unwrap().is_ok());
    drop((lines, writer));
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_name_registered_meanwhile_stays_with_its_owner() {
    let registry = Arc::new(ToolRegistry::new());
    let workers = workers(&registry);
    for round in 0..50 {
        let contested = format!("contested_{round}");
        let other = tool(&contested, "another");
        let barrier = Barrier::new(2);
        // The contested name is the last of many, which leaves time between check and registration.
        let names = (0..100).map(|number| format!("own_{round}_{number}"));
        let registration = registration(names.chain([contested.clone()]));
        let (admitted, registered) = std::thread::scope(|scope| {
            let registering = scope.spawn(|| {
                barrier.wait();
                (0..100_000).find_map(|_| {
                    let is_there = registry.contains(&format!("own_{round}_0"));
                    is_there.then(|| registry.register(Arc::clone(&other)))
                })
            });
            barrier.wait();
            let admitted = workers.admit(registration, None);
            (admitted, registering.join().unwrap())
        });
        let registered = matches!(registered, Some(Ok(())));
        assert_ne!(admitted.is_ok(), registered, "both have it, or neither");
        let holder = registry.get(&contested).unwrap();
        assert_eq!(registered, Arc::ptr_eq(holder.tool(), &other));
        assert_eq!(registry.contains(&format!("own_{round}_0")), !registered);
    }
}

/// Tests all sequences of a few steps that connect workers, disconnect workers or let time pass: a
/// tool is withdrawn when, and only when, it was without a worker for the whole grace period.
#[tokio::test(start_paused = true)]
async fn a_tool_stays_until_it_was_without_a_worker_for_the_whole_grace_period() {
    const STEPS: u32 = 6;
    let grace = WorkersSection::default().grace;
    for sequence in 0..4_u32.pow(STEPS) {
        let registry = Arc::new(ToolRegistry::new());
        let workers = workers(&registry);
        let mut connected = Vec::new();
        let mut alone_for = None;
        for step in 0..STEPS {
            match sequence / 4_u32.pow(step) % 4 {
                0 => {
                    let admitted = workers.admit(registration(["echo".to_owned()]), None);
                    connected.push(admitted.unwrap());
                    alone_for = None;
                }
                1 => {
                    if connected.pop().is_some() && connected.is_empty() {
                        alone_for = Some(Duration::ZERO);
                    }
                }
                2 => {
                    if !connected.is_empty() {
                        connected.remove(0);
                        if connected.is_empty() {
                            alone_for = Some(Duration::ZERO);
                        }
                    }
                }
                _ => {
                    let passed = grace.mul_f32(0.6);
                    // The paused clock advances from timer to timer, as in a process that is never
                    // suspended.
                    tokio::time::sleep(passed).await;
                    alone_for = alone_for.map(|alone| alone + passed);
                }
            }
            let is_expected = match alone_for {
                Some(alone) => alone < grace,
                None => !connected.is_empty(),
            };
            assert_eq!(registry.contains("echo"), is_expected, "{sequence:o}");
        }
    }
}
