//! Arguments that the model has written in another form than its API requires.

use std::sync::atomic::Ordering;

use pillion_core::tool::ToolResult;
use pillion_providers::Provider;
use pillion_testkit::LlmResponse;
use serde_json::json;

use super::bench::{Bench, results};

#[tokio::test]
async fn h5_arguments_that_are_encoded_twice_are_read() {
    let twice = json!(json!({"text": "a"}).to_string()).to_string();
    for provider in [Provider::OpenAiChat, Provider::OpenAiResponses] {
        for stream in [false, true] {
            let calls = LlmResponse::default()
                .and_call("echo", &twice)
                .and_call("echo", "[]");
            let mut bench = Bench::at(provider, [calls, LlmResponse::text("Done.")]).await;
            bench.chat.is_streamed = stream;
            let mut state = bench.begin();
            assert_eq!(bench.respond(&mut state).await, "Done.", "{provider}");
            assert_eq!(bench.tools.echoed.load(Ordering::SeqCst), 2);
            let metadata = bench.ended().map(|ended| &ended.result.metadata);
            let mut repaired: Vec<_> = metadata
                .map(|it| &it[ToolResult::REPAIRED_ARGUMENTS])
                .collect();
            repaired.sort_by_key(ToString::to_string);
            assert_eq!(repaired, [&json!({"text": "a"}), &json!({})]);
            // The conversation contains the calls with the arguments with which they ran.
            let sent = bench.llm.bodies()[1].to_string();
            assert!(!sent.contains("INVALID_JSON"), "{sent}");
        }
    }
}

#[tokio::test]
async fn h5_a_text_that_looks_like_json_stays_text() {
    let call = LlmResponse::call("echo", &json!({"text": "[1, 2]"}));
    let mut bench = Bench::new([call, LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    bench.respond(&mut state).await;
    assert_eq!(results(state.messages()), ["[1, 2]"]);
}
