//! The finish reasons of responses without text, at each provider.

use pillion_core::tool::ErrorCode;
use pillion_providers::Provider::{Anthropic, Google, OpenAiChat, OpenAiResponses};
use pillion_testkit::LlmResponse;
use serde_json::json;

use super::bench::{Bench, echo};
use crate::{ChatEnd, Finish};

/// Returns an empty response with this finish reason.
fn nothing(word: &str) -> LlmResponse {
    LlmResponse::text("").with_finish_reason(word)
}

#[tokio::test]
async fn h4_an_answer_that_ends_before_its_first_text_is_an_error_and_is_retried() {
    for (provider, word) in [
        (Google, "MALFORMED_FUNCTION_CALL"),
        (Google, "UNEXPECTED_TOOL_CALL"),
        (Google, "OTHER"),
        (OpenAiChat, "error"),
        (OpenAiChat, "abort"),
        (OpenAiChat, "insufficient_system_resource"),
    ] {
        let mut bench = Bench::at(provider, [nothing(word), LlmResponse::text("Done.")]).await;
        let mut state = bench.begin();
        let before = state.messages().to_vec();
        let error = bench.run(&mut state).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable, "{provider}");
        assert!(error.to_string().ends_with(&format!(": {word}")), "{error}");
        // Nothing of the response stays in the conversation, but its cost is counted.
        assert_eq!(state.messages(), before, "{provider}");
        assert_eq!(state.requests(), 1);
        assert_eq!(bench.respond(&mut state).await, "Done.", "{provider}");
        // A single turn fails in the same way.
        let bench = Bench::at(provider, [nothing(word)]).await;
        let mut state = bench.begin();
        let error = bench.turn(&mut state).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable, "{provider}");
    }
}

#[tokio::test]
async fn h4_filtered_and_truncated_answers_have_their_finish_reason() {
    for (provider, word, finish) in [
        (Google, "SAFETY", Finish::Filtered),
        (Google, "PROHIBITED_CONTENT", Finish::Filtered),
        (Google, "MAX_TOKENS", Finish::Length),
        (Anthropic, "refusal", Finish::Filtered),
        (Anthropic, "max_tokens", Finish::Length),
        (OpenAiChat, "content_filter", Finish::Filtered),
        (OpenAiChat, "length", Finish::Length),
        (OpenAiChat, "model_length", Finish::Length),
        (OpenAiResponses, "content_filter", Finish::Filtered),
        (OpenAiResponses, "max_output_tokens", Finish::Length),
    ] {
        for stream in [false, true] {
            let mut bench = Bench::at(provider, [nothing(word)]).await;
            bench.chat.is_streamed = stream;
            let mut state = bench.begin();
            let end = bench.run(&mut state).await.unwrap();
            let ChatEnd::Answered(response) = end else {
                panic!("{provider} {word}: {end:?}");
            };
            assert_eq!(response.finish, finish, "{provider} {word}");
            assert_eq!(response.text, "");
        }
    }
}

#[tokio::test]
async fn h4_a_prompt_that_google_blocks_gives_a_filtered_answer() {
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 4}});
    let response = LlmResponse::error_response("200 OK", &blocked.to_string());
    let mut bench = Bench::at(Google, [response]).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "");
    let response = state.final_response().unwrap();
    assert_eq!(response.finish, Finish::Filtered);
    assert_eq!(state.usage().input_tokens, 4);
}

#[tokio::test]
async fn h4_a_paused_turn_continues_within_the_limit_of_rounds() {
    let pauses = LlmResponse::text("Well, ").with_finish_reason("pause_turn");
    let responses = [pauses.clone(), echo("a"), LlmResponse::text("Done.")];
    let mut bench = Bench::at(Anthropic, responses).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Done.");
    let sent = bench.llm.bodies()[1]["messages"].clone();
    let last = sent.as_array().and_then(|messages| messages.last());
    assert_eq!(last.unwrap()["role"], "assistant", "it gets the same again");

    let mut bench = Bench::at(Anthropic, [pauses]).await;
    bench.chat.limits.max_tool_rounds = 2;
    let mut state = bench.begin();
    bench.run(&mut state).await.unwrap();
    assert_eq!(bench.llm.bodies().len(), 3);
}
