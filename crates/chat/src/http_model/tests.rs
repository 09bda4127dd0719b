use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant as StdInstant;

use pillion_providers::Provider::OpenAiChat;
use pillion_providers::assistant_text;
use pillion_testkit::{FakeLlm, LlmFault, LlmResponse};
use serde_json::json;

use super::ModelErrorKind::{
    Exhausted, Malformed, RateLimited, Rejected, Timeout, Unauthorized, Unavailable,
};
use super::*;
use crate::TurnOptions;

const KEY: &str = "correct-horse-1";

fn config(llm: &FakeLlm) -> HttpModelConfig {
    let base_url = llm.base_url.parse().unwrap();
    HttpModelConfig {
        retry_pause: Duration::from_millis(1),
        timeout: Duration::from_secs(60),
        ..HttpModelConfig::new(OpenAiChat, base_url, "fake")
    }
}

/// Sends one turn; returns the response and the deltas.
async fn ask(
    config: HttpModelConfig,
    stream: bool,
) -> (Result<TurnResponse, ModelError>, Vec<Delta>) {
    let model = HttpModel::new(config).unwrap();
    let mut deltas = Vec::new();
    let response = respond(&model, stream, &mut |delta| deltas.push(delta)).await;
    (response, deltas)
}

async fn respond(
    model: &HttpModel,
    stream: bool,
    listener: &mut (dyn FnMut(Delta) + Send),
) -> Result<TurnResponse, ModelError> {
    let messages = [json!({"role": "user", "content": "Hi"})];
    let turn = ModelTurn {
        conversation: &model.conversation(&messages).unwrap(),
        tools: &[],
        options: &TurnOptions::default(),
        stream,
        deadline: StdInstant::now() + Duration::from_secs(60),
    };
    model.respond(&turn, listener).await
}

/// Returns a response with status 200 whose body is an error instead of a message.
fn failing() -> LlmResponse {
    LlmResponse::text("x").with(LlmFault::Error(json!({"error": {"message": "no"}})))
}

async fn error(config: HttpModelConfig, stream: bool) -> ModelError {
    ask(config, stream).await.0.unwrap_err()
}

fn text(response: Result<TurnResponse, ModelError>) -> String {
    assistant_text(OpenAiChat, &response.unwrap().body).unwrap()
}

fn text_of(deltas: &[Delta]) -> String {
    let texts = deltas.iter().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn h6_a_streamed_answer_equals_the_plain_one() {
    let response = LlmResponse::text("Three words here")
        .thinking("Hm.")
        .costing(11, 7)
        .and_call("roll", "{\"dice\":\"4d6\"}")
        .and_call("time", "{}");
    let llm = FakeLlm::start([response]).await;
    let (plain, deltas) = ask(config(&llm), false).await;
    assert!(deltas.is_empty());
    let (streamed, deltas) = ask(config(&llm), true).await;
    let (plain, streamed) = (plain.unwrap(), streamed.unwrap());
    let message = |response: &TurnResponse| response.body["choices"][0]["message"].clone();
    assert_eq!(message(&plain), message(&streamed));
    assert_eq!(plain.usage, streamed.usage);
    assert_eq!(plain.finish, streamed.finish);
    let usage = plain.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (11, 7));
    assert_eq!(usage.cached_tokens, 0);
    assert_eq!(text_of(&deltas), "Three words here");
    assert!(deltas.len() > 8, "{deltas:?}");
}

#[tokio::test]
async fn h4_a_wrong_key_is_not_retried_and_not_shown() {
    let message = format!("Bad key {KEY}");
    let rejection = LlmResponse::rejection("401 Unauthorized", "invalid_api_key", &message);
    let llm = FakeLlm::start([rejection]).await;
    let config = config(&llm).with_key(SecretString::from(KEY));
    assert!(!format!("{config:?}").contains(KEY));
    let error = error(config, false).await;
    assert_eq!((error.kind, error.status), (Unauthorized, Some(401)));
    assert!(!format!("{error:?}{error}").contains(KEY));
    let requests = llm.requests.all();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].header("authorization"), format!("Bearer {KEY}"));
    assert_eq!(requests[0].path, "/v1/chat/completions");
}

#[tokio::test]
async fn h4_a_key_that_a_server_echoes_is_removed() {
    let rejection = LlmResponse::rejection("400 Bad Request", "odd", &format!("Not for {KEY}"));
    let llm = FakeLlm::start([rejection]).await;
    let error = error(config(&llm).with_key(SecretString::from(KEY)), false).await;
    assert!(error.message.contains("Not for"), "{error}");
    assert!(!error.message.contains(KEY), "{error}");
}

#[tokio::test]
async fn h4_headers_are_in_each_request_once() {
    let rejection = LlmResponse::rejection("400 Bad Request", "odd", &format!("Not for {KEY}"));
    let llm = FakeLlm::start([rejection]).await;
    let mut config = config(&llm);
    let value = http::HeaderValue::from_static(KEY);
    config.headers.insert("x-team", value);
    assert!(!format!("{config:?}").contains(KEY));
    let error = error(config, false).await;
    assert!(error.message.contains("Not for"), "{error}");
    assert!(!error.message.contains(KEY), "{error}");
    assert_eq!(llm.requests.all()[0].header("x-team"), KEY);
}

#[tokio::test]
async fn h4_a_request_to_a_busy_provider_is_retried() {
    let llm = FakeLlm::start([
        LlmResponse::rejection("429 Too Many Requests", "rate_limit_exceeded", "Slow down")
            .with_header("Retry-After", "0"),
        LlmResponse::error_response("503 Service Unavailable", "<html>"),
        LlmResponse::text("Here"),
    ])
    .await;
    // A changed key takes effect at once.
    let requests = AtomicUsize::new(0);
    let keys = move || {
        let index = requests.fetch_add(1, Ordering::SeqCst);
        Some(SecretString::from(format!("key-{index}")))
    };
    let (response, _) = ask(config(&llm).with_key(keys), true).await;
    assert_eq!(text(response), "Here");
    let requests = llm.requests.all();
    let keys: Vec<_> = requests
        .iter()
        .map(|request| request.header("authorization"))
        .collect();
    assert_eq!(keys, ["Bearer key-0", "Bearer key-1", "Bearer key-2"]);
}

#[tokio::test]
async fn h4_an_overload_error_in_status_200_is_retried() {
    let busy = LlmFault::Error(json!({"error": {"type": "server_error", "message": "Overloaded"}}));
    for stream in [false, true] {
        let llm = FakeLlm::start([
            LlmResponse::text("").with(busy.clone()),
            LlmResponse::text("Here"),
        ])
        .await;
        let (response, _) = ask(config(&llm), stream).await;
        assert_eq!(text(response), "Here");

        // There is no retry after the listener has received a delta.
        let llm = FakeLlm::start([LlmResponse::text("a b c").with(busy.clone())]).await;
        let error = error(config(&llm), stream).await;
        assert_eq!(error.kind, Unavailable);
        assert_eq!(llm.requests.all().len(), if stream { 1 } else { 3 });
    }
}

#[tokio::test]
async fn h4_retries_are_limited() {
    let status = LlmResponse::error_response;
    let no_quota = LlmResponse::rejection("429 Too Many Requests", "insufficient_quota", "Pay");
    for (response, kind, requests) in [
        (status("500 Internal Server Error", ""), Unavailable, 3),
        (status("529 Overloaded", "{}"), Unavailable, 3),
        (no_quota, Exhausted, 1),
        (status("404 Not Found", ""), Rejected, 1),
        (failing(), Malformed, 1),
    ] {
        let llm = FakeLlm::start([response]).await;
        assert_eq!(error(config(&llm), false).await.kind, kind);
        assert_eq!(llm.requests.all().len(), requests, "{kind:?}");
    }
}

#[tokio::test]
async fn h4_a_retry_beyond_the_deadline_is_not_attempted() {
    let busy = LlmResponse::rejection("429 Too Many Requests", "rate_limit_exceeded", "Slow down")
        .with_header("Retry-After", "3600");
    let llm = FakeLlm::start([busy]).await;
    let error = error(config(&llm), true).await;
    assert_eq!(error.kind, RateLimited);
    assert_eq!(error.retry_after, Some(Duration::from_secs(3600)));
    assert_eq!(llm.requests.all().len(), 1);
}

#[tokio::test]
async fn h4_a_stream_that_has_begun_is_not_retried() {
    let llm = FakeLlm::start([LlmResponse::text("a b c d e f").with(LlmFault::Broken)]).await;
    let (response, deltas) = ask(config(&llm), true).await;
    assert_eq!(response.unwrap_err().kind, Unavailable);
    assert!(text_of(&deltas).starts_with("a "));
    assert_eq!(llm.requests.all().len(), 1);
}

#[tokio::test]
async fn h4_a_refused_connection_is_an_error() {
    let config = {
        let llm = FakeLlm::start([LlmResponse::text("x")]).await;
        let mut config = config(&llm);
        config.base_url.set_query(Some("token=hush"));
        config
    };
    let error = error(config, false).await;
    assert_eq!(error.kind, Unavailable);
    assert!(!error.message.contains("hush"), "{error}");
}

#[tokio::test]
async fn h4_broken_responses_fail_before_the_deadline() {
    let pause = Duration::from_secs(3600);
    for (fault, kind) in [
        (LlmFault::Truncated, Malformed),
        (LlmFault::Broken, Unavailable),
        (LlmFault::Endless, Malformed),
        (LlmFault::Trickling(pause), Timeout),
    ] {
        for stream in [false, true] {
            let llm = FakeLlm::start([LlmResponse::text("a b c d").with(fault.clone())]).await;
            let mut config = config(&llm);
            config.max_response_bytes = 64 * 1024;
            if kind == Timeout {
                config.timeout = Duration::from_millis(200);
            }
            let error = error(config, stream).await;
            assert_eq!(error.kind, kind, "{fault:?} {stream} {error}");
        }
    }
    let llm = FakeLlm::start([LlmResponse::text("x").after(pause)]).await;
    let mut config = config(&llm);
    config.timeout = Duration::from_millis(200);
    assert_eq!(error(config, true).await.kind, Timeout);
}

#[tokio::test]
async fn h4_the_size_of_an_event_is_limited() {
    let llm = FakeLlm::start([LlmResponse::text(&"x".repeat(10_000))]).await;
    let mut config = config(&llm);
    config.max_event_bytes = 5_000;
    let error = error(config, true).await;
    assert_eq!(error.kind, Malformed);
    assert!(error.message.contains("5000 bytes"), "{error}");
}

#[tokio::test]
async fn h6_compatible_servers_may_not_stream_or_omit_the_end_marker() {
    for fault in [
        LlmFault::NotStreamed,
        LlmFault::NotDone,
        LlmFault::BrokenAtEnd,
    ] {
        let llm = FakeLlm::start([LlmResponse::text("One two").with(fault.clone())]).await;
        let (response, deltas) = ask(config(&llm), true).await;
        assert_eq!(text(response), "One two", "{fault:?}");
        assert_eq!(text_of(&deltas), "One two", "{fault:?}");
    }
}

#[tokio::test]
async fn h4_dropping_the_future_ends_the_request() {
    let llm = FakeLlm::start([LlmResponse::text("x y").with(LlmFault::Endless)]).await;
    let model = HttpModel::new(config(&llm)).unwrap();
    let deltas = AtomicUsize::new(0);
    {
        let mut count = |_| {
            deltas.fetch_add(1, Ordering::SeqCst);
        };
        let responding = respond(&model, true, &mut count);
        tokio::pin!(responding);
        while deltas.load(Ordering::SeqCst) < 10 {
            tokio::select! {
                response = &mut responding => panic!("{response:?}"),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
        assert_eq!(llm.in_progress(), 1);
    }
    // The provider detects that the client has disconnected.
    let until = StdInstant::now() + Duration::from_secs(20);
    while llm.in_progress() > 0 {
        assert!(StdInstant::now() < until, "the request continues");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn h1_an_endpoint_is_below_the_base_and_keeps_its_query() {
    let below = |base: &str, path| super::join_url(&base.parse().unwrap(), path).to_string();
    let completions = below("https://x.example/v1", "chat/completions");
    assert_eq!(completions, "https://x.example/v1/chat/completions");
    assert_eq!(below("https://x.example", "a"), "https://x.example/a");
    let with_query = below("https://x.example/v1/?v=2", "a?alt=sse");
    assert_eq!(with_query, "https://x.example/v1/a?v=2&alt=sse");
}

#[test]
fn l1_the_egress_policy_applies_to_the_base_url() {
    for (url, is_taken) in [
        ("http://llm.internal:8000/v1", true),
        ("https://api.example.com/v1", true),
        ("http://169.254.169.254/v1", false),
        ("ftp://x.example/", false),
    ] {
        let config = HttpModelConfig::new(OpenAiChat, url.parse().unwrap(), "m");
        let model = HttpModel::new(config);
        assert_eq!(model.is_ok(), is_taken, "{url}");
        if let Err(error) = model {
            assert_eq!(error.kind, Rejected);
        }
    }
}

#[test]
fn h4_each_provider_has_its_documented_base_url() {
    let documented = [
        (OpenAiChat, "https://api.openai.com/v1"),
        (Provider::OpenAiResponses, "https://api.openai.com/v1"),
        (Provider::Anthropic, "https://api.anthropic.com/v1"),
        (
            Provider::Google,
            "https://generativelanguage.googleapis.com/v1beta",
        ),
    ];
    for (provider, url) in documented {
        assert_eq!(provider.api().base_url(), url);
        let config = HttpModelConfig::new(provider, url.parse().unwrap(), "a model");
        assert!(HttpModel::new(config).is_ok(), "{url} may be spoken to");
    }
}

#[tokio::test]
async fn h1_errors_have_the_configured_name_and_the_host_of_the_provider() {
    let closed_port = "http://127.0.0.1:9/v1".parse().unwrap();
    let unreachable = HttpModelConfig {
        provider_name: Some("down".to_owned()),
        max_retries: 0,
        ..HttpModelConfig::new(OpenAiChat, closed_port, "fake")
    };
    let message = error(unreachable, false).await.message;
    let start = "The request to the provider 'down' (127.0.0.1:9) failed: ";
    assert!(message.starts_with(start), "{message}");

    let llm = FakeLlm::start([failing()]).await;
    let rest = llm.base_url.trim_start_matches("http://");
    let host = rest.split('/').next().unwrap();
    let expected = format!("The provider 'openai' ({host}) ");
    let message = error(config(&llm), false).await.message;
    assert!(message.starts_with(&expected), "{message}");
}

/// Serves a body once over HTTP. Returns the base URL.
fn serve(content_type: &'static str, body: String) -> url::Url {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // One read receives the request, which is small.
        let _ = stream.read(&mut [0; 65_536]).unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        // The client may close the connection before the end.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(body.as_bytes());
    });
    url.parse().unwrap()
}

fn is_shortened(text: &str) -> bool {
    text.contains("16384 calls or other parts") || text.contains("1000000 JSON values")
}

/// The bodies are small, but their values would need many times as much memory.
#[tokio::test]
async fn the_values_and_parts_of_an_answer_are_limited() {
    let arrays = vec!["[]"; 600_000].join(",");
    let few_arrays = vec!["[]"; 1_000].join(",");
    let call = |index: usize| {
        json!({"index": index, "id": format!("c{index}"), "type": "function",
            "function": {"name": "f", "arguments": "{}"}})
    };
    let calls = |number: usize| (0..number).map(call).collect::<Vec<_>>();
    let body = |provider, part: &str, list: &str| match provider {
        OpenAiChat => format!(
            r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"x","{part}":{list}}}}}]}}"#
        ),
        Provider::OpenAiResponses => format!(r#"{{"status":"completed","output":{list}}}"#),
        Provider::Anthropic => {
            format!(r#"{{"type":"message","role":"assistant","content":{list}}}"#)
        }
        _ => format!(r#"{{"candidates":[{{"content":{{"parts":{list}}}}}]}}"#),
    };
    let event = |data: &str| format!("data: {data}\n\n");
    let chunk = |delta: Value| json!({"id": "x", "choices": [{"index": 0, "delta": delta}]});
    let tool_calls = |calls: Value| event(&chunk(json!({"tool_calls": calls})).to_string());
    let long_arguments = json!([{"function": {"arguments": format!("[{arrays}]")}}]).to_string();
    let piece = json!([{"index": 0, "id": "c", "function": {
        "name": "f", "arguments": format!("[{few_arrays},")}}]);
    let streams = [
        event(&format!(r#"{{"choices":[],"other":[{arrays}]}}"#)),
        event(&format!(r#"{{"choices":[],"other":[{few_arrays}]}}"#)).repeat(600),
        tool_calls(piece).repeat(600),
        (0..17_000)
            .map(|nth| tool_calls(json!([call(nth)])))
            .collect(),
        tool_calls(json!(calls(17_000))),
    ];
    let mut bodies = vec![
        (
            OpenAiChat,
            body(OpenAiChat, "other", &format!("[{arrays}]")),
        ),
        (OpenAiChat, body(OpenAiChat, "tool_calls", &long_arguments)),
    ];
    for provider in Provider::ALL {
        let list = json!(calls(16_385)).to_string();
        bodies.push((provider, body(provider, "tool_calls", &list)));
    }
    // The limit applies to the total of the parts of several responses.
    let half = body(
        Provider::Google,
        "tool_calls",
        &json!(calls(9_000)).to_string(),
    );
    let end = r#"{"candidates":[{"finishReason":"STOP"}]}"#;
    bodies.push((Provider::Google, format!("[{half},{half},{end}]")));
    let streamed = streams.map(|stream| (OpenAiChat, "text/event-stream", stream));
    let plain = bodies
        .into_iter()
        .map(|(provider, body)| (provider, "application/json", body));
    for (nth, (provider, content_type, body)) in streamed.into_iter().chain(plain).enumerate() {
        let config = HttpModelConfig {
            max_retries: 0,
            ..HttpModelConfig::new(provider, serve(content_type, body), "fake")
        };
        let failed = error(config, content_type != "application/json").await;
        assert_eq!(failed.kind, Malformed, "{nth}: {failed}");
        assert!(is_shortened(&failed.message), "{nth}: {failed}");
    }
    // The stream has many events of ordinary size, and the largest permitted number of calls.
    let piece = event(&chunk(json!({"content": "x", "reasoning_content": "y"})).to_string());
    let all_calls = tool_calls(json!(calls(16_384)));
    let stream = format!("{}{all_calls}data: [DONE]\n\n", piece.repeat(20_000));
    let config = HttpModelConfig::new(OpenAiChat, serve("text/event-stream", stream), "fake");
    let (response, _) = ask(config, true).await;
    let message = &response.unwrap().body["choices"][0]["message"];
    assert_eq!(message["tool_calls"].as_array().unwrap().len(), 16_384);
    assert_eq!(message["content"].as_str().unwrap().len(), 20_000);
}
