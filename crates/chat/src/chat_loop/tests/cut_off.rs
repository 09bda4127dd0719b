//! Calls of an incomplete response.

use pillion_core::tool::ErrorCode;
use pillion_providers::Provider;
use pillion_testkit::LlmResponse;
use serde_json::json;

use super::bench::{Bench, echo, user};
use crate::Finish;

/// The finish reasons of a response that was cut off in its calls, by provider.
const CUT_OFF: [(Provider, &str); 9] = [
    (Provider::OpenAiChat, "length"),
    (Provider::OpenAiChat, "model_length"),
    (Provider::OpenAiChat, "insufficient_system_resource"),
    (Provider::OpenAiChat, "abort"),
    (Provider::OpenAiChat, "error"),
    (Provider::OpenAiResponses, "max_output_tokens"),
    (Provider::OpenAiResponses, "whatever"),
    (Provider::Anthropic, "max_tokens"),
    (Provider::Google, "MAX_TOKENS"),
];

/// The finish reasons of a withheld response, by provider.
const WITHHELD: [(Provider, &str); 4] = [
    (Provider::OpenAiChat, "content_filter"),
    (Provider::OpenAiResponses, "content_filter"),
    (Provider::Anthropic, "refusal"),
    (Provider::Google, "SAFETY"),
];

/// Returns a response with a call of `echo` without arguments. All arguments of `echo` are
/// optional, so the call would run.
fn without_arguments(word: &str) -> LlmResponse {
    echo("a").and_call("echo", "").with_finish_reason(word)
}

#[tokio::test]
async fn h5_a_call_with_truncated_arguments_does_not_run() {
    for (provider, word) in CUT_OFF {
        for stream in [false, true] {
            let responses = [without_arguments(word), LlmResponse::text("Done.")];
            let mut bench = Bench::at(provider, responses).await;
            bench.chat.is_streamed = stream;
            let mut state = bench.begin();
            let text = bench.respond(&mut state).await;
            assert_eq!(text, "Done.", "{provider} {word}");
            // The call before the cut-off call is complete.
            assert_eq!(bench.tools.echoed(), 1, "{provider} {word} {stream}");
            let codes: Vec<_> = bench.ended().map(|ended| ended.result.error_code).collect();
            assert_eq!(codes, [Some(ErrorCode::InvalidInput), None], "{provider}");
            let sent = bench.llm.bodies()[1].to_string();
            assert_eq!(sent.matches("was cut off before").count(), 1, "{sent}");
        }
    }
}

/// vLLM and other servers parse the arguments of every call in the conversation, and so does the
/// fake model.
#[tokio::test]
async fn h5_a_chat_continues_after_arguments_that_are_not_json() {
    for provider in Provider::ALL {
        for stream in [false, true] {
            let cut_off = LlmResponse::default().and_call("echo", "{\"text\": \"cut");
            let broken = LlmResponse::default().and_call("echo", "{bad");
            let done = || LlmResponse::text("Done.");
            let mut bench = Bench::at(provider, [cut_off, broken, done(), done()]).await;
            bench.chat.is_streamed = stream;
            let mut state = bench.begin();
            assert_eq!(bench.respond(&mut state).await, "Done.", "{provider}");
            bench.chat.add(&mut state, &[user("Go on")]).unwrap();
            assert_eq!(bench.respond(&mut state).await, "Done.", "{provider}");
            assert_eq!(bench.llm.bodies().len(), 4, "{provider} {stream}");
        }
    }
}

/// A response may reach its maximum length before the first word.
#[tokio::test]
async fn h5_a_chat_continues_after_an_answer_with_only_thoughts() {
    let thinking = json!({"type": "thinking", "thinking": "Hm", "signature": "c2ln"});
    let redacted = json!({"type": "redacted_thinking", "data": "c2ln"});
    let reasoning =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"});
    for (provider, thoughts, word) in [
        (Provider::Anthropic, vec![thinking, redacted], "max_tokens"),
        (
            Provider::OpenAiResponses,
            vec![reasoning],
            "max_output_tokens",
        ),
    ] {
        let thought = thoughts
            .into_iter()
            .fold(LlmResponse::default(), LlmResponse::with_item)
            .with_finish_reason(word);
        let mut bench = Bench::at(provider, [thought, LlmResponse::text("Done.")]).await;
        let mut state = bench.begin();
        assert_eq!(bench.respond(&mut state).await, "", "{provider}");
        assert_eq!(state.final_response().unwrap().finish, Finish::Length);
        bench.chat.add(&mut state, &[user("Go on")]).unwrap();
        assert_eq!(bench.respond(&mut state).await, "Done.", "{provider}");
        let sent = bench.llm.bodies()[1].to_string();
        assert!(!sent.contains("c2ln"), "{provider}: {sent}");
    }
}

#[tokio::test]
async fn h5_no_call_of_a_filtered_answer_runs() {
    for (provider, word) in WITHHELD {
        let responses = [without_arguments(word), LlmResponse::text("Done.")];
        let mut bench = Bench::at(provider, responses).await;
        let mut state = bench.begin();
        assert_eq!(bench.respond(&mut state).await, "Done.", "{provider}");
        assert_eq!(bench.tools.echoed(), 0, "{provider}");
        assert_eq!(state.tool_calls(), 2);
    }
}

#[tokio::test]
async fn h5_a_single_turn_returns_no_call_with_truncated_arguments() {
    for (provider, word) in CUT_OFF {
        let bench = Bench::at(provider, [without_arguments(word)]).await;
        let mut state = bench.begin();
        let turn = bench.turn(&mut state).await.unwrap();
        assert_eq!(turn.finish, Finish::Length, "{provider} {word}");
        assert_eq!(turn.calls.len(), 1, "{provider}");
        let arguments = turn.calls[0].arguments_object();
        assert_eq!(arguments, json!({"text": "a"}), "{provider}");
    }
}
