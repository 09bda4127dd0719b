use pillion_core::tool::ToolResult;
use pillion_providers::Provider;
use pillion_testkit::LlmResponse;
use serde_json::json;

use super::bench::{Bench, echo, user};
use crate::{ChatState, ModelErrorKind};

#[tokio::test]
async fn h4_a_state_of_another_format_is_rejected() {
    let bench = Bench::new([echo("a")]).await;
    let mut state = serde_json::to_value(bench.begin()).unwrap();
    assert_eq!(state["format"], 1);
    assert_eq!(state["provider"], "openai");
    assert_eq!(state["messages"], json!([user("Go")]));
    state["format"] = json!(2);
    let error = serde_json::from_value::<ChatState>(state).unwrap_err();
    let expected = "the chat's format 2 is not supported: expected format 1";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn h4_a_chat_cannot_continue_with_another_provider() {
    let mut bench = Bench::new([LlmResponse::text("Hello.")]).await;
    let mut state = bench.begin();
    bench.configure_model(|config| config.provider = Provider::Anthropic);
    let error = bench.run(&mut state).await.unwrap_err();
    let expected = "the chat is stored in the format of the provider 'openai', but the model uses \
                    the format of 'anthropic'";
    assert_eq!(error.to_string(), expected);
    assert!(bench.llm.bodies().is_empty());
}

#[tokio::test]
async fn h7_a_conversation_continues_after_an_answer() {
    let mut bench = Bench::new([
        LlmResponse::text("Hello."),
        echo("a"),
        LlmResponse::text("Bye."),
    ])
    .await;
    let mut state = bench.begin();
    bench.respond(&mut state).await;
    bench.chat.add(&mut state, &[user("And now?")]).unwrap();
    assert_eq!(bench.respond(&mut state).await, "Bye.");
    let messages = state.messages().iter();
    let roles: Vec<_> = messages
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    let expected = "user assistant user assistant tool assistant";
    assert_eq!(roles.join(" "), expected);
    let bodies = bench.llm.bodies();
    assert_eq!(bodies[1]["messages"][1]["content"], "Hello.");
}

#[tokio::test]
async fn h4_nothing_is_added_while_calls_wait() {
    let mut bench = Bench::new([LlmResponse::calls(1, "wipe")]).await;
    let mut state = bench.begin();
    bench.run(&mut state).await.unwrap();
    let before = state.clone();
    let error = bench.chat.add(&mut state, &[user("Hurry")]).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Rejected);
    assert_eq!(state, before);
    let approval = state.waiting_calls()[0].approval_id.clone().unwrap();
    assert_eq!(
        error.message,
        format!(
            "the chat waits for approval '{approval}' of tool 'wipe': continue the chat without a \
            message after the decision"
        )
    );
}

#[tokio::test]
async fn h4_an_error_names_at_most_three_approvals() {
    let mut response = LlmResponse::call("wipe", &json!({"text": "0"}));
    for text in 1..5 {
        response = response.and_call("wipe", &json!({"text": text.to_string()}).to_string());
    }
    let mut bench = Bench::new([response]).await;
    let mut state = bench.begin();
    bench.run(&mut state).await.unwrap();
    let error = bench.chat.add(&mut state, &[user("Hurry")]).unwrap_err();
    assert_eq!(error.message.matches("approval '").count(), 3, "{error:?}");
    assert!(error.message.contains(", 2 more: "), "{error:?}");
}

#[tokio::test]
async fn h7_the_system_prompt_stays_that_of_the_start() {
    let system = |text: &str| json!({"role": "system", "content": text});
    for provider in [
        Provider::OpenAiResponses,
        Provider::Anthropic,
        Provider::Google,
    ] {
        let responses = [LlmResponse::text("Hello."), LlmResponse::text("Bye.")];
        let mut bench = Bench::at(provider, responses).await;
        let messages = [system("Be short."), user("Hi")];
        let mut state = bench.chat.begin(&messages).unwrap();
        bench.respond(&mut state).await;
        let before = state.clone();
        let more = [system("Be long."), user("And now?")];
        let error = bench.chat.add(&mut state, &more).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Rejected, "{provider}");
        assert_eq!(state, before, "{provider}");
        bench.chat.add(&mut state, &more[1..]).unwrap();
        bench.respond(&mut state).await;
        let sent = bench.llm.bodies()[1].to_string();
        assert!(sent.contains("Be short."), "{sent}");
    }
    // A system message after the beginning of a chat stays among the messages.
    let mut bench = Bench::new([LlmResponse::text("Hello.")]).await;
    let mut state = bench.begin();
    bench.respond(&mut state).await;
    let more = [system("Be long."), user("Hi")];
    bench.chat.add(&mut state, &more).unwrap();
    assert_eq!(state.messages()[2], system("Be long."));
}

/// Loads a chat's state from inside another value, as a store may save the state.
fn stored(state: &ChatState) -> ChatState {
    let text = serde_json::to_string(state).unwrap();
    let loaded: [[ChatState; 1]; 1] = serde_json::from_str(&format!("[[{text}]]")).unwrap();
    loaded.into_iter().flatten().next().unwrap()
}

#[tokio::test]
async fn h7_deep_nesting_does_not_make_a_chat_unreadable() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    // A request that is nested too deeply for a saved state is rejected.
    let mut bench = Bench::at(
        Provider::Anthropic,
        [
            LlmResponse::call("echo", &json!({"text": nested(110)})),
            LlmResponse::call("echo", &json!({"text": nested(90)})).and_call("wipe", "{}"),
            LlmResponse::text("Done."),
        ],
    )
    .await;
    let deep =
        json!({"role": "user", "content": [{"type": "text", "text": "x", "more": nested(110)}]});
    let error = bench.chat.begin_conversation(crate::ProviderConversation {
        system: None,
        messages: vec![deep],
    });
    assert_eq!(error.unwrap_err().kind, ModelErrorKind::Rejected);

    // A model's response that is nested too deeply is an error, too.
    let mut state = bench.begin();
    let before = state.clone();
    let error = bench.run(&mut state).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("more than 100 levels deep"), "{message}");
    assert_eq!(state.messages(), before.messages());
    bench.run(&mut state).await.unwrap();

    // A tool's result that is nested too deeply becomes text.
    let mut state = stored(&state);
    let id = state.waiting_calls()[0].call.id.clone();
    assert!(state.resolve_waiting(ToolResult::success(&id, "wipe", nested(125))));
    let mut state = stored(&state);
    assert_eq!(bench.respond(&mut state).await, "Done.");
    let sent = bench.llm.bodies()[2].to_string();
    assert!(sent.contains(&nested(125).to_string()), "{sent}");
}
