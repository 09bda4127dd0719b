//! Clients that disconnect before the response.

use super::*;

/// Returns requests for an answer, in every interface.
fn requests(stream: bool) -> Vec<(&'static str, Value)> {
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let tool = json!({"type": "function", "function": {"name": "order_pizza"}});
    let body = json!({"messages": messages, "stream": stream});
    let with = |name: &str, value: Value| {
        let mut body = body.clone();
        body[name] = value;
        body
    };
    vec![
        ("/api/v1/chat", body.clone()),
        ("/v1/chat/completions", body.clone()),
        ("/v1/chat/completions", with("tools", json!([tool]))),
        ("/v1/messages", with("max_tokens", json!(10))),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_a_disconnect_of_the_client_aborts_the_provider_request() {
    let slow = LlmResponse::text("Never heard.").after(Duration::from_secs(3600));
    let (llm, daemon) = start([slow]).await;
    for stream in [false, true] {
        for (path, body) in requests(stream) {
            let connection = daemon.begin("POST", path, "", body.to_string());
            eventually("the model receives a request", || llm.in_progress() == 1);
            drop(connection);
            eventually("the request to the provider ends", || {
                llm.in_progress() == 0
            });
        }
    }
}
