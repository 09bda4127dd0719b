use std::sync::Arc;

use pillion_core::provider::Provider;
use pillion_testkit::LlmAnswer;
use serde_json::{Value, json};

use super::bench::{Bench, echo, user};
use crate::{ChatState, HttpModel, HttpModelConfig, ModelErrorKind};

#[tokio::test]
async fn h4_a_state_of_another_format_is_not_read() {
    let bench = Bench::new([echo("a")]).await;
    let mut state = serde_json::to_value(bench.begin()).unwrap();
    assert_eq!(state["format"], 1);
    assert_eq!(state["provider"], "openai");
    assert_eq!(state["messages"], json!([user("Go")]));
    state["format"] = json!(2);
    let error = serde_json::from_value::<ChatState>(state).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a chat of format 2 cannot be read, only one of format 1"
    );
}

#[tokio::test]
async fn h4_a_chat_stays_in_the_shapes_of_its_provider() {
    let mut bench = Bench::new([LlmAnswer::text("Hello.")]).await;
    let mut state = bench.begin();
    let base_url = bench.llm.base_url.parse().unwrap();
    let config = HttpModelConfig::new(Provider::Anthropic, base_url, "fake");
    bench.chat.model = Arc::new(HttpModel::new(config).unwrap());
    let error = bench.run(&mut state).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the chat is in the shapes of 'openai', the model in those of 'anthropic'"
    );
    assert!(bench.llm.bodies().is_empty());
}

#[tokio::test]
async fn h7_a_conversation_goes_on_after_an_answer() {
    let mut bench = Bench::new([
        LlmAnswer::text("Hello."),
        echo("a"),
        LlmAnswer::text("Bye."),
    ])
    .await;
    let mut state = bench.begin();
    bench.answer(&mut state).await;
    bench.chat.add(&mut state, &[user("And now?")]).unwrap();
    assert_eq!(bench.answer(&mut state).await, "Bye.");
    let roles: Vec<_> = state
        .messages()
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    let expected: [Value; 6] = [
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    .map(|role| json!(role));
    assert_eq!(roles, expected);
    let bodies = bench.llm.bodies();
    assert_eq!(bodies[1]["messages"][1]["content"], "Hello.");
}

#[tokio::test]
async fn h4_nothing_is_added_while_calls_wait() {
    let mut bench = Bench::new([LlmAnswer::calls(1, "wipe")]).await;
    let mut state = bench.begin();
    bench.run(&mut state).await.unwrap();
    let before = state.clone();
    let error = bench.chat.add(&mut state, &[user("Hurry")]).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Refused);
    assert_eq!(state, before);
}
