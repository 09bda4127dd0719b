//! The official clients of OpenAI and Anthropic, in `tests/peers/chat`.

use std::collections::HashSet;

use pillion_testkit::LlmDialect;

use super::*;

const TOKEN: &str = "everything-everything-1";

/// Starts a model that follows instructions, rejects certain prompts once, and answers slowly.
async fn model() -> FakeLlm {
    let rejected = Mutex::new(HashSet::new());
    FakeLlm::with_script(LlmDialect::OpenAiChat, move |request| {
        let request = request.json();
        let messages = request["messages"].items();
        let last = messages.last().unwrap()["content"].to_string();
        if last.contains("refuse ") && rejected.lock().unwrap().insert(last.clone()) {
            let busy = "429 Too Many Requests";
            let rejection = LlmResponse::rejection(busy, "rate_limit_exceeded", "slow down");
            return rejection.with_header("Retry-After", "1");
        }
        if last.contains(r#""wait""#) {
            return LlmResponse::text("Late.").after(Duration::from_secs(60));
        }
        if request["response_format"]["type"] == "json_schema" {
            return LlmResponse::text(r#"{"city": "Tokyo", "hour": 9}"#);
        }
        let mut request = request;
        if request["tool_choice"] == "none" {
            request["tools"] = Value::Null;
        }
        LlmResponse::obedient(&request).costing(10, 5)
    })
    .await
}

/// Runs a client of `tests/peers/chat` against a sidecar; the client must succeed.
async fn speaks(client: &str) {
    let Some((program, before)) = Peer::command(client) else {
        return;
    };
    let llm = model().await;
    let address = http::free_address();
    let more = format!(
        "[tcp]\nlisten = \"{address}\"\ntokens_env = \"TOKENS\"\n\
         [tools.get_time]\nrequire_approval = \"always\"\n"
    );
    let toml = format!(
        "{}\n[[models]]\nid = \"small/er\"\nprovider = \"fake\"\n",
        config(&llm, &more).replace("id = \"bare\"\nprovider = \"fake\"", "id = \"bare\"")
    );
    let tokens = format!("app admin {TOKEN}");
    let daemon = Daemon::with_variables(&toml, &[("TOKENS", &tokens)]);
    let socket = daemon.socket.clone();
    let origin = format!("http://{address}");
    let output = tokio::task::spawn_blocking(move || {
        Command::new(program)
            .args(before)
            .args([&origin, TOKEN])
            .env("NO_PROXY", "127.0.0.1,localhost")
            .env("PILLION_SOCKET", socket)
            .output()
            .unwrap()
    })
    .await
    .unwrap();
    let printed = format!("{}{}", stdout(&output), stderr(&output));
    assert!(output.status.success(), "{printed}");
    assert_contains!(printed, "all as it should be");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_the_openai_python_client_uses_the_tools() {
    speaks("client-openai-python").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_the_openai_node_client_uses_the_tools() {
    speaks("client-openai-node").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_the_anthropic_python_client_uses_the_tools() {
    speaks("client-anthropic").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_php_http_clients_use_the_tools_over_the_socket() {
    speaks("client-http-php").await;
}
