//! The OpenAI-compatible chat completions API with the sidecar's tools.

use pillion_testkit::LlmDialect::{self, Anthropic, Google, OpenAiChat, OpenAiResponses};

use super::*;
use crate::http::Reply;

const PATH: &str = "/v1/chat/completions";

const MINUTE: Duration = Duration::from_secs(60);

fn complete(daemon: &Daemon, headers: &str, more: &Value) -> Reply {
    let mut body = json!({"messages": [{"role": "user", "content": "What is 6 * 7?"}]});
    let members = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(members);
    daemon.post_with(PATH, headers, body.to_string())
}

/// Returns the chunks of a stream, and whether the stream ended with `[DONE]`.
fn chunks(reply: &Reply) -> (Vec<Value>, bool) {
    let text = String::from_utf8(unchunked(&reply.body)).unwrap();
    let mut data: Vec<_> = text
        .split("\n\n")
        .filter_map(|block| block.strip_prefix("data: "))
        .collect();
    let is_done = data.last() == Some(&"[DONE]");
    data.retain(|line| *line != "[DONE]");
    let chunks = data.iter().map(|line| serde_json::from_str(line).unwrap());
    (chunks.collect(), is_done)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_a_completion_runs_the_tools() {
    let (llm, daemon) = start([
        calculator().costing(10, 5),
        LlmResponse::text("It is 42.").costing(20, 3),
    ])
    .await;
    let more = json!({"model": "demo", "user": "ada", "max_tokens": 50, "seed": 7, "stop": "!"});
    let response = complete(&daemon, "", &more).json();
    assert_json!(response["object"], "chat.completion");
    assert_eq!(response["model"], "demo");
    assert_eq!(response["choices"][0]["message"]["content"], "It is 42.");
    assert_eq!(response["choices"][0]["finish_reason"], "stop");
    assert_eq!(response["usage"]["total_tokens"], 38);
    // Other members of OpenAI's API are forwarded.
    let request = &llm.bodies()[0];
    assert_json!(request["seed"], 7);
    assert_eq!(request["stop"], json!(["!"]));
    assert_eq!(daemon.recorded("?user=ada").len(), 1);
    // The sidecar does not store the conversation, because the client has it.
    let stored_chats = daemon.get_with("/api/v1/chat", "x-pillion-user: ada\r\n");
    assert_eq!(stored_chats.json()["chats"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h6_chunks_have_the_text_and_the_usage_at_the_end() {
    let (_llm, daemon) = start([
        LlmResponse::text("Let me see.").and_call("calculator", r#"{"expression": "6 * 7"}"#),
        LlmResponse::text("It is 42.")
            .thinking("Hm.")
            .costing(20, 3),
    ])
    .await;
    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let reply = complete(&daemon, "", &more);
    let (chunks, is_done) = chunks(&reply);
    assert!(is_done);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let texts = |key: &str| -> String {
        let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
        deltas.filter_map(|delta| delta[key].as_str()).collect()
    };
    assert_eq!(texts("content"), "Let me see.\n\nIt is 42.");
    assert_eq!(texts("reasoning_content"), "Hm.");
    let [.., end, cost] = chunks.as_slice() else {
        panic!("{chunks:?}")
    };
    assert_eq!(end["choices"][0]["finish_reason"], "stop");
    assert_eq!(cost["choices"], json!([]));
    assert_eq!(cost["usage"]["prompt_tokens"], 20);
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h5_calls_of_the_clients_tools_are_returned_to_the_client() {
    let call = || LlmResponse::call("order_pizza", &json!({"size": 3}));
    let (llm, daemon) = start([call(), call()]).await;
    let tool = json!({"type": "function", "function": {"name": "order_pizza",
        "parameters": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    let more = json!({"tools": [tool], "tool_choice": "auto"});
    let response = complete(&daemon, "", &more).json();
    let choice = &response["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{response}");
    let expected = json!([{"id": "call_1", "type": "function",
        "function": {"name": "order_pizza", "arguments": r#"{"size":3}"#}}]);
    assert_eq!(choice["message"]["tool_calls"], expected);
    assert_eq!(choice["message"]["content"], Value::Null);
    // The model received only the tool that the request allows.
    assert_eq!(llm.bodies()[0]["tools"].items().len(), 1);
    assert_eq!(llm.bodies()[0]["tool_choice"], "auto");

    let mut streamed = more;
    streamed["stream"] = json!(true);
    let (chunks, is_done) = chunks(&complete(&daemon, "", &streamed));
    assert!(is_done);
    let pieces: Vec<_> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0])
        .filter(|piece| piece.is_object())
        .collect();
    assert_eq!(pieces[0]["function"]["name"], "order_pizza");
    let arguments = pieces.iter().map(|it| it["function"]["arguments"].text());
    assert_eq!(arguments.collect::<String>(), r#"{"size":3}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_pending_completion_contains_how_to_continue() {
    let (_llm, daemon) = start_asking([calculator(), LlmResponse::text("It is 42.")]).await;
    let reply = complete(&daemon, "", &json!({}));
    assert_eq!(reply.status, 403, "{reply:?}");
    assert_contains!(reply.head, "x-should-retry: false");
    let error = reply.json()["error"].clone();
    assert_eq!(error["code"], "approval_required");
    let header = going_on(&reply);
    let approvals = daemon.get("/api/v1/approvals/").json();
    let approval = approvals["approvals"][0]["id"].text().to_owned();
    assert!(error["message"].text().contains(&approval), "{error}");
    assert_eq!(decide(&daemon.socket, &approval, "approve").status, 200);
    let response = complete(&daemon, &header, &json!({})).json();
    assert_json!(response["choices"][0]["message"]["content"], "It is 42.");
    // The approval is used, so the chat cannot be continued with it again.
    let gone = complete(&daemon, &header, &json!({}));
    assert_eq!(gone.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_stream_whose_first_call_needs_approval_has_an_error_status() {
    let words =
        LlmResponse::text("Let me see.").and_call("calculator", r#"{"expression": "6 * 7"}"#);
    let (_llm, daemon) = start_asking([calculator(), LlmResponse::text("It is 42."), words]).await;
    let streamed = json!({"stream": true});
    let waits = complete(&daemon, "", &streamed);
    assert_eq!(waits.expect(403)["error"]["code"], "approval_required");
    let header = going_on(&waits);
    approve_all(&daemon.socket);
    let (chunks_sent, is_done) = chunks(&complete(&daemon, &header, &streamed));
    assert!(is_done, "{chunks_sent:?}");
    // If the model has sent text, the approval is the last event after it.
    let waits = complete(&daemon, "", &streamed);
    assert_eq!(waits.status, 200, "{waits:?}");
    let (chunks_sent, is_done) = chunks(&waits);
    assert!(!is_done);
    let error = &chunks_sent.last().unwrap()["error"];
    assert_eq!(error["code"], "approval_required");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_pending_completion_survives_a_crash() {
    let (llm, mut daemon) = start_asking([calculator(), LlmResponse::text("It is 42.")]).await;
    let waits = complete(&daemon, "", &json!({}));
    assert_eq!(waits.status, 403, "{waits:?}");
    let header = going_on(&waits);
    let daemon = daemon.restart();
    let waits = complete(&daemon, &header, &json!({}));
    assert_eq!(waits.json()["error"]["code"], "approval_required");
    approve_all(&daemon.socket);
    let response = complete(&daemon, &header, &json!({})).json();
    assert_json!(response["choices"][0]["message"]["content"], "It is 42.");
    assert_eq!(llm.bodies()[1]["messages"][2]["content"], "42");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_errors_in_openais_format() {
    let (_llm, daemon) = start([
        busy(),
        calculator(),
        LlmResponse::text("It").with(LlmFault::Truncated),
        LlmResponse::text("It").with(LlmFault::Truncated),
    ])
    .await;
    let busy = complete(&daemon, "", &json!({}));
    assert_eq!(busy.expect(429)["error"]["type"], "rate_limit_error");
    assert_contains!(busy.head, "retry-after: 9");
    assert!(!busy.head.contains("x-should-retry"), "nothing has run");
    // The error must not make the client retry, because a retry would run the tool again.
    let broken = complete(&daemon, "", &json!({}));
    assert_eq!(broken.status, 502, "{broken:?}");
    assert_contains!(broken.head, "x-should-retry: false");
    let (chunks, is_done) = chunks(&complete(&daemon, "", &json!({"stream": true})));
    assert!(!is_done);
    let error = &chunks.last().unwrap()["error"];
    assert!(error["message"].is_string(), "{chunks:?}");

    for (more, status, words) in [
        (json!({"model": "gone"}), 404, "There is no model 'gone'"),
        (json!({"n": 2}), 400, "'n' must be 1"),
        (
            json!({"messages": []}),
            400,
            "'messages' must be a non-empty array",
        ),
        (json!({"temperature": "hot"}), 400, "invalid type"),
        (json!({"tools": [{"type": "function"}]}), 400, "tools[0]"),
    ] {
        let reply = complete(&daemon, "", &more);
        assert_eq!(reply.status, status, "{more}: {reply:?}");
        let error = reply.json()["error"].clone();
        assert!(error["message"].text().contains(words), "{error}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    let models = daemon.get("/v1/models").json();
    assert_eq!(models["data"][0]["id"], "demo");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h6_a_stream_that_fails_before_its_first_text_has_the_status_of_the_failure() {
    let (_llm, daemon) = start([busy(), busy(), LlmResponse::text("Late.").after(MINUTE)]).await;
    for more in [json!({"stream": true}), own_tool(json!({"stream": true}))] {
        let reply = complete(&daemon, "", &more);
        assert_eq!(reply.status, 429, "{reply:?}");
        assert_contains!(reply.head, "retry-after: 9", "application/json");
        assert_eq!(reply.json()["error"]["code"], "rate_limited", "{reply:?}");
    }
    assert_eq!(stored_chats(&daemon), json!([]));
    // A slow response starts early, so that proxies keep the connection open.
    let body = json!({"messages": [{"role": "user", "content": "Hi"}], "stream": true}).to_string();
    let mut slow = daemon.begin("POST", PATH, "", body);
    slow.set_read_timeout(Some(MINUTE / 2)).unwrap();
    let mut begun = String::new();
    while !begun.contains(r#""role":"assistant""#) {
        let mut bytes = [0; 4096];
        let read = slow.read(&mut bytes).unwrap();
        assert_ne!(read, 0, "{begun}");
        begun.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert_starts_with!(begun, "HTTP/1.1 200");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_answers_have_all_members_that_typed_clients_need() {
    let call = || LlmResponse::text("Yes.").and_call("order_pizza", "");
    let (_llm, daemon) = start([LlmResponse::text("Hello."), call(), call()]).await;
    let is_head_of = |response: &Value, object: &str| {
        assert_json!(response["object"], object);
        assert_starts_with!(response["id"].text(), "chatcmpl-");
        assert!(response["created"].as_u64() > Some(1_700_000_000));
        assert_eq!(response["model"], "demo");
    };
    let plain = complete(&daemon, "", &json!({})).json();
    let called = complete(&daemon, "", &own_tool(json!({}))).json();
    for (response, reason) in [(&plain, "stop"), (&called, "tool_calls")] {
        is_head_of(response, "chat.completion");
        let choice = &response["choices"][0];
        assert_eq!(choice["index"], 0);
        assert_eq!(choice["finish_reason"], reason);
        assert_ne!(choice.get("logprobs"), None, "{choice}");
        let message = choice["message"].as_object().unwrap();
        assert_eq!(message["role"], "assistant");
        assert!(message["content"].is_string(), "{choice}");
        assert_eq!(message.get("refusal"), Some(&Value::Null));
        for count in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert!(response["usage"][count].is_u64(), "{response}");
        }
    }
    // Without calls the member is omitted, because some clients read an empty list as calls.
    assert_eq!(plain["choices"][0]["message"].get("tool_calls"), None);
    let call = &called["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["type"], "function");
    // The arguments are JSON also where there are none.
    assert_eq!(call["function"]["arguments"], "{}");

    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let (chunks, _) = chunks(&complete(&daemon, "", &own_tool(more)));
    let (cost, others) = chunks.split_last().unwrap();
    assert_eq!(cost["choices"], json!([]));
    assert!(cost["usage"]["total_tokens"].is_u64(), "{cost}");
    is_head_of(cost, "chat.completion.chunk");
    for chunk in others {
        is_head_of(chunk, "chat.completion.chunk");
        assert_eq!(chunk.get("usage"), Some(&Value::Null), "{chunk}");
        let choice = chunk["choices"][0].as_object().unwrap();
        assert_eq!(choice["index"], 0);
        assert!(choice["delta"].is_object(), "{chunk}");
        assert!(choice.contains_key("finish_reason"), "{chunk}");
        assert_ne!(
            choice["delta"].get("content"),
            Some(&Value::Null),
            "{chunk}"
        );
    }
}

/// Returns the chats that the sidecar stored.
fn stored_chats(daemon: &Daemon) -> Value {
    daemon.get("/api/v1/chat").json()["chats"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_names_its_chat_before_it_ends() {
    let broken = LlmResponse::text("It").with(LlmFault::Truncated);
    let (_llm, daemon) = start([calculator(), broken, LlmResponse::text("It is 42.")]).await;
    let reply = complete(&daemon, "", &json!({"stream": true}));
    let (_, is_done) = chunks(&reply);
    assert!(!is_done);
    let header = going_on(&reply);
    let response = complete(&daemon, &header, &json!({})).json();
    let content = &response["choices"][0]["message"]["content"];
    assert_eq!(content, "It is 42.", "{response}");
    assert_eq!(stored_chats(&daemon), json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_streams_the_stored_answer() {
    let (_llm, daemon) = start([LlmResponse::text("It is 42.")]).await;
    let chat = daemon
        .post("/api/v1/chat", r#"{"message": "6 * 7?"}"#)
        .json();
    let header = format!("x-pillion-chat: {}\r\n", chat["id"].text());
    let reply = complete(&daemon, &header, &json!({"stream": true}));
    let (chunks, is_done) = chunks(&reply);
    assert!(is_done, "{reply:?}");
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let words = deltas.filter_map(|delta| delta["content"].as_str());
    assert_eq!(words.collect::<String>(), "It is 42.");
    let body = json!({"model": "demo", "max_tokens": 9, "stream": true,
        "messages": [{"role": "user", "content": "6 * 7?"}]});
    let reply = daemon.post_with("/v1/messages", &header, body.to_string());
    let text = String::from_utf8(unchunked(&reply.body)).unwrap();
    assert_contains!(text, r#""text":"It is 42.""#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_before_any_call_stores_no_chat() {
    let (_llm, daemon) = start([busy()]).await;
    let reply = complete(&daemon, "", &json!({}));
    assert_eq!(reply.status, 429, "{reply:?}");
    assert_lacks!(reply.head, "x-pillion-chat");
    assert_eq!(stored_chats(&daemon), json!([]));
}

/// Returns the name of the API in the configuration.
fn api_of(dialect: LlmDialect) -> &'static str {
    match dialect {
        LlmDialect::OpenAiChat => "openai",
        LlmDialect::OpenAiResponses => "openai-responses",
        LlmDialect::Anthropic => "anthropic",
        LlmDialect::Google => "google",
        other => panic!("no name: {other:?}"),
    }
}

/// Returns a request with a tool of the client.
fn own_tool(more: Value) -> Value {
    let mut body = more;
    body["tools"] = json!([{"type": "function", "function": {"name": "order_pizza",
        "parameters": {"type": "object", "properties": {"size": {"type": "integer"}}}}}]);
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_the_limits_apply_to_the_clients_tools() {
    let llm = FakeLlm::start([busy(), LlmResponse::text("Late.").after(MINUTE)]).await;
    let more = "[chat]\ntimeout_ms = 1500\nmax_total_tokens = 2000\n";
    let daemon = Daemon::with_config(&config(&llm, more));
    let reply = complete(&daemon, "", &own_tool(json!({})));
    assert_eq!(reply.status, 429, "{reply:?}");
    assert_contains!(reply.head, "retry-after: 9");
    // The maximum length of an answer is the rest of the token limit.
    let max_tokens = llm.bodies()[0]["max_tokens"].as_u64().unwrap();
    assert!((1500..2000).contains(&max_tokens), "{max_tokens}");
    let reply = complete(&daemon, "", &own_tool(json!({})));
    assert_eq!(reply.status, 504, "{reply:?}");
    let long = json!([{"role": "user", "content": "What now? ".repeat(1000)}]);
    let reply = complete(&daemon, "", &own_tool(json!({ "messages": long })));
    assert_eq!(reply.status, 429, "{reply:?}");
    let message = reply.json()["error"]["message"].to_string();
    assert_contains!(message, "limit of 2000 tokens");
    assert_eq!(llm.bodies().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h6_a_client_call_with_truncated_arguments_is_not_streamed() {
    let cut_off = || {
        LlmResponse::default()
            .and_call("order_pizza", "")
            .with_finish_reason("length")
    };
    let (_llm, daemon) = start([cut_off(), cut_off()]).await;
    let (chunks, is_done) = chunks(&complete(&daemon, "", &own_tool(json!({"stream": true}))));
    assert!(is_done);
    let mut deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let has_calls = deltas.any(|delta| !delta["tool_calls"].is_null());
    assert!(!has_calls, "{chunks:?}");
    let end = &chunks.last().unwrap()["choices"][0];
    assert_eq!(end["finish_reason"], "length");
    // The result is the same without streaming.
    let response = complete(&daemon, "", &own_tool(json!({}))).json();
    let choice = &response["choices"][0];
    assert!(choice["message"]["tool_calls"].is_null(), "{response}");
    assert_eq!(choice["finish_reason"], "length");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h6_calls_of_nonconforming_providers_are_streamed_in_openais_format() {
    let two = || {
        let one = LlmResponse::default().and_call("order_pizza", r#"{"size":3}"#);
        one.and_call("order_pizza", "")
    };
    let responses = [two().without_ids(), two().with(LlmFault::NotStreamed)];
    let (_llm, daemon) = start(responses).await;
    for _ in 0..2 {
        let (chunks, is_done) = chunks(&complete(&daemon, "", &own_tool(json!({"stream": true}))));
        assert!(is_done);
        let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
        let pieces: Vec<_> = deltas
            .filter_map(|delta| delta["tool_calls"].as_array())
            .flatten()
            .collect();
        let of = |index: u64| pieces.iter().filter(move |piece| piece["index"] == index);
        let mut ids = Vec::new();
        for (index, arguments) in [(0, r#"{"size":3}"#), (1, "{}")] {
            let first = of(index).next().unwrap();
            assert_eq!(first["function"]["name"], "order_pizza", "{pieces:?}");
            ids.push(first["id"].text());
            assert_eq!(of(index).filter(|piece| piece["id"].is_string()).count(), 1);
            let parts = of(index).map(|piece| piece["function"]["arguments"].text());
            assert_eq!(parts.collect::<String>(), arguments, "{pieces:?}");
        }
        assert_ne!(ids[0], ids[1]);
        let end = &chunks.last().unwrap()["choices"][0]["finish_reason"];
        assert_eq!(end, "tool_calls");
    }
}

/// Gemini signs its calls and DeepSeek requires its thoughts: without both, the client's next
/// request is rejected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h5_calls_for_the_client_contain_the_data_of_the_provider() {
    let signed = json!({"id": "a", "type": "function", "extra_content": {"google": {"thought_signature": "c2ln"}},
        "function": {"name": "order_pizza", "arguments": "{\"size\":3}"}});
    let plain = json!({"id": "b", "type": "function",
        "function": {"name": "order_pizza", "arguments": "{\"size\":4}"}});
    let details = json!([{"type": "reasoning.encrypted", "data": "c2ln"}]);
    let message = json!({"role": "assistant", "content": null, "reasoning_content": "Hm.",
        "reasoning_details": details, "tool_calls": [signed, plain]});
    let whole = json!({"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let mut delta = message;
    delta["tool_calls"][0]["index"] = json!(0);
    delta["tool_calls"][1]["index"] = json!(1);
    let chunk = json!({"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]});
    let events = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let responses =
        [whole.to_string(), events].map(|body| LlmResponse::error_response("200 OK", &body));
    let (_llm, daemon) = start(responses).await;

    let response = complete(&daemon, "", &own_tool(json!({}))).json();
    let message = &response["choices"][0]["message"];
    assert_eq!(message["tool_calls"], json!([signed, plain]), "{response}");
    assert_eq!(message["reasoning_content"], "Hm.");
    assert_eq!(message["reasoning_details"], details);

    let reply = complete(&daemon, "", &own_tool(json!({"stream": true})));
    let (chunks, is_done) = chunks(&reply);
    assert!(is_done);
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let has = |key: &str, value: &Value| deltas.clone().any(|delta| delta[key] == *value);
    assert!(has("reasoning_content", &json!("Hm.")), "{chunks:?}");
    assert!(has("reasoning_details", &details), "{chunks:?}");
    let pieces: Vec<_> = deltas
        .filter_map(|delta| delta["tool_calls"].as_array())
        .flatten()
        .collect();
    let [begun, same, other] = pieces[..] else {
        panic!("{pieces:?}")
    };
    assert_eq!(begun["function"], signed["function"]);
    let signature = json!({"index": 0, "extra_content": signed["extra_content"]});
    assert_eq!(*same, signature);
    assert_json!(other["id"], "b");
    assert_json!(other["index"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_tool_choice_is_translated_for_the_provider() {
    let function = json!({"type": "function", "function": {"name": "order_pizza"}});
    let tool = |kind: &str| json!({"type": kind, "name": "order_pizza"});
    let google =
        json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["order_pizza"]}});
    let any = json!({"type": "any"});
    for (dialect, choice, key, expected) in [
        (Anthropic, json!("required"), "tool_choice", any),
        (Anthropic, function.clone(), "tool_choice", tool("tool")),
        (Google, function.clone(), "toolConfig", google),
        (OpenAiResponses, function, "tool_choice", tool("function")),
    ] {
        let api = api_of(dialect);
        let response = LlmResponse::call("order_pizza", &json!({"size": 3}));
        let llm = FakeLlm::with_responses(dialect, [response]).await;
        let toml = config_for(api, &llm);
        let daemon = Daemon::with_config(&toml);
        let reply = complete(&daemon, "", &own_tool(json!({"tool_choice": choice})));
        assert_eq!(reply.status, 200, "{api}: {reply:?}");
        assert_eq!(llm.bodies()[0][key], expected, "{api}");
        let odd = own_tool(json!({"tool_choice": {"type": "allowed_tools"}}));
        assert_eq!(complete(&daemon, "", &odd).status, 400, "{api}");
    }
}

/// OpenAI's Responses API rejects a call without the reasoning before it. Without a setting, the
/// name of the model decides whether reasoning is requested.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h5_a_model_of_any_name_may_be_a_reasoning_model() {
    let llm = FakeLlm::with_responses(OpenAiResponses, [LlmResponse::text("Hello.")]).await;
    let toml = config_for("openai-responses", &llm)
        .replace("id = \"demo\"", "id = \"demo\"\nreasoning = true");
    let daemon = Daemon::with_config(&toml);
    for (model, include) in [
        ("demo", json!(["reasoning.encrypted_content"])),
        ("bare", Value::Null),
    ] {
        let reply = complete(&daemon, "", &json!({ "model": model }));
        assert_eq!(reply.status, 200, "{reply:?}");
        let body = llm.bodies().pop().unwrap();
        assert_eq!(body["include"], include, "{model}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_parallel_tool_calls_is_translated_for_the_provider_and_enforced() {
    let disabled = json!({"type": "auto", "disable_parallel_tool_use": true});
    for (dialect, key, expected) in [
        (OpenAiChat, "parallel_tool_calls", json!(false)),
        (OpenAiResponses, "parallel_tool_calls", json!(false)),
        (Anthropic, "tool_choice", disabled),
        (Google, "toolConfig", Value::Null),
    ] {
        let api = api_of(dialect);
        let two = LlmResponse::call("order_pizza", &json!({"size": 3}));
        let llm = FakeLlm::with_responses(dialect, [two.and_call("order_pizza", "{}")]).await;
        let toml = config_for(api, &llm);
        let daemon = Daemon::with_config(&toml);
        let request = own_tool(json!({"parallel_tool_calls": false}));
        let response = complete(&daemon, "", &request).json();
        let choice = &response["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{api}: {response}");
        let calls = choice["message"]["tool_calls"].items();
        assert_eq!(calls.len(), 1, "{api}: {response}");
        assert_eq!(calls[0]["function"]["arguments"], r#"{"size":3}"#, "{api}");
        assert_eq!(llm.bodies()[0][key], expected, "{api}");

        let request = own_tool(json!({"parallel_tool_calls": false, "stream": true}));
        let (chunks, _) = chunks(&complete(&daemon, "", &request));
        let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
        let mut pieces = deltas
            .filter_map(|delta| delta["tool_calls"].as_array())
            .flatten();
        assert!(pieces.all(|piece| piece["index"] == 0), "{api}: {chunks:?}");

        // The member is omitted unless the client sets it.
        complete(&daemon, "", &own_tool(json!({})));
        assert_eq!(llm.bodies()[2][key], Value::Null, "{api}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_can_be_retrieved_by_its_name() {
    let llm = FakeLlm::start([LlmResponse::text("Hello.")]).await;
    let slashed = config(&llm, "").replace(r#"id = "bare""#, r#"id = "meta/bare/8b""#);
    let daemon = Daemon::with_config(&slashed);
    for path in ["meta/bare/8b", "meta%2Fbare%2F8b", "meta/bare/8b/", "demo/"] {
        let model = daemon.get(&format!("/v1/models/{path}"));
        assert_eq!(model.status, 200, "{path}: {model:?}");
    }
    let daemon = Daemon::with_config(&config(&llm, ""));
    let model = daemon.get("/v1/models/bare").json();
    assert_json!(model["id"], "bare");
    assert_json!(model["owned_by"], "fake");
    let gone = daemon.get("/v1/models/gone");
    assert_eq!(gone.expect(404)["error"]["code"], "model_not_found");
    // A missing item is reported in OpenAI's format, too.
    let nothing = daemon.get("/v1/embeddings").expect(404);
    assert_eq!(nothing["error"]["type"], "invalid_request_error");
}
