use pillion_providers::Provider;
use pillion_testkit::{LlmFault, LlmResponse};
use serde_json::json;

use super::bench::{Bench, echo, reloaded};
use crate::{TurnOptions, Usage};

/// The member of a provider's request body that has the conversation.
fn messages(provider: Provider) -> &'static str {
    match provider {
        Provider::Google => "contents",
        Provider::OpenAiResponses => "input",
        _ => "messages",
    }
}

#[tokio::test]
async fn h5_a_chat_runs_at_every_provider() {
    for provider in Provider::ALL {
        for stream in [false, true] {
            let label = format!("{provider}, streamed: {stream}");
            let calls = echo("first").and_call("boom", "{}").costing(10, 2);
            let mut bench =
                Bench::at(provider, [calls, LlmResponse::text("Done.").costing(20, 3)]).await;
            bench.chat.is_streamed = stream;
            let mut state = bench.begin();
            assert_eq!(bench.respond(&mut state).await, "Done.", "{label}");
            assert_eq!(bench.tools.echoed(), 1, "{label}");
            let bodies = bench.llm.bodies();
            assert_eq!(bodies.len(), 2, "{label}");
            assert!(bodies[0]["tools"].is_array(), "{label}");
            // The request with the results contains the messages of the state before the response.
            let sent = bodies[1][messages(provider)].as_array().unwrap();
            assert_eq!(state.messages()[..sent.len()], sent[..], "{label}");
            assert!(json!(sent).to_string().contains("it broke"), "{label}");
            let usage = Usage {
                input_tokens: 30,
                output_tokens: 5,
                cached_tokens: 0,
            };
            assert_eq!(state.usage(), usage, "{label}");
            let streamed_text = if stream { "Done." } else { "" };
            assert_eq!(bench.streamed_text(), streamed_text, "{label}");
        }
    }
}

#[tokio::test]
async fn h4_a_chat_continues_after_an_outage_of_every_provider() {
    for provider in Provider::ALL {
        let responses = [
            echo("first"),
            LlmResponse::text("Do ne.").with(LlmFault::Truncated),
            LlmResponse::text("Done."),
        ];
        let mut bench = Bench::at(provider, responses).await;
        let mut state = bench.begin();
        bench.run(&mut state).await.unwrap_err();
        let mut state = reloaded(&state);
        assert_eq!(bench.respond(&mut state).await, "Done.", "{provider}");
        assert_eq!(bench.tools.echoed(), 1, "{provider}");
    }
}

/// Anthropic checks the signatures of the thinking before calls, and rejects a request with a
/// missing or different signature.
#[tokio::test]
async fn h5_thinking_blocks_of_anthropic_go_back_unchanged_in_each_round() {
    let thinking = |words: &str, signature: &str| json!({"type": "thinking", "thinking": words, "signature": signature});
    let redacted = json!({"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"});
    let thoughts = [
        vec![thinking("It may know.", "EqQBCgIYAhIM1g=="), redacted],
        // Newer models hide their thinking, but still sign it.
        vec![thinking("", "EqQBCgIYAhIMzz==")],
    ];
    for stream in [false, true] {
        let turns = thoughts.iter().map(|blocks| {
            let blocks = blocks.iter().cloned();
            blocks.fold(echo("a"), LlmResponse::with_item)
        });
        let responses = turns.chain([LlmResponse::text("Done.")]);
        let mut bench = Bench::at(Provider::Anthropic, responses).await;
        let budget = json!({"type": "enabled", "budget_tokens": 1024});
        let extra = [("thinking".to_owned(), budget.clone())];
        bench.chat = bench.chat.with_streaming(stream).with_options(TurnOptions {
            extra: extra.into_iter().collect(),
            ..TurnOptions::default()
        });
        let mut state = bench.begin();
        assert_eq!(bench.respond(&mut state).await, "Done.");
        let bodies = bench.llm.bodies();
        for (round, body) in bodies.iter().enumerate() {
            assert_eq!(body["thinking"], budget);
            for (round, thoughts) in thoughts.iter().enumerate().take(round) {
                let message = &body["messages"][1 + 2 * round];
                let content = message["content"].as_array().unwrap();
                assert_eq!(content[..thoughts.len()], thoughts[..], "{stream}: {body}");
                assert_eq!(content[thoughts.len()]["type"], "tool_use");
            }
        }
        assert_eq!(bodies.len(), 3);
    }
}
