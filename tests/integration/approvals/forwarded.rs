//! What an MCP server receives with an approved call, besides the arguments.

use std::collections::HashMap;

use pillion_testkit::Reply;

use super::*;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Starts a server whose tool `pay` records the parameters of its calls.
fn bank() -> (FakeMcp, Arc<Mutex<Vec<Value>>>) {
    let received = Arc::<Mutex<Vec<Value>>>::default();
    let record = Arc::clone(&received);
    let tools = json!({"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]});
    let bank = FakeMcp::builder(Dialect::StreamableJson)
        .on("tools/list", move |_| Reply::result(&tools))
        .on("tools/call", move |params| {
            record.lock().unwrap().push(params.clone());
            Reply::result(&json!({"content": [{"type": "text", "text": "paid"}]}))
        })
        .start();
    (bank, received)
}

fn start(bank: &FakeMcp) -> Daemon {
    let config = server_entry("bank", &bank.url, "require_approval = \"always\"");
    Daemon::with_config(&config)
}

fn params(further: &Value) -> Value {
    let mut params = json!({"name": "pay", "arguments": {"amount": 1}});
    for (name, value) in further.as_object().unwrap() {
        params[name] = value.clone();
    }
    params
}

/// Returns the ID of the approval that a result names.
fn id(result: &Value) -> String {
    let id = result["result"]["_meta"]["pillion/approval_id"].as_str();
    id.unwrap_or_else(|| panic!("{result}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_calls_share_an_approval_only_if_the_server_gets_the_same() {
    let (bank, received) = bank();
    let daemon = start(&bank);
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let all = [
        json!({}),
        json!({"_meta": {}}),
        json!({"_meta": {"com.bank/amount": "1000000"}}),
        json!({"_meta": {"progressToken": "1000000"}}),
        json!({"_meta": {"traceparent": TRACE}}),
        json!({"_meta": {"traceparent": TRACE, "tracestate": "pay=1000000"}}),
        json!({"_meta": {"traceparent": format!("01{}-pay", &TRACE[2..])}}),
        json!({"_meta": {"traceparent": "pay=1000000", "baggage": "pay=1000000"}}),
        json!({"sudo": true}),
        json!({"sudo": false}),
        json!({"sudo": true, "_meta": {"com.bank/tenant": "other"}}),
        json!({"task": {"ttl": 1_000}}),
        json!({"task": {"ttl": 2_000}}),
        json!({"inputResponses": {"a": {"action": "accept"}}}),
        json!({"requestState": "1000000"}),
    ];
    let mut received_by_approval = HashMap::new();
    for further in &all {
        let approval = id(&session.ask("tools/call", params(further)));
        decide(&daemon.socket, &approval, "approve");
        let shown = daemon.get(&format!("/api/v1/approvals/{approval}")).json();
        let result = session.ask("tools/call", params(further));
        assert_eq!(
            result["result"]["content"][0]["text"], "paid",
            "{further} {result}"
        );
        let mut call = received.lock().unwrap().pop().unwrap();
        // Pillion's own progress token and the position in the trace differ for each call.
        if let Some(meta) = call["_meta"].as_object_mut() {
            meta.remove("progressToken");
            let traceparent = meta.remove("traceparent");
            assert!(meta.is_empty(), "{further}: {call}");
            let trace = traceparent.as_ref().and_then(Value::as_str);
            assert!(
                trace.is_none_or(|trace| trace == TRACE),
                "{further}: {trace:?}"
            );
        }
        // The server received only what the approver saw.
        let mut expected = json!({"name": "pay", "arguments": {"amount": 1}});
        for (name, value) in shown["approval"]["forwarded"]
            .as_object()
            .into_iter()
            .flatten()
        {
            expected[name] = value.clone();
        }
        call.as_object_mut().unwrap().remove("_meta");
        assert_eq!(call, expected, "{further}");
        let hash = shown["approval"]["arguments_hash"].text().to_owned();
        let known = received_by_approval
            .entry(hash)
            .or_insert_with(|| call.clone());
        assert_eq!(*known, call, "{further}");
    }
    let mut distinct: Vec<_> = received_by_approval
        .values()
        .map(Value::to_string)
        .collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), received_by_approval.len());
    assert_eq!(distinct.len(), 7, "{distinct:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_an_approval_is_not_valid_for_further_parameters() {
    let (bank, received) = bank();
    let daemon = start(&bank);
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let harmless = params(&json!({}));
    let approval = id(&session.ask("tools/call", harmless.clone()));
    decide(&daemon.socket, &approval, "approve");
    let further = params(&json!({"sudo": true, "_meta": {"com.bank/amount": "1000000"}}));
    let pending = session.ask("tools/call", further);
    assert_ne!(id(&pending), approval);
    assert!(received.lock().unwrap().is_empty());
    let result = session.ask("tools/call", harmless);
    assert_json!(result["result"]["content"][0]["text"], "paid");
    // A call in another channel has another approval, too.
    let in_channel = Session::open_with(
        &daemon.socket,
        "2025-11-25",
        json!({}),
        "x-pillion-channel: room\r\n",
    );
    let approval = id(&in_channel.ask("tools/call", params(&json!({}))));
    let shown = daemon.get(&format!("/api/v1/approvals/{approval}")).json();
    assert_eq!(shown["approval"]["channel"], "room");
    assert_ne!(id(&session.ask("tools/call", params(&json!({})))), approval);
}
