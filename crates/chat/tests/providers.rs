//! Runs the chat loop with each provider over HTTP: a fake server sends the golden files, and the
//! tests compare the loop's requests with the golden files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy's exception for tests does not reach the functions beside them"
)]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use pillion_chat::{ChatEnd, ChatEvent, ChatLoop, Delta, HttpModel, HttpModelConfig, ToolRunner};
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolDefinition, ToolResult};
use pillion_providers::Provider;
use pillion_testkit::{Fault, FaultServer, checkout};
use secrecy::SecretString;
use serde_json::{Value, json};

fn golden() -> PathBuf {
    checkout().join("crates/providers/tests/golden")
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Runs no tools: returns the results of the golden case for the calls of `parallel_calls`.
struct Replay {
    results: Vec<Value>,
}

#[async_trait]
impl ToolRunner for Replay {
    fn canonical_name(&self, name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    fn max_concurrent_calls(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    async fn run(&self, call: ToolCall, _context: &CallContext) -> ToolResult {
        let found = self.results.iter().find(|result| result["id"] == call.id);
        let result = found.unwrap();
        match result["error"].as_str() {
            Some(error) => ToolResult::failure(call.id, call.name, ErrorCode::Timeout, error),
            None => ToolResult::success(call.id, call.name, result["result"].clone()),
        }
    }
}

fn tools() -> Vec<Arc<ToolDefinition>> {
    let entries = json_of(&golden().join("tools.json"));
    let tools = entries.as_array().unwrap().iter().map(|tool| {
        let text = |key: &str| tool[key].as_str().unwrap();
        let builder = ToolDefinition::builder(text("name"), text("description"));
        Arc::new(builder.schema(tool["schema"].clone()).build().unwrap())
    });
    tools.collect()
}

/// Starts a server whose first response has two calls and whose second response has text.
async fn server(provider: Provider, stream: bool) -> FaultServer {
    let requests = AtomicUsize::new(0);
    FaultServer::start(move |_| {
        let case = match requests.fetch_add(1, Ordering::SeqCst) {
            0 => "parallel_calls",
            _ => "text",
        };
        let case = golden().join(provider.as_str()).join(case);
        let (file, media_type) = if stream {
            ("stream.sse", "text/event-stream")
        } else {
            ("response.json", "application/json")
        };
        vec![Fault::response(
            "200 OK",
            media_type,
            fs::read(case.join(file)).unwrap(),
        )]
    })
    .await
}

/// Removes the differences between a streamed and an unstreamed request: the streaming members, and
/// the `refusal: null` of an unstreamed message.
fn without_stream(mut body: Value) -> Value {
    let members = body.as_object_mut().unwrap();
    members.remove("stream");
    members.remove("stream_options");
    let messages = members.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        if let Some(message) = message.as_object_mut() {
            message.retain(|key, value| key != "refusal" || !value.is_null());
        }
    }
    body
}

async fn chat(provider: Provider, stream: bool) {
    let case = golden().join(provider.as_str()).join("parallel_calls");
    let golden_case = json_of(&case.join("case.json"));
    let server = server(provider, stream).await;
    let base_url = server.url.replace("/sse", "/v1").parse().unwrap();
    let config = HttpModelConfig::new(provider, base_url, golden_case["model"].as_str().unwrap());
    let model = HttpModel::new(config.with_key(SecretString::from("KEY"))).unwrap();
    let results = golden_case["results"].as_array().unwrap().clone();
    let chat = ChatLoop::new(Arc::new(model), Arc::new(Replay { results }))
        .with_tools(tools())
        .with_streaming(stream);

    let mut state = chat
        .begin(golden_case["messages"].as_array().unwrap())
        .unwrap();
    let mut streamed_text = String::new();
    let mut listener = |event| {
        if let ChatEvent::Delta(Delta::Text(text)) = event {
            streamed_text.push_str(&text);
        }
    };
    let context = CallContext::for_user("ada");
    let end = chat.run(&mut state, &context, &mut listener).await.unwrap();
    let ChatEnd::Answered(response) = end else {
        panic!("{provider}: {end:?}");
    };
    let text_case = json_of(&case.with_file_name("text").join("case.json"));
    let text = text_case["answer"]["text"].as_str().unwrap();
    assert_eq!(response.text, text, "{provider}");
    let golden_case = if stream {
        format!("I will look.{text}")
    } else {
        String::new()
    };
    assert_eq!(streamed_text, golden_case, "{provider}");

    let requests = server.requests.all();
    assert_eq!(requests.len(), 2, "{provider}");
    let written = json_of(&case.join("request.json"));
    let path = written["path"].as_str().unwrap();
    let path = match (provider, stream) {
        (Provider::Google, true) => {
            path.replace(":generateContent", ":streamGenerateContent?alt=sse")
        }
        _ => path.to_owned(),
    };
    for request in &requests {
        assert_eq!(request.path, format!("/v1/{path}"));
        for (name, value) in written["headers"].as_object().unwrap() {
            assert_eq!(
                &request.headers[name],
                value.as_str().unwrap(),
                "{provider}"
            );
        }
    }
    let next = json_of(&case.join("next_request.json"));
    for (request, written) in requests.iter().zip([written["body"].clone(), next]) {
        let sent = without_stream(request.json());
        assert_eq!(sent, without_stream(written), "{provider}");
    }
}

#[tokio::test]
async fn h4_the_chat_loop_follows_the_documentation_of_each_provider() {
    for provider in Provider::ALL {
        chat(provider, false).await;
    }
}

#[tokio::test]
async fn h6_the_streaming_chat_loop_follows_the_documentation_of_each_provider() {
    for provider in Provider::ALL {
        chat(provider, true).await;
    }
}

/// Anthropic pauses long runs of its own tools, and continues when it receives the conversation so
/// far again.
#[tokio::test]
async fn h5_a_paused_response_continues() {
    let response = |reason: &str, text: &str| {
        let block = json!({"type": "text", "text": text});
        json!({"type": "message", "role": "assistant", "content": [block], "stop_reason": reason})
    };
    let paused = response("pause_turn", "I search");
    for (pauses, requests, text) in [(1, 2, "Found."), (100, 6, "I search")] {
        let received = AtomicUsize::new(0);
        let (paused, found) = (paused.clone(), response("end_turn", "Found."));
        let server = FaultServer::start(move |_| {
            let is_paused = received.fetch_add(1, Ordering::SeqCst) < pauses;
            let body = if is_paused { &paused } else { &found };
            vec![Fault::response(
                "200 OK",
                "application/json",
                body.to_string(),
            )]
        })
        .await;
        let base_url = server.url.replace("/sse", "/v1").parse().unwrap();
        let model = HttpModel::new(HttpModelConfig::new(Provider::Anthropic, base_url, "m"));
        let results = Vec::new();
        let chat = ChatLoop::new(Arc::new(model.unwrap()), Arc::new(Replay { results }));
        let question = json!({"role": "user", "content": "Where?"});
        let mut state = chat.begin(&[question]).unwrap();
        let context = CallContext::for_user("ada");
        let end = chat.run(&mut state, &context, &mut |_| {}).await.unwrap();
        let ChatEnd::Answered(response) = end else {
            panic!("{end:?}");
        };
        assert_eq!(response.text, text);
        let sent = server.requests.all();
        assert_eq!(sent.len(), requests);
        assert_eq!(
            sent[1].json()["messages"][1],
            json!({"role": "assistant", "content": [{"type": "text", "text": "I search"}]})
        );
    }
}
