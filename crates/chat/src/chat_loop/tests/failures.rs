use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillion_core::tool::{ErrorCode, ToolFailure};
use pillion_providers::Provider;
use pillion_testkit::{LlmFault, LlmResponse};
use serde_json::json;

use super::bench::{Bench, echo, reloaded, results};
use crate::{ChatError, ChatEvent, ChatListener, ChatState, ModelErrorKind};

#[tokio::test]
async fn h4_a_chat_continues_after_any_fault_of_the_provider() {
    let broken_text = |fault| LlmResponse::text("a b c d").with(fault);
    let error = LlmFault::Error(json!({"error": {"message": "no"}}));
    let ok = |body: &str| LlmResponse::error_response("200 OK", body);
    let invalid_call = "{\"choices\": [{\"message\": {\"tool_calls\": [{\"id\": \"1\"}]}}]}";
    let failures = [
        (
            LlmResponse::error_response("500 Internal Server Error", "{}"),
            ModelErrorKind::Unavailable,
        ),
        (
            LlmResponse::rejection("401 Unauthorized", "invalid_api_key", "No"),
            ModelErrorKind::Unauthorized,
        ),
        (
            LlmResponse::rejection("429 Too Many Requests", "rate_limit_exceeded", "No"),
            ModelErrorKind::RateLimited,
        ),
        (broken_text(LlmFault::Truncated), ModelErrorKind::Malformed),
        (broken_text(LlmFault::Broken), ModelErrorKind::Unavailable),
        (
            LlmResponse::text("x").with(error),
            ModelErrorKind::Malformed,
        ),
        (ok("{\"choices\": []}"), ModelErrorKind::Malformed),
        (ok(invalid_call), ModelErrorKind::Malformed),
    ];
    for stream in [false, true] {
        for (failure, kind) in failures.clone() {
            let label = format!("{stream} {failure:?}");
            let mut bench = Bench::new([echo("a"), failure, LlmResponse::text("Done.")]).await;
            bench.chat.is_streamed = stream;
            let mut state = bench.begin();
            assert_eq!(bench.error_kind(&mut state).await, kind, "{label}");
            let is_done = |event: &ChatEvent| matches!(event, ChatEvent::Done(_));
            assert!(!bench.events.iter().any(is_done), "{label}");
            let mut state = reloaded(&state);
            assert_eq!(results(state.messages()), ["a"], "{label}");
            assert_eq!(bench.respond(&mut state).await, "Done.", "{label}");
            // No tool ran twice, and the model received each result once.
            assert_eq!(bench.tools.echoed(), 1, "{label}");
            let bodies = bench.llm.bodies();
            assert_eq!(bodies.len(), 3);
            assert_eq!(bodies[1]["messages"], bodies[2]["messages"], "{label}");
        }
    }
}

#[tokio::test]
async fn h4_a_chat_continues_after_a_failure_of_any_provider() {
    let text = || LlmResponse::text("a b c d");
    let failures = [
        LlmResponse::error_response("500 Internal Server Error", "{}"),
        LlmResponse::error_response("429 Too Many Requests", "{}"),
        LlmResponse::error_response("401 Unauthorized", "{}"),
        LlmResponse::error_response("200 OK", "<html>"),
        LlmResponse::error_response("200 OK", "{}"),
        text().with(LlmFault::Truncated),
        text().with(LlmFault::Broken),
        text().with(LlmFault::Error(json!({"error": {"message": "no"}}))),
        text()
            .and_call("echo", "{}")
            .and_call("echo", "{}")
            .with(LlmFault::Endless),
    ];
    for provider in Provider::ALL {
        for (failure, stream) in failures.iter().flat_map(|it| [(it, false), (it, true)]) {
            let label = format!("{provider} {stream} {failure:?}");
            let responses = [echo("a"), failure.clone(), LlmResponse::text("Done.")];
            let mut bench = Bench::at(provider, responses).await;
            bench.configure_model(|config| config.max_response_bytes = 64 * 1024);
            bench.chat.is_streamed = stream;
            let mut state = bench.begin();
            let error = bench.run(&mut state).await.unwrap_err();
            assert!(matches!(error, ChatError::Model(_)), "{label}: {error}");
            let mut state = reloaded(&state);
            assert_eq!(bench.respond(&mut state).await, "Done.", "{label}");
            assert_eq!(bench.tools.echoed(), 1, "{label}");
            let bodies = bench.llm.bodies();
            assert_eq!(bodies.len(), 3, "{label}");
            assert_eq!(bodies[1], bodies[2], "{label}");
        }
    }
}

#[tokio::test]
async fn h4_a_chat_continues_after_an_answer_that_timed_out() {
    for provider in Provider::ALL {
        let slow = LlmFault::Trickling(Duration::from_secs(3600));
        let responses = [
            LlmResponse::text("a b").with(slow),
            LlmResponse::text("Done."),
        ];
        let mut bench = Bench::at(provider, responses).await;
        bench.configure_model(|config| {
            config.timeout = Duration::from_secs(2);
            config.max_retries = 2;
        });
        bench.chat.is_streamed = true;
        let mut state = bench.begin();
        let before = state.messages().to_vec();
        assert_eq!(bench.error_kind(&mut state).await, ModelErrorKind::Timeout);
        assert_eq!(state.messages(), before, "{provider}");
        bench.configure_model(|_| {});
        assert_eq!(bench.respond(&mut state).await, "Done.", "{provider}");
    }
}

#[tokio::test]
async fn c5_failures_have_codes() {
    for (status, code) in [
        ("401 Unauthorized", ErrorCode::Unavailable),
        ("429 Too Many Requests", ErrorCode::RateLimited),
        ("503 Service Unavailable", ErrorCode::Unavailable),
        ("400 Bad Request", ErrorCode::InvalidInput),
    ] {
        let mut bench = Bench::new([LlmResponse::error_response(status, "{}")]).await;
        let mut state = bench.begin();
        let error = bench.run(&mut state).await.unwrap_err();
        assert_eq!(error.code(), code, "{status}");
    }
}

#[tokio::test]
async fn h4_an_interrupted_call_does_not_run_again() {
    let calls = LlmResponse::call("wait", &json!({})).and_call("echo", "{\"text\": \"a\"}");
    let mut bench = Bench::new([calls, LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    let tools = Arc::clone(&bench.tools);
    let began = async {
        tools.waits.notified().await;
        while tools.echoed() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        end = bench.run(&mut state) => panic!("{end:?}"),
        () = began => {}
    }
    let mut state = reloaded(&state);
    assert_eq!(bench.respond(&mut state).await, "Done.");
    let results = results(state.messages());
    assert!(results[0].contains("was interrupted"), "{results:?}");
    assert_eq!(bench.tools.echoed(), 1);
}

/// Saves at most `room` states of a chat.
struct StateRecorder {
    room: usize,
    states: Vec<String>,
}

#[async_trait]
impl ChatListener for StateRecorder {
    fn on_event(&mut self, _: ChatEvent) {}

    async fn save_state(&mut self, state: &ChatState) -> Result<(), ToolFailure> {
        if self.states.len() == self.room {
            return Err(ToolFailure::new(ErrorCode::Unavailable, "the disk is full"));
        }
        self.states.push(serde_json::to_string(state).unwrap());
        Ok(())
    }
}

#[tokio::test]
async fn h4_a_call_starts_only_after_the_chat_is_stored() {
    let mut bench = Bench::new([echo("a"), LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    let mut recorder = StateRecorder {
        room: 0,
        states: Vec::new(),
    };
    let run = bench.chat.run(&mut state, &bench.context, &mut recorder);
    let error = run.await.unwrap_err();
    let expected = "the chat could not be saved: the disk is full";
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.code(), ErrorCode::Unavailable);
    assert_eq!(bench.tools.echoed(), 0);

    // With room for more states, the chat continues, and the last saved state has the response.
    recorder.room = 10;
    let run = bench.chat.run(&mut state, &bench.context, &mut recorder);
    run.await.unwrap();
    assert_eq!(bench.tools.echoed(), 1);
    let last: ChatState = serde_json::from_str(recorder.states.last().unwrap()).unwrap();
    assert_eq!(last, state);

    // A chat that continues from the state before the call, as after a crash, does not repeat the
    // call.
    let mut crashed: ChatState = serde_json::from_str(&recorder.states[0]).unwrap();
    bench.run(&mut crashed).await.unwrap();
    assert!(results(crashed.messages())[0].contains("was interrupted"));
    assert_eq!(bench.tools.echoed(), 1);
}
