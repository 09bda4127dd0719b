//! The limits of `[chat]` and of a model, in every interface.

use pillion_testkit::LlmDialect;

use super::*;
use crate::http::Reply;

const PATHS: [&str; 3] = ["/api/v1/chat", "/v1/chat/completions", "/v1/messages"];

/// Starts a model that makes `calls` tool calls in each response as long as it has tools.
async fn caller(calls: usize) -> FakeLlm {
    FakeLlm::with_script(LlmDialect::OpenAiChat, move |request| {
        if request.json().get("tools").is_none() {
            return LlmResponse::text("Done.");
        }
        let call = |response: LlmResponse, _| {
            response.and_call("calculator", r#"{"expression": "1 + 1"}"#)
        };
        (0..calls).fold(LlmResponse::default(), call)
    })
    .await
}

fn ask(daemon: &Daemon, path: &str, text: &str) -> Reply {
    let body = json!({"max_tokens": 50, "messages": [{"role": "user", "content": text}]});
    let mut body = body;
    if path == "/api/v1/chat" {
        body.as_object_mut().unwrap().remove("max_tokens");
    }
    daemon.post(path, body.to_string())
}

/// Returns the text of a chat response, in the format of any interface.
fn words(reply: &Reply) -> Value {
    let json = reply.json();
    let pointers = ["/content/0/text", "/choices/0/message/content", "/content"];
    let mut found = pointers.iter().filter_map(|pointer| json.pointer(pointer));
    found.next().cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_one_call_a_round_makes_six_requests_and_two_calls_make_four() {
    for (calls, requests, reached) in [(1, 6, "tool_rounds"), (2, 4, "tool_calls")] {
        let llm = caller(calls).await;
        let daemon = Daemon::with_config(&config(&llm, ""));
        for (round, path) in PATHS.into_iter().enumerate() {
            let reply = ask(&daemon, path, "Go");
            assert_eq!(words(&reply), "Done.", "{path}: {reply:?}");
            assert_eq!(llm.bodies().len(), (round + 1) * requests, "{path}");
            if path == "/api/v1/chat" {
                assert_eq!(reply.json()["limit_reached"], reached);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_the_configuration_sets_the_limits() {
    for (calls, more, requests, run) in [
        (1, "max_tool_rounds = 2", 3, 2),
        (1, "max_tool_calls = 3", 4, 3),
        // The batch of calls that exceeds the limit still runs.
        (2, "max_tool_calls = 3", 3, 4),
        (3, "max_calls_per_answer = 2\nmax_tool_rounds = 1", 2, 2),
    ] {
        let llm = caller(calls).await;
        let daemon = Daemon::with_config(&config(&llm, &format!("[chat]\n{more}\n")));
        for (round, path) in PATHS.into_iter().enumerate() {
            let reply = ask(&daemon, path, "Go");
            assert_eq!(words(&reply), "Done.", "{more} {path}: {reply:?}");
            assert_eq!(llm.bodies().len(), (round + 1) * requests, "{more} {path}");
            let logged = daemon.recorded("?limit=100").len();
            assert_eq!(logged, (round + 1) * run, "{more} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h6_a_stream_reports_that_the_limit_is_reached() {
    let llm = caller(1).await;
    let daemon = Daemon::with_config(&config(&llm, "[chat]\nmax_tool_rounds = 1\n"));
    for path in PATHS {
        let body = json!({"messages": [{"role": "user", "content": "Go"}], "stream": true});
        let reply = daemon.post(path, body.to_string());
        let text = String::from_utf8(super::unchunked(&reply.body)).unwrap();
        let executing = text.find("Executing calculator...").unwrap();
        let reached = "Maximum tool execution rounds reached. Generating final response...";
        assert!(text.find(reached).unwrap() > executing, "{path}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_a_conversation_beyond_the_models_context_is_not_sent() {
    let llm = FakeLlm::start([LlmResponse::text("Done.")]).await;
    let limited = "context_tokens = 20000\ntools = { function_calling = true }";
    let toml = config(&llm, "").replacen("tools = { function_calling = true }", limited, 1);
    let daemon = Daemon::with_config(&toml);
    // The limit also applies to text without spaces.
    for long in ["What now? ".repeat(20_000), "a".repeat(200_000)] {
        for path in PATHS {
            let reply = ask(&daemon, path, &long);
            let json = reply.json();
            if path == "/api/v1/chat" {
                assert_json!(json["error_code"], "invalid_input");
            } else {
                assert_eq!(reply.status, 400, "{path}: {json}");
            }
            assert_contains!(json.to_string(), "context has room for");
        }
    }
    assert!(llm.bodies().is_empty());
    for path in PATHS {
        assert_eq!(words(&ask(&daemon, path, "Hi")), "Done.", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_a_list_contains_only_the_start_of_an_answer() {
    let (_llm, daemon) = start([LlmResponse::text(&"word ".repeat(10_000))]).await;
    let response = ask(&daemon, "/api/v1/chat", "Go").json();
    assert_eq!(response["content"].text().len(), 50_000);
    let chats = daemon.get("/api/v1/chat").json()["chats"].clone();
    assert_eq!(chats[0]["id"], response["id"]);
    assert_eq!(chats[0]["content"].text().len(), 4096);
    let target = format!("/api/v1/chat/{}", response["id"].text());
    let shown = daemon.get(&target).json();
    assert_eq!(shown["chat"]["content"], response["content"]);
}
