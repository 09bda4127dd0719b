use std::time::Duration;

use pillion_core::tool::ErrorCode;
use pillion_providers::{Provider, parse_tool_calls};
use pillion_testkit::{LlmFault, LlmResponse};
use serde_json::json;

use super::bench::{Bench, echo, reloaded, results, user};
use crate::{ChatError, ChatLimits, LimitReached, ModelErrorKind, TurnOptions};

const REACHED: &str = "Maximum tool execution rounds reached. Generating final response...";

#[tokio::test]
async fn h4_five_rounds_of_one_call_make_six_requests_and_five_tool_messages() {
    let rounds = (1..=5).map(|round| echo(&format!("round {round}")));
    let mut bench = Bench::new(rounds.chain([LlmResponse::text("Done.")])).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Done.");
    let bodies = bench.llm.bodies();
    assert_eq!(bodies.len(), 6);
    for (index, body) in bodies.iter().enumerate() {
        assert_eq!(body.get("tools").is_some(), index < 5, "{index}");
    }
    let expected = ["round 1", "round 2", "round 3", "round 4", "round 5"];
    assert_eq!(results(state.messages()), expected);
    assert_eq!(bodies[5]["messages"].as_array().unwrap().len(), 1 + 2 * 5);
    assert_eq!(bench.statuses().last(), Some(&REACHED));
    assert!(state.final_response().unwrap().limit_reached.is_some());
    let counts = (state.requests(), state.rounds(), state.tool_calls());
    assert_eq!(counts, (6, 5, 5));
}

#[tokio::test]
async fn h4_rounds_of_two_calls_make_four_requests() {
    let two = || echo("a").and_call("echo", "{\"text\": \"b\"}");
    let mut bench = Bench::new([two(), two(), two(), LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Done.");
    let bodies = bench.llm.bodies();
    assert_eq!(bodies.len(), 4);
    assert!(bodies[3].get("tools").is_none());
    // All calls of the response that exceeds the limit have run.
    assert_eq!(results(state.messages()), ["a", "b", "a", "b", "a", "b"]);
    let reached = state.final_response().unwrap().limit_reached;
    assert_eq!(reached, Some(LimitReached::ToolCalls));
}

#[tokio::test]
async fn h4_the_first_limit_reached_ends_the_chat() {
    let mut bench = Bench::new([echo("a"), LlmResponse::text("Done.")]).await;
    bench.chat.limits.max_tool_rounds = 1;
    let mut state = bench.begin();
    bench.respond(&mut state).await;
    assert_eq!(bench.llm.bodies().len(), 2);
    let reached = state.final_response().unwrap().limit_reached;
    assert_eq!(reached, Some(LimitReached::ToolRounds));

    let two = echo("a").and_call("echo", "{}");
    let mut bench = Bench::new([two, LlmResponse::text("Done.")]).await;
    bench.chat.limits.max_tool_calls = 2;
    let mut state = bench.begin();
    bench.respond(&mut state).await;
    assert_eq!(bench.llm.bodies().len(), 2);
    let reached = state.final_response().unwrap().limit_reached;
    assert_eq!(reached, Some(LimitReached::ToolCalls));
}

#[tokio::test]
async fn h4_a_looping_model_ends_at_the_limits() {
    // The model calls the same tool forever, even if a request offers no tools.
    let mut bench = Bench::new([echo("again")]).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "");
    assert_eq!((bench.llm.bodies().len(), bench.tools.echoed()), (6, 5));
    // The conversation stays valid for the provider: the last call has a result, too.
    let last = results(state.messages()).pop().unwrap();
    assert!(last.contains("no more tool calls are allowed"), "{last}");
    bench.chat.add(&mut state, &[user("Go on")]).unwrap();
    assert_eq!((state.rounds(), state.tool_calls()), (0, 0));
    bench.respond(&mut state).await;
    assert_eq!((bench.llm.bodies().len(), bench.tools.echoed()), (12, 10));
}

#[tokio::test]
async fn h4_calls_beyond_the_limit_of_one_answer_do_not_run() {
    let many = LlmResponse::calls(10_000, "echo");
    let mut bench = Bench::new([many, LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!((bench.llm.bodies().len(), bench.tools.echoed()), (2, 32));
    let results = results(state.messages());
    assert_eq!(results.len(), 10_000);
    let (run, rejected) = results.split_at(32);
    assert!(run.iter().all(|result| *result == "nothing"));
    assert!(rejected.iter().all(|result| result.contains("Not run")));
    assert_eq!(bench.statuses()[0].matches("echo").count(), 32);
}

#[tokio::test]
async fn h4_a_chat_without_tools_makes_one_request() {
    let mut bench = Bench::new([LlmResponse::text("Hello.")]).await;
    bench.chat = bench.chat.with_tools(Vec::new());
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Hello.");
    assert_eq!(bench.llm.bodies().len(), 1);
    assert!(bench.statuses().is_empty());
    assert_eq!(state.final_response().unwrap().limit_reached, None);
}

#[tokio::test]
async fn h4_a_request_beyond_the_token_limit_is_not_sent() {
    let responses = [
        echo("a").costing(900, 50),
        echo("b").costing(960, 50),
        echo("c"),
    ];
    let mut bench = Bench::new(responses).await;
    bench.chat.limits.max_total_tokens = Some(2_000);
    bench.chat.options.max_output_tokens = Some(800);
    let mut state = bench.begin();
    let error = bench.run(&mut state).await.unwrap_err();
    let expected = ChatError::TokenLimit {
        limit: 2_000,
        spent_tokens: 1_960,
    };
    assert_eq!(error, expected);
    assert_eq!(error.code(), ErrorCode::RateLimited);
    let bodies = bench.llm.bodies();
    assert_eq!(bodies.len(), 2);
    // A response may be at most as long as the tokens that are left.
    assert_eq!(bodies[0]["max_tokens"], 800);
    assert!(bodies[1]["max_tokens"].as_u64().unwrap() < 150);
    assert_eq!(results(state.messages()), ["a", "b"]);
}

#[tokio::test]
async fn h4_the_token_limit_holds_without_reported_usage() {
    let mut bench = Bench::new([echo(&"word ".repeat(200))]).await;
    bench.chat.limits.max_total_tokens = Some(3_000);
    bench.chat.limits.max_tool_rounds = 100;
    bench.chat.limits.max_tool_calls = 100;
    let mut state = bench.begin();
    let error = bench.run(&mut state).await.unwrap_err();
    match error {
        ChatError::TokenLimit { spent_tokens, .. } => {
            assert!(spent_tokens > 1_000, "{spent_tokens}");
        }
        other => panic!("{other}"),
    }
    assert!(bench.llm.bodies().len() < 6);
}

/// Providers also bill responses that break off.
#[tokio::test]
async fn h4_the_token_limit_holds_for_answers_that_break_off() {
    let words = "word ".repeat(400);
    let faults = [
        LlmFault::Truncated,
        LlmFault::Broken,
        LlmFault::Endless,
        LlmFault::Error(json!({"error": {"message": "no"}})),
    ];
    for (fault, stream) in faults.iter().flat_map(|it| [(it, false), (it, true)]) {
        let label = format!("{fault:?} {stream}");
        let mut bench = Bench::new([LlmResponse::text(&words).with(fault.clone())]).await;
        bench.chat.limits.max_total_tokens = Some(3_000);
        bench.configure_model(|config| config.max_response_bytes = 64 * 1024);
        bench.chat.is_streamed = stream;
        let mut state = bench.chat.begin(&[user(&words)]).unwrap();
        for _ in 0..10 {
            match bench.run(&mut state).await.unwrap_err() {
                ChatError::Model(_) => assert_eq!(state.requests(), 0, "{label}"),
                ChatError::TokenLimit { spent_tokens, .. } => {
                    assert_eq!(spent_tokens, state.spent_tokens);
                }
                other => panic!("{label}: {other}"),
            }
        }
        let error = bench.run(&mut state).await.unwrap_err();
        let is_token_limit = matches!(error, ChatError::TokenLimit { .. });
        assert!(is_token_limit, "{label}: {error}");
        assert!(bench.llm.bodies().len() < 7, "{label}");
    }
}

/// A request that was rejected, or never sent, costs nothing.
#[tokio::test]
async fn h4_a_request_without_any_response_does_not_count() {
    let mut bench =
        Bench::new([LlmResponse::error_response("503 Service Unavailable", "{}")]).await;
    let mut state = bench.begin();
    bench.run(&mut state).await.unwrap_err();
    bench.chat.limits.timeout = Duration::ZERO;
    bench.run(&mut state).await.unwrap_err();
    assert_eq!(state.spent_tokens, 0);
}

#[tokio::test]
async fn h4_the_deadline_of_the_chat_limits_its_tools() {
    // The response has as many calls as can run concurrently, and one more.
    let calls = LlmResponse::calls(5, "wait").and_call("echo", "{}");
    let responses = [calls, LlmResponse::text("Done.")];
    let mut bench = Bench::new(responses).await;
    bench.chat.limits.timeout = Duration::from_secs(3);
    let mut state = bench.begin();
    assert_eq!(bench.error_kind(&mut state).await, ModelErrorKind::Timeout);
    assert_eq!((bench.llm.bodies().len(), bench.tools.echoed()), (1, 0));
    // The chat continues with the call that had not begun; the calls that had begun do not begin
    // again.
    bench.chat = bench.chat.with_limits(ChatLimits::default());
    assert_eq!(bench.respond(&mut state).await, "Done.");
    let results = results(state.messages());
    for result in &results[..5] {
        assert!(result.contains("The chat timed out"), "{result}");
    }
    assert_eq!(results[5], "nothing");
    assert_eq!(bench.tools.echoed(), 1);
}

#[tokio::test]
async fn h4_calls_in_a_chat_without_tools_end_the_chat() {
    let mut bench = Bench::new([echo("x")]).await;
    bench.chat.tools.clear();
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "");
    assert_eq!((bench.llm.bodies().len(), bench.tools.echoed()), (1, 0));
    let calls = json!({"choices": [{"message": state.messages()[1]}]});
    assert_eq!(parse_tool_calls(state.provider(), &calls).unwrap().len(), 1);
    assert_eq!(results(state.messages()).len(), 1);
}

/// Providers reject a request for a longer response than their model can write.
#[tokio::test]
async fn h4_the_token_limit_caps_the_length_of_an_answer() {
    let mut bench = Bench::new([LlmResponse::text("Hello.")]).await;
    bench.chat.limits.max_total_tokens = Some(1_000_000);
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Hello.");
    assert_eq!(bench.llm.bodies()[0]["max_tokens"], 8192);
}

/// Anthropic rejects a response without room beside its thinking, OpenAI a response of fewer than
/// 16 tokens.
#[tokio::test]
async fn h4_the_answer_length_is_at_least_the_minimum_of_the_provider() {
    let thinking = json!({"type": "enabled", "budget_tokens": 4_000});
    let thinking = TurnOptions {
        extra: [("thinking".to_owned(), thinking)].into_iter().collect(),
        ..TurnOptions::default()
    };
    let none = TurnOptions::default();
    for (provider, options, member, default_length, min_length) in [
        (Provider::Anthropic, &thinking, "max_tokens", 12_192, 4_001),
        (Provider::Anthropic, &none, "max_tokens", 8_192, 1),
        (
            Provider::OpenAiResponses,
            &none,
            "max_output_tokens",
            8_192,
            16,
        ),
        (Provider::OpenAiChat, &none, "max_tokens", 8_192, 1),
    ] {
        let mut bench = Bench::at(provider, [LlmResponse::text("Done.")]).await;
        bench.chat = bench.chat.with_options(options.clone());
        bench.chat.limits.max_total_tokens = Some(1_000_000);
        bench.run(&mut bench.begin()).await.unwrap();
        assert_eq!(bench.llm.bodies()[0][member], default_length, "{provider}");
        // For any estimate of the request's size, one of the limits leaves exactly the shortest
        // response.
        let mut state = bench.begin();
        let mut max_tokens = min_length;
        loop {
            bench.chat.limits.max_total_tokens = Some(max_tokens);
            match bench.run(&mut state).await {
                Err(ChatError::TokenLimit { .. }) => max_tokens += 1,
                end => {
                    end.unwrap();
                    break;
                }
            }
        }
        assert_eq!(bench.llm.bodies()[1][member], min_length, "{provider}");
    }
}

#[tokio::test]
async fn h4_the_token_limit_survives_the_end_of_a_process() {
    let responses = [echo("a").costing(1_900, 90), LlmResponse::text("Done.")];
    let mut bench = Bench::new(responses).await;
    bench.chat.limits.max_total_tokens = Some(2_000);
    let mut state = bench.begin();
    let spent = ChatError::TokenLimit {
        limit: 2_000,
        spent_tokens: 1_990,
    };
    assert_eq!(bench.run(&mut state).await.unwrap_err(), spent);
    let mut state = reloaded(&state);
    // Neither another run nor another message makes room for a request.
    assert_eq!(bench.run(&mut state).await.unwrap_err(), spent);
    bench.chat.add(&mut state, &[user("Go on")]).unwrap();
    assert_eq!(bench.run(&mut state).await.unwrap_err(), spent);
    assert_eq!(bench.llm.bodies().len(), 1);
    // The spent tokens also count toward another limit.
    bench.chat.limits.max_total_tokens = Some(6_000);
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!(bench.tools.echoed(), 1);
    let max_tokens = bench.llm.bodies()[1]["max_tokens"].as_u64().unwrap();
    assert!(max_tokens < 6_000 - 1_990, "{max_tokens}");
}

#[tokio::test]
async fn h4_text_without_spaces_and_options_count_in_full() {
    for (max_total_tokens, context_tokens) in [(Some(5_000), None), (None, Some(5_000))] {
        let long = "a".repeat(100_000);
        let mut bench = Bench::new([LlmResponse::text("Done.")]).await;
        bench.chat.limits.max_total_tokens = max_total_tokens;
        bench.chat.limits.context_tokens = context_tokens;
        let mut state = bench.chat.begin(&[user(&long)]).unwrap();
        bench.run(&mut state).await.unwrap_err();
        let schema = json!({"type": "json_schema", "json_schema": {"description": long}});
        let extra = &mut bench.chat.options.extra;
        extra.insert("response_format".to_owned(), schema);
        bench.run(&mut bench.begin()).await.unwrap_err();
        assert!(bench.llm.bodies().is_empty());
    }
}
