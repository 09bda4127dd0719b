use pillion_providers::Provider;
use pillion_testkit::LlmResponse;
use serde_json::json;

use super::bench::{Bench, echo};
use crate::{ChatError, ChatEvent, Finish, ProviderMembers, TurnOptions};

/// Options for one call at a time.
fn one_at_a_time() -> TurnOptions {
    TurnOptions {
        one_call_at_a_time: true,
        ..TurnOptions::default()
    }
}

#[tokio::test]
async fn h5_a_single_turn_returns_its_calls_to_the_caller() {
    let response = echo("a").and_call("echo", "").costing(10, 5);
    let mut bench = Bench::new([response, LlmResponse::text("Done.").costing(20, 1)]).await;
    bench.chat.limits.max_total_tokens = Some(1000);
    let mut state = bench.begin();
    let before = state.messages().to_vec();
    let turn = bench.turn(&mut state).await.unwrap();
    assert_eq!(turn.finish, Finish::ToolCalls);
    assert_eq!(turn.calls.len(), 2);
    assert_eq!(turn.calls[0].arguments_object(), json!({"text": "a"}));
    // Nothing ran, and the conversation is unchanged; the cost is counted.
    assert_eq!(bench.tools.echoed(), 0);
    assert_eq!(state.messages(), before);
    assert_eq!(state.usage().total(), 15);
    let again = bench.turn(&mut state).await;
    assert_eq!(again.unwrap().text, "Done.");
    assert_eq!(state.usage().total(), 36);
}

#[tokio::test]
async fn h4_a_single_turn_keeps_the_token_limit() {
    let mut bench = Bench::new([LlmResponse::text("Done.")]).await;
    bench.chat.limits.max_total_tokens = Some(1);
    let mut state = bench.begin();
    let turn = bench.turn(&mut state).await;
    let is_limited = matches!(turn, Err(ChatError::TokenLimit { limit: 1, .. }));
    assert!(is_limited, "{turn:?}");
    assert!(bench.llm.bodies().is_empty());
}

#[tokio::test]
async fn h4_without_parallel_calls_calls_run_in_turn() {
    let late = |text: &str| json!({ "text": text }).to_string();
    let calls = LlmResponse::default()
        .and_call("late", &late("a"))
        .and_call("late", &late("b"));
    let mut bench = Bench::at(Provider::Google, [calls, LlmResponse::text("Done.")]).await;
    bench.chat = bench.chat.with_options(one_at_a_time());
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Done.");
    let events = bench.events.iter().filter_map(|event| match event {
        ChatEvent::ToolStarted(call) => Some(format!("begins {}", call.arguments_object()["text"])),
        ChatEvent::ToolFinished(ended) => Some(format!("ends {}", ended.result.result)),
        _ => None,
    });
    let order: Vec<_> = events.collect();
    let expected = [
        r#"begins "a""#,
        r#"ends "a""#,
        r#"begins "b""#,
        r#"ends "b""#,
    ];
    assert_eq!(order, expected);
}

/// Gemini rejects its own calls without their signatures, DeepSeek without the model's thinking.
#[tokio::test]
async fn h5_a_single_turn_returns_what_has_to_go_back_to_the_provider() {
    let function = json!({"name": "echo", "arguments": "{}"});
    let message = json!({"role": "assistant", "content": null, "reasoning_content": "Hm.",
    "reasoning": null, "annotations": [], "tool_calls": [
        {"id": "1", "type": "custom", "custom": {"name": "x"}, "extra_content": "other"},
        {"id": "2", "index": 0, "function": function, "extra_content": {"google": "a"}},
        {"id": "3", "type": "function", "function": function},
        {"id": "4", "type": "function", "function": function, "extra_content": "lost"},
    ]});
    let body = json!({"choices": [{"message": message, "finish_reason": "length"}]});
    let response = LlmResponse::error_response("200 OK", &body.to_string());
    let bench = Bench::new([response]).await;
    let mut state = bench.begin();
    let turn = bench.turn(&mut state).await.unwrap();
    let ids: Vec<_> = turn.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["2", "3"]);
    let ProviderMembers { message, calls } = turn.provider_members;
    assert_eq!(json!(message), json!({"reasoning_content": "Hm."}));
    let expected = json!([{"extra_content": {"google": "a"}}, {}]);
    assert_eq!(json!(calls), expected);
}

#[tokio::test]
async fn h5_data_of_other_providers_is_omitted_from_openai_messages() {
    let thought = json!({"type": "thinking", "thinking": "Hm", "signature": "c2ln"});
    let response = echo("a").with_item(thought);
    let bench = Bench::at(Provider::Anthropic, [response]).await;
    let mut state = bench.begin();
    let turn = bench.turn(&mut state).await;
    let provider_members = turn.unwrap().provider_members;
    assert!(provider_members.message.is_empty());
    assert_eq!(json!(provider_members.calls), json!([{}]));
}

#[tokio::test]
async fn h4_without_parallel_calls_a_single_turn_returns_one_call() {
    let bench = Bench::at(Provider::Google, [echo("a").and_call("echo", "")]).await;
    let chat = bench.chat.clone().with_options(one_at_a_time());
    let mut state = bench.begin();
    let turn = chat.turn(&mut state, &mut |_: ChatEvent| {}).await.unwrap();
    assert_eq!(turn.calls.len(), 1);
    assert_eq!(turn.calls[0].arguments_object(), json!({"text": "a"}));
    assert_eq!(turn.finish, Finish::ToolCalls);
}
