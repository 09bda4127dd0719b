//! Calls of an answer that did not come to its end.

use pillion_core::provider::Provider;
use pillion_core::tool::ErrorCode;
use pillion_testkit::LlmAnswer;

use super::bench::{Bench, echo};
use crate::{ChatEvent, Finish};

/// How the providers say that the longest answer was reached, and that the rest is withheld.
const ENDS: [(Provider, &str, &str); 4] = [
    (Provider::OpenAiChat, "length", "content_filter"),
    (
        Provider::OpenAiResponses,
        "max_output_tokens",
        "content_filter",
    ),
    (Provider::Anthropic, "max_tokens", "refusal"),
    (Provider::Google, "MAX_TOKENS", "SAFETY"),
];

/// The arguments of `echo` are optional: one without would run.
fn without_arguments(word: &str) -> LlmAnswer {
    echo("a").and_call("echo", "").ended_by(word)
}

#[tokio::test]
async fn h5_a_call_whose_arguments_were_cut_off_does_not_run() {
    for (provider, longest, _) in ENDS {
        for stream in [false, true] {
            let answers = [without_arguments(longest), LlmAnswer::text("Done.")];
            let mut bench = Bench::at(provider, answers).await;
            bench.chat = bench.chat.streamed(stream);
            let mut state = bench.begin();
            assert_eq!(bench.answer(&mut state).await, "Done.", "{provider}");
            // The one before it is whole.
            assert_eq!(bench.tools.echoed(), 1, "{provider} {stream}");
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

#[tokio::test]
async fn h5_no_call_of_an_answer_that_was_withheld_runs() {
    for (provider, _, withheld) in ENDS {
        let answers = [without_arguments(withheld), LlmAnswer::text("Done.")];
        let mut bench = Bench::at(provider, answers).await;
        let mut state = bench.begin();
        assert_eq!(bench.answer(&mut state).await, "Done.", "{provider}");
        assert_eq!(bench.tools.echoed(), 0, "{provider}");
        assert_eq!(state.tool_calls(), 2);
    }
}

#[tokio::test]
async fn h5_a_single_turn_gives_no_call_that_lost_its_arguments() {
    for (provider, longest, _) in ENDS {
        let bench = Bench::at(provider, [without_arguments(longest)]).await;
        let mut state = bench.begin();
        let turn = bench.chat.turn(&mut state, &mut |_: ChatEvent| {}).await;
        let turn = turn.unwrap();
        assert_eq!(turn.finish, Finish::Length, "{provider}");
        let arguments: Vec<_> = turn
            .calls
            .iter()
            .map(|call| call.arguments_object())
            .collect();
        assert_eq!(arguments, [serde_json::json!({"text": "a"})], "{provider}");
    }
}
