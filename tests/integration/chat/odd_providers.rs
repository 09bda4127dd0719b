//! Responses of models and providers that deviate from their documented APIs.

use pillion_testkit::LlmDialect;

use super::*;

/// Returns a stream of these chunks, as the body of a response.
fn stream(chunks: &[Value], is_done: bool) -> LlmResponse {
    let events = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    let mut body: String = events.collect();
    if is_done {
        body.push_str("data: [DONE]\n\n");
    }
    LlmResponse::error_response("200 OK", &body)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write the values in place"
)]
fn chunk(delta: Value, reason: Value) -> Value {
    json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h6_an_empty_finish_reason_is_no_reason() {
    let text = |text: &str| chunk(json!({"content": text}), json!(""));
    let call = chunk(
        json!({"tool_calls": [{"index": 0, "id": "k", "type": "function",
            "function": {"name": "calculator", "arguments": "{\"expression\":\"6*7\"}"}}]}),
        json!(""),
    );
    let end = |reason: &str| chunk(json!({}), json!(reason));
    let whole = json!({"status": "answered", "content": "It is 42.", "finish_reason": "stop"});
    for (responses, expected) in [
        (
            vec![stream(
                &[text("It is "), text("42."), end("stop"), end("")],
                true,
            )],
            whole.clone(),
        ),
        (vec![stream(&[text("It is 42.")], true)], whole),
        (
            vec![stream(&[text("It "), end("length"), end("")], true)],
            json!({"status": "answered", "content": "It ", "finish_reason": "length"}),
        ),
        (
            vec![stream(&[text("You must never ")], false)],
            json!({"status": "failed", "error_code": "unavailable"}),
        ),
        (
            vec![stream(std::slice::from_ref(&call), false)],
            json!({"status": "failed", "tool_calls": []}),
        ),
        (
            vec![
                stream(&[call.clone(), end("length"), end("")], true),
                LlmResponse::text("Sorry."),
            ],
            json!({"status": "answered", "content": "Sorry."}),
        ),
    ] {
        let (_llm, daemon) = start(responses).await;
        let response = chat(&daemon.socket, "", &json!({"message": "What is 6 * 7?"}));
        for (key, value) in expected.as_object().unwrap() {
            assert_json!(response[key], *value);
        }
        assert!(daemon.recorded("").is_empty(), "no cut call runs");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h5_repaired_arguments_are_in_the_approval_and_in_the_call_log() {
    let arguments = json!({"expression": "6 * 7"});
    let twice = json!(arguments.to_string()).to_string();
    let call = LlmResponse::default().and_call("calculator", &twice);
    let (_llm, daemon) = start_asking([call, LlmResponse::text("It is 42.")]).await;
    let socket = &daemon.socket;
    let waiting = chat(socket, "", &json!({"message": "What is 6 * 7?"}));
    assert_json!(waiting["approvals"][0]["arguments"], arguments);
    let approvals = socket.get("/api/v1/approvals/").json();
    assert_json!(approvals["approvals"][0]["arguments"], arguments);
    approve_all(socket);
    let response = chat(socket, waiting["id"].text(), &json!({}));
    assert_json!(response["content"], "It is 42.");
    let logged = socket.recorded("").remove(0);
    assert_json!(logged["status"], "success");
    assert_json!(logged["repairedArguments"], arguments);
    assert_json!(logged["arguments"], arguments);

    // Arguments of a call over REST are not repaired.
    let body = json!(twice).to_string();
    let reply = socket.post("/api/v1/tools/execute/calculator", body);
    assert_eq!(reply.expect(400)["error_code"], "invalid_input");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h5_an_image_of_a_server_reaches_the_model_as_an_image() {
    let data = format!("iVBORw0KGgo{}=", "A".repeat(300_000));
    let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
    let content = json!([{"type": "text", "text": "Took a screenshot."}, image]);
    let server = FakeMcp::builder(Dialect::StreamableJson)
        .on(
            "tools/list",
            fixed(json!({"tools": [{"name": "shoot", "inputSchema": {"type": "object"}}]})),
        )
        .on("tools/call", fixed(json!({ "content": content })))
        .start();
    for (dialect, api, pointer) in [
        (LlmDialect::OpenAiChat, "openai", "/messages/2/content"),
        (
            LlmDialect::OpenAiResponses,
            "openai-responses",
            "/input/2/output/1/image_url",
        ),
        (
            LlmDialect::Anthropic,
            "anthropic",
            "/messages/2/content/0/content/1/source/data",
        ),
        (
            LlmDialect::Google,
            "google",
            "/contents/2/parts/2/inlineData/data",
        ),
    ] {
        let responses = [
            LlmResponse::call("far_shoot", &json!({})),
            LlmResponse::text("Done."),
        ];
        let llm = FakeLlm::with_responses(dialect, responses).await;
        let more = server_entry("far", &server.url, "");
        let toml = config(&llm, &more)
            .replace("max_retries", &format!("api = \"{api}\"\nmax_retries"))
            .replacen(
                "function_calling = true",
                "function_calling = true, mcp = true",
                1,
            );
        let daemon = Daemon::with_config(&toml);
        let response = chat(&daemon.socket, "", &json!({"message": "Take a screenshot"}));
        assert_eq!(response["content"], "Done.", "{api}: {response}");
        let sent = &llm.bodies()[1];
        let found = sent
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default();
        let count = sent.to_string().matches(&data).count();
        if api == "openai" {
            assert_eq!(found, "Took a screenshot.\n[image image/png, 225008 bytes]");
            assert_eq!(count, 0);
        } else {
            assert!(found.ends_with(&data), "{api}: {sent}");
            assert_eq!(count, 1, "{api}");
        }
        // The client reads what the model reads as text.
        let expected = "Took a screenshot.\n[image image/png, 225008 bytes]";
        assert_eq!(response["tool_calls"][0]["content"], expected);
    }
}
