//! Messages over a program's standard streams, in every form.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_concurrent_calls_get_their_own_responses() {
    let client = fake(&[]);
    let calls = (0..200).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let text = "y".repeat(number * 100);
            let echo = call(&client, "echo", json!({"number": number, "text": text})).await;
            assert_eq!(echo, json!({"number": number, "text": text}));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn e2_garbage_batches_and_server_requests_are_tolerated() {
    let client = fake(&[]);
    assert_eq!(call(&client, "garbage", json!({})).await["total"], 15);
    assert_eq!(call(&client, "batch", json!({})).await["batch"], true);
    let response = json!({"jsonrpc": "2.0", "id": "q1", "result": {}});
    assert_eq!(call(&client, "ask", json!({})).await, response);
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
}

#[tokio::test]
async fn e2_arguments_with_a_line_break_are_one_message() {
    let client = fake(&[]);
    let arguments = RawValue::from_string("{\n\r\n \"text\": \"a\\nb\"\n}".into()).unwrap();
    let echo = client.call_tool("echo", &arguments).await.unwrap();
    assert_eq!(echo.get().replace(' ', ""), r#"{"text":"a\nb"}"#);
}

#[tokio::test]
async fn l1_a_line_that_is_too_long_fails_only_its_call() {
    let mut config = fake_config(&[]);
    config.limits.max_event_bytes = 100_000;
    let client = McpClient::new(config);
    let arguments = json!({"bytes": 8 << 20});
    let large = client.call_tool("large", &arguments);
    let (large, small) = tokio::join!(large, roll(&client));
    let error = large.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::TooLarge { limit: 100_000 });
    assert_eq!(small.unwrap().get().replace(' ', ""), ROLLED);
    let fits = call(&client, "large", json!({"bytes": 90_000})).await;
    assert_eq!(fits.text().len(), 90_000);
}

#[tokio::test]
async fn l1_an_endless_line_times_out_within_the_memory_limit() {
    let mut config = fake_config(&[]);
    config.limits.max_event_bytes = 100_000;
    config.timeout = Duration::from_secs(2);
    let client = McpClient::new(config);
    let error = client.call_tool("endless", &json!({})).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    client.disconnect().await;
}

#[tokio::test]
async fn e2_an_answer_that_is_not_json_fails_its_call_at_once() {
    let client = fake(&[]);
    let call = client.call_tool("not-a-number", &());
    let error = call.await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::InvalidMessage(_));
    roll(&client).await.unwrap();
}

#[tokio::test]
async fn l1_a_flood_on_stderr_neither_blocks_the_program_nor_breaks_a_call() {
    let client = fake(&[]);
    let arguments = json!({"lines": 20_000});
    let (flood, other) = tokio::join!(client.call_tool("flood", &arguments), roll(&client));
    flood.unwrap();
    other.unwrap();
}

#[tokio::test]
async fn c2_after_a_dropped_call_the_program_is_usable() {
    let client = fake(&[]);
    roll(&client).await.unwrap();
    let arguments = json!({"seconds": 0.3});
    let slow = client.call_tool("slow", &arguments);
    let cut_off = tokio::time::timeout(Duration::from_millis(50), slow).await;
    assert!(cut_off.is_err());
    // The response arrives after its call was dropped.
    assert_eq!(roll(&client).await.unwrap().get().replace(' ', ""), ROLLED);
}
