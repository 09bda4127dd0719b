//! Calls of an incomplete answer.

use pillion_core::tool::ErrorCode;
use pillion_providers::Provider;
use pillion_testkit::LlmResponse;
use serde_json::json;

use super::bench::{Bench, echo, user};
use crate::{ChatEvent, Finish};

/// The finish reasons of an answer that was cut off in its calls, by provider.
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

/// The finish reasons of a withheld answer, by provider.
const WITHHELD: [(Provider, &str); 4] = [
    (Provider::OpenAiChat, "content_filter"),
    (Provider::OpenAiResponses, "content_filter"),
    (Provider::Anthropic, "refusal"),
    (Provider::Google, "SAFETY"),
];

/// The arguments of `echo` are optional, so a call without arguments would run.
fn without_arguments(word: &str) -> LlmResponse {
    echo("a").and_call("echo", "").with_finish_reason(word)
}

#[tokio::test]
async fn h5_a_call_with_truncated_arguments_does_not_run() {
    for (provider, word) in CUT_OFF {
        for stream in [false, true] {
            let answers = [without_arguments(word), LlmResponse::text("Done.")];
            let mut bench = Bench::at(provider, answers).await;
            bench.chat = bench.chat.streamed(stream);
            let mut state = bench.begin();
            assert_eq!(bench.answer(&mut state).await, "Done.", "{provider} {word}");
            // The call before the cut-off call is complete.
            assert_eq!(bench.tools.echoed(), 1, "{provider} {word} {stream}");
            let ends = bench.events.iter().filter_map(|event| match event {
                ChatEvent::ToolFinished(ended) => Some(ended.result.error_code),
                _ => None,
            });
            assert_eq!(
                ends.collect::<Vec<_>>(),
                [Some(ErrorCode::InvalidInput), None],
                "{provider}"
            );
            let told = bench.llm.bodies()[1].to_string();
            assert_eq!(told.matches("was cut off before").count(), 1, "{told}");
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
            bench.chat = bench.chat.streamed(stream);
            let mut state = bench.begin();
            assert_eq!(bench.answer(&mut state).await, "Done.", "{provider}");
            bench.chat.add(&mut state, &[user("Go on")]).unwrap();
            assert_eq!(bench.answer(&mut state).await, "Done.", "{provider}");
            assert_eq!(bench.llm.bodies().len(), 4, "{provider} {stream}");
        }
    }
}

/// An answer may reach its maximum length before the first word.
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
        assert_eq!(bench.answer(&mut state).await, "", "{provider}");
        assert_eq!(state.answer().unwrap().finish, Finish::Length);
        bench.chat.add(&mut state, &[user("Go on")]).unwrap();
        assert_eq!(bench.answer(&mut state).await, "Done.", "{provider}");
        let sent = bench.llm.bodies()[1].to_string();
        assert!(!sent.contains("c2ln"), "{provider}: {sent}");
    }
}

#[tokio::test]
async fn h5_no_call_of_a_filtered_answer_runs() {
    for (provider, word) in WITHHELD {
        let answers = [without_arguments(word), LlmResponse::text("Done.")];
        let mut bench = Bench::at(provider, answers).await;
        let mut state = bench.begin();
        assert_eq!(bench.answer(&mut state).await, "Done.", "{provider}");
        assert_eq!(bench.tools.echoed(), 0, "{provider}");
        assert_eq!(state.tool_calls(), 2);
    }
}

#[tokio::test]
async fn h5_a_single_turn_returns_no_call_with_truncated_arguments() {
    for (provider, word) in CUT_OFF {
        let bench = Bench::at(provider, [without_arguments(word)]).await;
        let mut state = bench.begin();
        let outcome = bench.chat.turn(&mut state, &mut |_: ChatEvent| {}).await;
        let turn = outcome.unwrap();
        assert_eq!(turn.finish, Finish::Length, "{provider} {word}");
        let arguments: Vec<_> = turn
            .calls
            .iter()
            .map(|call| call.arguments_object())
            .collect();
        assert_eq!(arguments, [serde_json::json!({"text": "a"})], "{provider}");
    }
}
