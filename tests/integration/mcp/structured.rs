//! Structured results and output schemas, some of them hostile.

use pillion_core::tool::{CallContext, ServerResponse};
use pillion_mcp_client::{RequestOptions, ToolCallResult};
use pillion_mcp_tools::McpTool;
use serde_json::Map;

use super::*;

/// Starts a server whose tool `roll` has this output schema and returns this structured content.
fn server(output_schema: &Value, content: &Value) -> FakeMcp {
    let tool = json!({"name": "roll", "inputSchema": {}, "outputSchema": output_schema});
    let result = json!({"content": [], "structuredContent": content});
    FakeMcp::builder(Dialect::PlainHttp)
        .on("tools/list", fixed(json!({"tools": [tool]})))
        .on("tools/call", move |_| Reply::result(&result))
        .start()
}

async fn call(client: &McpClient, timeout: Duration) -> ToolCallResult {
    let options = RequestOptions::default().timeout(timeout);
    let call = client.call_tool_with_options("roll", &(), &options);
    call.await.unwrap()
}

/// Returns the warning of a result; the second call uses the compiled schema.
async fn mismatch(output_schema: &Value, content: &Value) -> Option<String> {
    let server = server(output_schema, content);
    let client = client(&server.url, TransportKind::Http);
    client.list_tools().await.unwrap();
    let first = call(&client, Duration::from_secs(20)).await.output_mismatch;
    let second = call(&client, Duration::from_secs(20)).await.output_mismatch;
    assert_eq!(first, second);
    first
}

/// Returns a schema for which `"x"` is checked against `{"type": "number"}` 2^60 times.
fn endless() -> Value {
    let mut definitions = Map::new();
    for nth in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", nth + 1)});
        definitions.insert(format!("d{nth}"), json!({"anyOf": [next, next]}));
    }
    definitions.insert("d60".to_owned(), json!({"type": "number"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

#[tokio::test]
async fn a_result_that_violates_its_schema_has_a_warning() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    assert_eq!(mismatch(&schema, &json!({"n": 1})).await, None);
    let word = mismatch(&schema, &json!({"n": "1"})).await.unwrap();
    assert_starts_with!(word, "at '/n'");
    let large = json!({"n": 1, "text": "x".repeat(200_000)});
    assert_eq!(mismatch(&schema, &large).await, None);
    let large = json!({"n": "1", "text": "x".repeat(200_000)});
    assert!(mismatch(&schema, &large).await.is_some());
    assert_eq!(mismatch(&json!({"type": "null"}), &json!(null)).await, None);
}

#[tokio::test]
async fn a_forwarded_result_is_checked_and_kept_as_the_server_wrote_it() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let server = server(&schema, &json!({"n": "1"}));
    let client = client(&server.url, TransportKind::Http);
    let listed = client.list_tools().await.unwrap();
    let tool = McpTool::from_listed(client.clone(), "x_", &listed[0]).unwrap();
    let params = json!({"name": "roll", "arguments": {}, "_meta": {"own": 1}});
    let options = RequestOptions::default();
    let output = tool.forward(&client, &params, &options).await.unwrap();
    assert_starts_with!(output.metadata["output_mismatch"].text(), "at '/n'");
    let Some(ServerResponse::Result(written)) = output.response else {
        panic!("no response: {output:?}");
    };
    let expected = r#"{"content":[],"structuredContent":{"n":"1"}}"#;
    assert_eq!(written.get(), expected);
    // A caller that does not forward the response gets the same outcome, without the response.
    let (arguments, context) = (Map::new(), CallContext::default());
    let call = tool.call_with_client(&client, &arguments, context);
    let called = call.await.unwrap();
    assert_eq!(called.result, output.result);
    assert_eq!(called.metadata, output.metadata);
    assert_eq!(called.response, None);
}

#[tokio::test]
async fn an_unusable_output_schema_is_ignored() {
    for schema in [
        json!(null),
        json!(7),
        json!({"type": "no such type"}),
        json!({"$ref": "http://127.0.0.1:9/schema.json"}),
        json!({"type": "number", "description": "x".repeat(300_000)}),
        json!({"pattern": "((\\w{100}){100}){100}"}),
    ] {
        assert_eq!(mismatch(&schema, &json!("x")).await, None);
    }
}

/// One worker, like in the PHP extension: it has to stay free, and the call has to meet its
/// deadline.
#[test]
fn a_hostile_output_schema_delays_no_call() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let task = tokio::spawn(async {
            let server = server(&endless(), &json!("x"));
            let client = client(&server.url, TransportKind::Http);
            client.list_tools().await.unwrap();
            let ticks = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&ticks);
            let ticking = tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
            for _ in 0..2 {
                let before = (Instant::now(), ticks.load(Ordering::Relaxed));
                let called = call(&client, Duration::from_secs(1)).await;
                assert_contains!(called.result.get(), "structuredContent");
                assert_eq!(called.output_mismatch, None);
                assert!(before.0.elapsed() < Duration::from_secs(5));
                assert!(ticks.load(Ordering::Relaxed) - before.1 > 20);
            }
            ticking.abort();
        });
        task.await.unwrap();
    });
    // The remaining checks end by themselves.
    let before = Instant::now();
    drop(runtime);
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn the_total_size_of_a_list_is_limited() {
    let pages = AtomicUsize::new(0);
    let server = FakeMcp::start_with(Dialect::PlainHttp, "tools/list", move |_| {
        // A page or a cursor that repeats would end the list.
        let page = pages.fetch_add(1, Ordering::SeqCst).to_string();
        let tool = json!({"name": page, "description": "x".repeat(900)});
        Reply::result(&json!({"tools": [tool], "nextCursor": page}))
    });
    let mut config = config(&server.url, TransportKind::Http);
    config.limits.max_response_bytes = 1024;
    let client = McpClient::new(config);
    let error = client.list_tools().await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::ListTooLarge { limit: 4096 });
    let text = "MCP request failed: the list is larger than 4096 bytes";
    assert_eq!(error.to_string(), text);
    assert_eq!(server.requests.count("tools/list"), 5);
}

/// While a list is read, calls use the previous list; after a failure, too.
#[tokio::test]
async fn an_incomplete_list_does_not_change_the_known_tools() {
    let lists = AtomicUsize::new(0);
    let server = FakeMcp::builder(Dialect::PlainHttp)
        .on("tools/list", move |params| {
            let schema = json!({"type": "integer"});
            let old = json!({"name": "roll", "outputSchema": schema, "annotations": null});
            match (lists.fetch_add(1, Ordering::SeqCst), &params["cursor"]) {
                (0, _) => Reply::result(&json!({"tools": [old]})),
                (1 | 3, Value::Null) => Reply::result(&json!({"tools": [], "nextCursor": "2"})),
                (2, _) => Reply::error(-32603, "no"),
                (_, _) => Reply::result(&json!({"tools": [{"name": "other"}]})),
            }
        })
        .on("tools/call", fixed(json!({"structuredContent": "x"})))
        .start();
    let client = client(&server.url, TransportKind::Http);
    let timeout = Duration::from_secs(20);
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    assert!(call(&client, timeout).await.output_mismatch.is_some());
    client.list_tools().await.unwrap_err();
    assert!(call(&client, timeout).await.output_mismatch.is_some());
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    assert_eq!(call(&client, timeout).await.output_mismatch, None);
}
