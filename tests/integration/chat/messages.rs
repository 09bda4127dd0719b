//! The Anthropic-compatible messages API with the sidecar's tools.

use pillion_testkit::LlmDialect;

use super::*;
use crate::http::Reply;

fn create(daemon: &Daemon, more: &Value) -> Reply {
    create_with(daemon, "", more)
}

fn create_with(daemon: &Daemon, headers: &str, more: &Value) -> Reply {
    let mut body = json!({"max_tokens": 50,
        "messages": [{"role": "user", "content": "What is 6 * 7?"}]});
    let members = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(members);
    daemon.post_with("/v1/messages", headers, body.to_string())
}

/// Returns a configuration with a model that uses Anthropic's API.
fn anthropic(llm: &FakeLlm) -> String {
    config_for("anthropic", llm)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_a_message_runs_the_tools_with_every_provider() {
    for dialect in [LlmDialect::OpenAiChat, LlmDialect::Anthropic] {
        let responses = [
            calculator().costing(10, 5),
            LlmResponse::text("It is 42.").costing(20, 3),
        ];
        let llm = FakeLlm::with_responses(dialect, responses).await;
        let is_anthropic = dialect == LlmDialect::Anthropic;
        let toml = match is_anthropic {
            true => anthropic(&llm),
            false => config(&llm, ""),
        };
        let daemon = Daemon::with_config(&toml);
        let more = json!({"system": "Be short.", "top_k": 5, "metadata": {"user_id": "ada"}});
        let message = create(&daemon, &more).json();
        let words = json!([{"type": "text", "text": "It is 42."}]);
        assert_json!(message["content"], words);
        assert_eq!(message["stop_reason"], "end_turn");
        assert_eq!(message["model"], "demo");
        assert_eq!(message["usage"]["input_tokens"], 30);
        assert_eq!(message["usage"]["output_tokens"], 8);
        assert_eq!(daemon.recorded("?user=ada").len(), 1);
        let request = &llm.bodies()[0];
        if is_anthropic {
            assert_json!(request["system"], "Be short.");
            assert_json!(request["top_k"], 5);
        } else {
            assert_eq!(request["messages"][0]["content"], "Be short.");
            assert_eq!(request["top_k"], Value::Null);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h6_a_message_is_streamed_in_anthropics_events() {
    let (_llm, daemon) = start([
        LlmResponse::text("Let me see.").and_call("calculator", r#"{"expression": "6 * 7"}"#),
        LlmResponse::text("It is 42.").costing(20, 3),
    ])
    .await;
    let reply = create(&daemon, &json!({"stream": true}));
    assert_contains!(reply.head, "x-pillion-chat: ");
    let events = events(&unchunked(&reply.body));
    let mut names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    assert_eq!(
        names,
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert!(events.iter().all(|(name, data)| data["type"] == *name));
    let words = events
        .iter()
        .filter_map(|(_, data)| data["delta"]["text"].as_str());
    assert_eq!(words.collect::<String>(), "Let me see.\n\nIt is 42.");
    let end = &events[events.len() - 2].1;
    assert_eq!(end["delta"]["stop_reason"], "end_turn");
    assert_eq!(end["usage"]["output_tokens"], 3);

    let broken = LlmResponse::text("It").with(LlmFault::Truncated);
    let (_llm, daemon) = start([broken]).await;
    let reply = create(&daemon, &json!({"stream": true}));
    let (name, error) = super::events(&unchunked(&reply.body)).pop().unwrap();
    assert_eq!((name.as_str(), &error["type"]), ("error", &json!("error")));
    assert!(error["error"]["message"].is_string(), "{error}");
    // A stream that fails before its first text is an error response, like at Anthropic.
    let (_llm, daemon) = start([busy()]).await;
    let reply = create(&daemon, &json!({"stream": true}));
    assert_eq!(reply.status, 429, "{reply:?}");
    assert_contains!(reply.head, "retry-after: 9");
    assert_eq!(reply.json()["error"]["type"], "rate_limit_error");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h5_calls_of_the_clients_tools_are_returned_in_anthropics_format() {
    let call = || LlmResponse::text("Yes.").and_call("order_pizza", r#"{"size": 3}"#);
    let (llm, daemon) = start([call(), call().and_call("order_pizza", "")]).await;
    let schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let more = json!({"tools": [{"name": "order_pizza", "input_schema": schema}],
        "tool_choice": {"type": "any"}});
    let message = create(&daemon, &more).json();
    assert_json!(message["stop_reason"], "tool_use");
    let block =
        json!({"type": "tool_use", "id": "call_1", "name": "order_pizza", "input": {"size": 3}});
    assert_eq!(message["content"][1], block);
    assert_eq!(llm.bodies()[0]["tools"].items().len(), 1);
    assert_eq!(llm.bodies()[0]["tool_choice"], "required");

    let mut streamed = more;
    streamed["stream"] = json!(true);
    let events = events(&unchunked(&create(&daemon, &streamed).body));
    let starts: Vec<_> = events
        .iter()
        .filter(|(name, _)| name == "content_block_start")
        .map(|(_, data)| data)
        .collect();
    assert_eq!(starts.len(), 3, "{events:?}");
    assert_eq!(starts[1]["content_block"]["name"], "order_pizza");
    let inputs = events
        .iter()
        .filter_map(|(_, data)| data["delta"]["partial_json"].as_str());
    assert_eq!(inputs.collect::<Vec<_>>(), [r#"{"size":3}"#, "{}"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h5_messages_reach_anthropics_models_unchanged() {
    let call = LlmResponse::call("order_pizza", &json!({"size": 3}));
    let llm = FakeLlm::with_responses(LlmDialect::Anthropic, [call]).await;
    let daemon = Daemon::with_config(&anthropic(&llm));
    let choice = json!({"type": "any", "disable_parallel_tool_use": true});
    let messages = json!([
        {"role": "user", "content": "Pizza, please."},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "order_pizza", "input": {"size": 1}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "Too small."},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"},
             "cache_control": {"type": "ephemeral"}}]},
    ]);
    let system =
        json!([{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}]);
    let more = json!({"messages": messages, "system": system, "tool_choice": choice, "stream": true,
        "tools": [{"name": "order_pizza", "input_schema": {"type": "object"}}]});
    let events = events(&unchunked(&create(&daemon, &more).body));
    let request = &llm.bodies()[0];
    assert_eq!(request["messages"], messages);
    assert_eq!(request["system"], system);
    assert_eq!(request["tool_choice"], choice);
    let input = events
        .iter()
        .find_map(|(_, data)| data["delta"]["partial_json"].as_str());
    assert_eq!(input, Some(r#"{"size":3}"#));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_a_message_may_disable_parallel_tool_use() {
    let choice = json!({"type": "auto", "disable_parallel_tool_use": true});
    for dialect in [LlmDialect::OpenAiChat, LlmDialect::Anthropic] {
        let llm =
            FakeLlm::with_responses(dialect, [calculator(), LlmResponse::text("It is 42.")]).await;
        let (toml, key, expected) = match dialect {
            LlmDialect::Anthropic => (anthropic(&llm), "tool_choice", choice.clone()),
            _ => (config(&llm, ""), "parallel_tool_calls", json!(false)),
        };
        let daemon = Daemon::with_config(&toml);
        let message = create(&daemon, &json!({"tool_choice": choice})).json();
        assert_json!(message["content"][0]["text"], "It is 42.");
        for request in llm.bodies() {
            assert_eq!(request[key], expected);
        }
        let odd = json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": "yes"}});
        assert_eq!(create(&daemon, &odd).status, 400);
    }
}

/// The API rejects a request in a round of calls if its thinking blocks are missing or changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h5_thinking_blocks_stay_with_their_calls() {
    let thought = json!({"type": "thinking", "thinking": "The tool knows.", "signature": "EqQB=="});
    let call = || calculator().with_item(thought.clone());
    let responses = [call(), LlmResponse::text("It is 42.")];
    let llm = FakeLlm::with_responses(LlmDialect::Anthropic, responses).await;
    let daemon = Daemon::with_config(&anthropic(&llm));
    let budget = json!({"type": "enabled", "budget_tokens": 1024});
    let more = json!({"thinking": budget, "max_tokens": 2000});
    let message = create(&daemon, &more).json();
    let words = json!([{"type": "text", "text": "It is 42."}]);
    assert_json!(message["content"], words);
    let request = &llm.bodies()[1];
    assert_eq!(request["thinking"], budget);
    let content = request["messages"][1]["content"].items();
    assert_eq!(content[0], thought);
    assert_eq!(content[1]["type"], "tool_use", "{request}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_pending_message_survives_a_crash() {
    let (llm, mut daemon) = start_asking([calculator(), LlmResponse::text("It is 42.")]).await;
    let waits = create(&daemon, &json!({}));
    assert_eq!(waits.status, 403, "{waits:?}");
    let header = super::going_on(&waits);
    let daemon = daemon.restart();
    let waits = create_with(&daemon, &header, &json!({}));
    assert_eq!(waits.json()["error"]["type"], "permission_error");
    super::approve_all(&daemon.socket);
    let response = create_with(&daemon, &header, &json!({})).json();
    assert_json!(response["content"][0]["text"], "It is 42.");
    assert_eq!(llm.bodies()[1]["messages"][2]["content"], "42");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_the_messages_api_have_anthropics_format() {
    let (llm, daemon) = start([LlmResponse::text("Hello.")]).await;
    let document = json!({"messages": [{"role": "user", "content": [{"type": "document"}]}]});
    let search = json!({"type": "web_search_20250305", "name": "web_search"});
    for (more, status, words) in [
        (json!({"model": "gone"}), 404, "no model 'gone'"),
        (
            json!({"messages": []}),
            400,
            "'messages' must be a non-empty array",
        ),
        (document, 400, "messages[0].content[0] has a type"),
        (json!({"max_tokens": "x"}), 400, "invalid type"),
        (
            json!({"tools": [search]}),
            400,
            "a tool that Anthropic runs",
        ),
        (
            json!({"tool_choice": {"type": "tool"}}),
            400,
            "'tool_choice' must be",
        ),
    ] {
        let kind = match status {
            404 => "not_found_error",
            _ => "invalid_request_error",
        };
        let reply = create(&daemon, &more);
        assert_eq!(reply.status, status, "{more}: {reply:?}");
        let error = reply.json();
        assert_eq!(error["type"], "error");
        assert_json!(error["error"]["type"], kind);
        assert_contains!(error["error"]["message"].text(), words);
    }
    let count = daemon.post("/v1/messages/count_tokens", "{}");
    assert_eq!(count.expect(404)["error"]["type"], "not_found_error");
    assert!(llm.bodies().is_empty());
}
