use pillion_testkit::LlmResponse;
use serde_json::{Value, json};

use super::bench::{Bench, echo, results};
use crate::{ChatEvent, Delta, Usage};

#[tokio::test]
async fn h5_each_call_of_an_answer_has_its_result_in_order() {
    // The first call ends last.
    let calls = LlmResponse::call("late", &json!({"text": "slow"}))
        .and_call("echo", "{\"text\": \"fast\"}");
    let mut bench = Bench::new([calls, LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    bench.respond(&mut state).await;
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let result =
        |id: &str, content: &str| json!({"role": "tool", "tool_call_id": id, "content": content});
    let messages = state.messages();
    assert_eq!(messages[1]["role"], "assistant");
    let expected = [
        call("call_1", "late", "{\"text\":\"slow\"}"),
        call("call_2", "echo", "{\"text\": \"fast\"}"),
    ];
    let calls: Vec<Value> = messages[1]["tool_calls"].as_array().unwrap().clone();
    for (call, expected) in calls.iter().zip(&expected) {
        assert_eq!(call["id"], expected["id"]);
        assert_eq!(call["function"], expected["function"]);
    }
    let expected = [result("call_1", "slow"), result("call_2", "fast")];
    assert_eq!(messages[2..4], expected);
    let body = &bench.llm.bodies()[1];
    assert_eq!(body["messages"].as_array().unwrap()[..], messages[..4]);
    // Both calls ran concurrently.
    let ended = bench.ended().map(|ended| ended.call.name.as_str());
    assert_eq!(Vec::from_iter(ended), ["echo", "late"]);
}

#[tokio::test]
async fn h5_failures_of_tools_go_to_the_model() {
    let calls = LlmResponse::call("boom", &json!({}))
        .and_call("nonesuch", "{}")
        .and_call("", "{}")
        .and_call("echo", "{\"text\": \"cut")
        .and_call("echo", "[1]")
        .and_call("echo", "{\"text\": 5}")
        .and_call("echo", "{\"text\": \"well\"}");
    let mut bench = Bench::new([calls, LlmResponse::text("Sorry.")]).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Sorry.");
    let results = results(state.messages());
    assert_eq!(results.len(), 7);
    assert_eq!(results[0], "{\"error\":\"it broke\"}");
    assert_eq!(results[1], "{\"error\":\"Unknown tool: nonesuch\"}");
    for broken in &results[2..6] {
        assert!(broken.starts_with("{\"error\":"), "{broken}");
    }
    assert_eq!(results[6], "well");
    assert_eq!(bench.tools.echoed(), 1);
}

#[tokio::test]
async fn h5_names_with_a_namespace_or_a_control_token_are_repaired() {
    let arguments = "{\"text\": \"well\"}";
    let calls = LlmResponse::call("functions.echo", &json!({"text": "well"}))
        .and_call("default_api:echo", arguments)
        .and_call("echo<|channel|>commentary", arguments)
        .and_call("functions.hidden", "{}");
    let mut bench = Bench::new([calls, LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Done.");
    let expected = [
        "well",
        "well",
        "well",
        "{\"error\":\"Unknown tool: functions.hidden\"}",
    ];
    assert_eq!(results(state.messages()), expected);
    assert_eq!(bench.tools.echoed(), 3);
}

#[tokio::test]
async fn h2_a_hidden_tool_does_not_run() {
    let calls = LlmResponse::call("hidden", &json!({})).and_call("lurk", "{}");
    let mut bench = Bench::new([calls, LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    bench.respond(&mut state).await;
    let expected = [
        "{\"error\":\"Unknown tool: hidden\"}",
        "{\"error\":\"Unknown tool: lurk\"}",
    ];
    assert_eq!(results(state.messages()), expected);
    assert_eq!(bench.tools.echoed(), 0);
    assert!(bench.statuses().is_empty());
}

#[tokio::test]
async fn h5_a_call_that_did_not_run_is_reported_with_its_arguments() {
    let calls = LlmResponse::call("echo", &json!({"text": "a"}))
        .and_call("nonesuch", "{\"why\": \"not\"}")
        .and_call("echo", "{\"text\": \"cut")
        .and_call("echo", "{\"text\": \"one too many\"}");
    let mut bench = Bench::new([calls, LlmResponse::text("Done.")]).await;
    bench.chat.limits.max_calls_per_response = 3;
    let mut state = bench.begin();
    bench.respond(&mut state).await;
    let calls = bench
        .ended()
        .map(|ended| (ended.call.id.as_str(), ended.arguments()));
    let mut ended: Vec<_> = calls.collect();
    ended.sort_by_key(|(id, _)| *id);
    let expected = [
        ("call_1", json!({"text": "a"})),
        ("call_2", json!({"why": "not"})),
        ("call_3", json!("{\"text\": \"cut")),
        ("call_4", json!({"text": "one too many"})),
    ];
    assert_eq!(ended, expected);
}

#[tokio::test]
async fn h3_a_tool_may_be_called_by_an_alias() {
    let call = LlmResponse::call("say", &json!({"text": "a"}));
    let mut bench = Bench::new([call, LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    bench.respond(&mut state).await;
    assert_eq!(results(state.messages()), ["a"]);
}

#[tokio::test]
async fn h6_events_of_a_streamed_chat_arrive_in_order() {
    let calls = echo("a")
        .and_call("late", "{\"text\": \"b\"}")
        .thinking("Hm.")
        .costing(10, 2);
    let mut bench = Bench::new([calls, LlmResponse::text("It is done.").costing(20, 3)]).await;
    bench.chat.is_streamed = true;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "It is done.");
    let all_kinds = bench.events.iter().map(|event| match event {
        ChatEvent::Delta(Delta::Text(text)) => text.as_str(),
        ChatEvent::Delta(Delta::Thought(_)) => "thought",
        ChatEvent::Delta(_) => "call",
        ChatEvent::Status(status) => status.as_str(),
        ChatEvent::Usage { .. } => "usage",
        ChatEvent::ToolStarted(_) => "started",
        ChatEvent::ToolFinished(_) => "finished",
        ChatEvent::ToolWaiting(_) => "waiting",
        ChatEvent::Done(_) => "done",
    });
    let mut kinds = Vec::from_iter(all_kinds);
    kinds.dedup();
    let expected = [
        "thought",
        "call",
        "usage",
        "Executing echo, late...",
        "started",
        "finished",
        "It ",
        "is ",
        "done.",
        "usage",
        "done",
    ];
    assert_eq!(kinds, expected);
    let is_done = |event: &&ChatEvent| matches!(event, ChatEvent::Done(_));
    assert_eq!(bench.events.iter().filter(is_done).count(), 1);
    let usages = bench.events.iter().filter_map(|event| match event {
        ChatEvent::Usage { request, total, .. } => Some((*request, total.total())),
        _ => None,
    });
    assert_eq!(Vec::from_iter(usages), [(1, 12), (2, 35)]);
    let usage = Usage {
        input_tokens: 30,
        output_tokens: 5,
        cached_tokens: 0,
    };
    assert_eq!(state.usage(), usage);
    // A streamed response results in the same conversation as an unstreamed response.
    assert_eq!(results(state.messages()), ["a", "b"]);
}
