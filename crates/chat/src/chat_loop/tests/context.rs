use pillion_providers::Provider;
use pillion_testkit::{LlmFault, LlmResponse};
use serde_json::json;

use super::super::{size, trim};
use super::bench::{Bench, echo, results, user};
use crate::chat_loop::size::MeasuredRequest;
use crate::{ChatEvent, Delta, ModelErrorKind};

const NOTE: &str = "[This result was left out to keep the conversation short]";

fn long(word: &str) -> String {
    format!("{word} ").repeat(400)
}

/// Returns the results in the request with this index.
fn sent_results(bench: &Bench, index: usize) -> Vec<String> {
    let body = &bench.llm.bodies()[index];
    let results = results(body["messages"].as_array().unwrap());
    results.into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn h4_old_results_are_omitted_first_to_fit_the_context() {
    let responses = [
        echo(&long("one")),
        echo(&long("two")),
        echo(&long("six")),
        LlmResponse::text("Done."),
    ];
    let mut bench = Bench::new(responses).await;
    bench.chat.options.max_output_tokens = Some(100);
    bench.chat.limits.context_tokens = Some(2_700);
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!(sent_results(&bench, 1), [long("one")]);
    // The oldest result is omitted first; results of the last round are never omitted.
    let last = sent_results(&bench, 3);
    assert_eq!(last[0], NOTE);
    assert_eq!(last[2], long("six"));
    // The chat's own state keeps all results.
    let all = [long("one"), long("two"), long("six")];
    assert_eq!(results(state.messages()), all);
}

#[tokio::test]
async fn h4_a_conversation_beyond_the_context_is_not_sent() {
    let mut bench = Bench::new([echo(&long("one")), LlmResponse::text("Done.")]).await;
    bench.chat.limits.context_tokens = Some(1_000);
    let mut state = bench.begin();
    let kind = bench.error_kind(&mut state).await;
    assert_eq!(kind, ModelErrorKind::ContextTooLong);
    assert_eq!(bench.llm.bodies().len(), 1);
    assert_eq!(results(state.messages()), [long("one")]);
}

#[tokio::test]
async fn h4_a_request_that_the_provider_finds_too_long_is_retried_without_old_results() {
    let too_long =
        || LlmResponse::rejection("400 Bad Request", "context_length_exceeded", "Too long");
    let responses = [
        echo(&long("one")),
        echo(&long("two")),
        too_long(),
        LlmResponse::text("Done."),
    ];
    let mut bench = Bench::new(responses).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!(sent_results(&bench, 2), [long("one"), long("two")]);
    assert_eq!(sent_results(&bench, 3), [NOTE.to_owned(), long("two")]);

    // The request is repeated once, and only if a result can be omitted.
    for (responses, requests) in [
        (vec![too_long()], 1),
        (vec![echo(&long("one")), echo("two"), too_long()], 4),
    ] {
        let mut bench = Bench::new(responses).await;
        let mut state = bench.begin();
        let kind = bench.error_kind(&mut state).await;
        assert_eq!(kind, ModelErrorKind::ContextTooLong);
        assert_eq!(bench.llm.bodies().len(), requests);
    }
}

/// A listener would receive the beginning of the response twice.
#[tokio::test]
async fn h6_a_context_error_in_the_middle_of_a_stream_is_not_retried() {
    let too_long = json!({"error": {"code": "context_length_exceeded", "message": "Too long"}});
    let responses = [
        echo(&long("one")),
        echo(&long("two")),
        LlmResponse::text("a b c d").with(LlmFault::Error(too_long)),
        LlmResponse::text("Done."),
    ];
    let mut bench = Bench::new(responses).await;
    bench.chat.is_streamed = true;
    let mut state = bench.begin();
    let kind = bench.error_kind(&mut state).await;
    assert_eq!(kind, ModelErrorKind::ContextTooLong);
    assert_eq!(bench.llm.bodies().len(), 3);
    let is_text = |event: &&ChatEvent| matches!(event, ChatEvent::Delta(Delta::Text(_)));
    assert!(bench.events.iter().any(|event| is_text(&event)));
    bench.events.clear();
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!(bench.events.iter().filter(is_text).count(), 1);
    assert_eq!(sent_results(&bench, 3), [NOTE.to_owned(), long("two")]);
}

#[tokio::test]
async fn h4_results_of_an_application_s_round_are_not_omitted() {
    let call =
        json!({"id": "1", "type": "function", "function": {"name": "echo", "arguments": "{}"}});
    let result = json!({"role": "tool", "tool_call_id": "1", "content": long("one")});
    let messages = [
        user("Go"),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        result,
    ];
    let bench = Bench::new([LlmResponse::text("Done.")]).await;
    let mut state = bench.chat.begin(&messages).unwrap();
    assert_eq!(state.round_start, 2);
    bench.chat.add(&mut state, &[user("Go on")]).unwrap();
    assert_eq!(state.round_start, 3);
}

#[test]
fn h4_results_are_found_in_the_format_of_every_provider() {
    let text = long("one");
    let cases = [
        (
            Provider::OpenAiChat,
            json!({"role": "tool", "tool_call_id": "1", "content": text}),
            "/content",
        ),
        (
            Provider::OpenAiResponses,
            json!({"type": "function_call_output", "call_id": "1", "output": text}),
            "/output",
        ),
        (
            Provider::Anthropic,
            json!({"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result", "tool_use_id": "1", "content": text}]}),
            "/content/1/content",
        ),
        (
            Provider::Google,
            json!({"role": "user", "parts": [{"functionResponse": {"name": "echo", "response": {"result": text}}}]}),
            "/parts/0/functionResponse/response/result",
        ),
    ];
    for (provider, message, pointer) in cases {
        let mut messages = [json!({"role": "user", "content": text}), message.clone()];
        let question = messages[0].clone();
        assert_eq!(trim::last_round_start(provider, &messages), 1, "{provider}");
        assert_eq!(trim::trim(provider, &mut messages, 0), 0);
        assert_eq!(messages[1], message);
        assert!(trim::trim(provider, &mut messages, 1) > 1_000, "{provider}");
        let trimmed = messages[1].pointer(pointer);
        assert_eq!(trimmed, Some(&json!(NOTE)), "{provider}");
        assert_eq!(messages[0], question);
        // The messages have no other result that can be omitted.
        assert_eq!(trim::trim(provider, &mut messages, 1), 0, "{provider}");
    }
}

#[test]
fn h4_tokens_are_estimated_from_bytes_and_the_reported_usage() {
    let text = json!({"role": "user", "content": "word ".repeat(100)});
    let bytes = size::measure_message(&text);
    assert!((500..600).contains(&bytes), "{bytes}");
    assert_eq!(size::estimate_tokens(1_000, None), 250);
    let measured = |bytes, tokens| Some(MeasuredRequest { bytes, tokens });
    assert_eq!(size::estimate_tokens(1_000, measured(100, 50)), 500);
    // A token count that no tokenizer produces is limited.
    assert_eq!(size::estimate_tokens(1_600, measured(100, 1)), 100);
    assert_eq!(size::estimate_tokens(1_600, measured(100, 9_000)), 1_600);
    // An image has few tokens for its length.
    let image =
        json!({"image_url": {"url": format!("data:image/png;base64,{}", "A".repeat(1_000_000))}});
    assert!(size::measure_message(&image) < 5_000);
}
