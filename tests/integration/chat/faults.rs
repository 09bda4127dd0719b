//! Errors of the provider-compatible APIs: malformed provider responses and forbidden requests.

use pillion_testkit::LlmDialect;

use super::*;
use crate::http::Reply;

const COMPLETIONS: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

fn ask(daemon: &Daemon, path: &str, more: Value) -> Reply {
    let mut body = json!({"max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]});
    let Value::Object(more) = more else {
        panic!("{more}")
    };
    body.as_object_mut().unwrap().extend(more);
    daemon.post(path, body.to_string())
}

/// Returns a provider response with this body.
fn body(json: &Value) -> LlmResponse {
    LlmResponse::error_response("200 OK", &json.to_string())
}

fn own_tools(path: &str) -> Value {
    match path {
        MESSAGES => json!({"tools": [{"name": "order_pizza", "input_schema": {"type": "object"}}]}),
        _ => json!({"tools": [{"type": "function", "function": {"name": "order_pizza"}}]}),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_a_wrong_provider_key_is_not_reported_as_an_outage_and_not_shown() {
    let wrong = LlmResponse::rejection("401 Unauthorized", "invalid_api_key", "No");
    let (_llm, daemon) = start([wrong]).await;
    for path in [COMPLETIONS, MESSAGES] {
        for more in [json!({}), own_tools(path)] {
            let reply = ask(&daemon, path, more);
            assert_eq!(reply.status, 502, "{path}: {reply:?}");
            assert_contains!(reply.head, "x-should-retry: false");
            if path == MESSAGES {
                assert_eq!(reply.json()["error"]["type"], "api_error");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_a_malformed_provider_response_may_be_retried() {
    let broken = LlmResponse::text("It").with(LlmFault::Truncated);
    let (_llm, daemon) = start([broken]).await;
    for path in [COMPLETIONS, MESSAGES] {
        let reply = ask(&daemon, path, json!({}));
        assert_eq!(reply.status, 502, "{path}: {reply:?}");
        assert_lacks!(reply.head, "x-should-retry");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h5_a_refusal_is_returned_in_openais_format() {
    let message = json!({"role": "assistant", "content": null, "refusal": "I must not."});
    let choice = json!({"index": 0, "finish_reason": "stop", "message": message});
    let rejection = body(&json!({"id": "1", "object": "chat.completion", "choices": [choice]}));
    let (_llm, daemon) = start([rejection]).await;
    for more in [json!({}), own_tools(COMPLETIONS)] {
        let response = ask(&daemon, COMPLETIONS, more).json();
        let choice = &response["choices"][0];
        assert_eq!(choice["message"], message, "{response}");
        assert_eq!(choice["finish_reason"], "stop");
    }
    let response = ask(&daemon, MESSAGES, json!({})).json();
    assert_json!(response["content"][0]["text"], "I must not.");
    assert_eq!(response["stop_reason"], "refusal");
    let chat = daemon.post("/api/v1/chat", r#"{"message": "Hi"}"#).json();
    assert_json!(chat["content"], "I must not.");
    assert_eq!(chat["finish_reason"], "content_filter");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h5_a_stop_sequence_is_returned_in_anthropics_format() {
    let ended = body(&json!({"id": "m", "type": "message", "role": "assistant",
        "content": [{"type": "text", "text": "One"}], "stop_reason": "stop_sequence",
        "stop_sequence": "Two", "usage": {"input_tokens": 1, "output_tokens": 1}}));
    let llm = FakeLlm::with_responses(LlmDialect::Anthropic, [ended]).await;
    let toml = config_for("anthropic", &llm);
    let daemon = Daemon::with_config(&toml);
    for more in [json!({}), own_tools(MESSAGES)] {
        let mut more = more;
        more["stop_sequences"] = json!(["Two"]);
        let response = ask(&daemon, MESSAGES, more.clone()).json();
        assert_json!(response["stop_reason"], "stop_sequence");
        assert_eq!(response["stop_sequence"], "Two");
        more["stream"] = json!(true);
        let reply = ask(&daemon, MESSAGES, more);
        let events = super::events(&super::unchunked(&reply.body));
        let delta = &events[events.len() - 2].1["delta"];
        let expected = json!({"stop_reason": "stop_sequence", "stop_sequence": "Two"});
        assert_eq!(*delta, expected, "{events:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_tools_that_a_provider_runs_without_approval_are_rejected() {
    let server = json!([{"type": "url", "name": "x", "url": "https://x.example/mcp"}]);
    let function = json!([{"name": "order_pizza"}]);
    for (path, api, dialect, rejected, passed_on) in [
        (
            MESSAGES,
            "anthropic",
            LlmDialect::Anthropic,
            [
                ("mcp_servers", server.clone()),
                ("betas", json!(["code-execution-2025-08-25"])),
                ("container", json!("container_1")),
            ]
            .to_vec(),
            json!({"top_k": 5, "mcp_servers": [], "container": null}),
        ),
        (
            COMPLETIONS,
            "openai",
            LlmDialect::OpenAiChat,
            [
                ("models", json!(["other/model"])),
                ("route", json!("fallback")),
                ("fallbacks", json!(["other/model"])),
                ("plugins", json!([{"id": "web"}])),
                ("web_search_options", json!({})),
                ("search_parameters", json!({"mode": "on"})),
                ("enable_search", json!(true)),
                ("mcp_servers", server.clone()),
                ("functions", function),
                ("function_call", json!("auto")),
            ]
            .to_vec(),
            json!({"top_k": 5, "functions": [], "plugins": [], "mcp_servers": null, "enable_search": false}),
        ),
    ] {
        let llm = FakeLlm::with_responses(dialect, [LlmResponse::text("Hello.")]).await;
        let toml = config_for(api, &llm);
        let daemon = Daemon::with_config(&toml);
        for (name, value) in rejected {
            let reply = ask(&daemon, path, json!({name: value}));
            assert_eq!(reply.status, 400, "{path} {name}: {reply:?}");
            let message = reply.json()["error"]["message"].to_string();
            assert_contains!(message, &format!("'{name}' must be omitted"));
        }
        assert!(llm.bodies().is_empty());
        let reply = ask(&daemon, path, passed_on);
        assert_eq!(reply.status, 200, "{reply:?}");
        let request = llm.requests.all().pop().unwrap();
        assert_eq!(request.json()["top_k"], 5);
        for empty in ["mcp_servers", "functions", "plugins", "enable_search"] {
            assert!(request.json().get(empty).is_none(), "{empty}");
        }
        assert_eq!(request.header("anthropic-beta"), "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_an_unknown_parameter_reaches_no_provider() {
    for (path, api, dialect) in [
        (MESSAGES, "anthropic", LlmDialect::Anthropic),
        (COMPLETIONS, "openai", LlmDialect::OpenAiChat),
    ] {
        let llm = FakeLlm::with_responses(dialect, [LlmResponse::text("Hello.")]).await;
        let allowed =
            format!("api = \"{api}\"\nextra_parameters = [\"search_settings\"]\nmax_retries");
        let toml = config(&llm, "").replace("max_retries", &allowed);
        let daemon = Daemon::with_config(&toml);
        for (name, value) in [
            (
                "compound_custom",
                json!({"tools": {"enabled_tools": ["web_search"]}}),
            ),
            ("preset", json!("research")),
            ("provider", json!({"order": ["other"]})),
            ("Web_Search_Options", json!({})),
            ("builtin_tools", json!(["python"])),
            ("agent_id", json!("7")),
            ("extra_body", json!({"web_search_options": {}})),
            ("a parameter of next year", json!(1)),
        ] {
            let reply = ask(&daemon, path, json!({name: value}));
            assert_eq!(reply.status, 400, "{path} {name}: {reply:?}");
            let message = reply.json()["error"]["message"].to_string();
            assert_contains!(message, &format!("'{name}'"));
            let is_named = message.contains("extra_parameters") || message.contains("omitted");
            assert!(is_named, "{message}");
        }
        let long = ask(&daemon, path, json!({"x".repeat(10_000): 1}));
        assert!(long.json()["error"]["message"].to_string().len() < 500);
        assert!(llm.bodies().is_empty());
        let reply = ask(
            &daemon,
            path,
            json!({"search_settings": {"a": 1}, "preset": null}),
        );
        assert_eq!(reply.status, 200, "{reply:?}");
        let request = llm.requests.all().pop().unwrap().json();
        assert_eq!(request["search_settings"], json!({"a": 1}));
        assert!(request.get("preset").is_none(), "{request}");
    }
}
