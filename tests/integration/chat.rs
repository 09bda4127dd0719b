//! Chats with language models (H4 to H7), in every interface that has chats.

mod clients;
mod completions;
mod disconnects;
mod faults;
mod keys;
mod limits;
mod messages;
mod native;
mod odd_providers;
mod scripts;
mod shared_store;
mod terminal;

use pillion_core::tool::ToolName;
use pillion_testkit::LlmFault;

use crate::approvals::{decide, wait_for_approval};
use crate::prelude::*;

/// Returns a configuration with this model as `demo`, and as `bare` without tools.
pub fn config(llm: &FakeLlm, more: &str) -> String {
    format!(
        "{more}\n[[providers]]\nname = \"fake\"\nbase_url = \"{}\"\nmax_retries = 0\n\
         [[models]]\nid = \"demo\"\nprovider = \"fake\"\ntools = {{ function_calling = true }}\n\
         [[models]]\nid = \"bare\"\nprovider = \"fake\"\n",
        llm.base_url
    )
}

/// Starts a model that gives these responses, and a daemon that uses the model.
async fn start(responses: impl IntoIterator<Item = LlmResponse>) -> (FakeLlm, Daemon) {
    let llm = FakeLlm::start(responses).await;
    let daemon = Daemon::with_config(&config(&llm, ""));
    (llm, daemon)
}

/// Like [`start`], with a calculator that needs approval.
async fn start_asking(responses: impl IntoIterator<Item = LlmResponse>) -> (FakeLlm, Daemon) {
    let llm = FakeLlm::start(responses).await;
    let more = "[tools.calculator]\nrequire_approval = \"always\"\n";
    let daemon = Daemon::with_config(&config(&llm, more));
    (llm, daemon)
}

/// Like [`config`], with a model that has this API.
fn config_for(api: &str, llm: &FakeLlm) -> String {
    config(llm, "").replace("max_retries", &format!("api = \"{api}\"\nmax_retries"))
}

/// Returns a response of a provider that is busy for nine seconds.
fn busy() -> LlmResponse {
    LlmResponse::rejection("429 Too Many Requests", "rate_limit_exceeded", "slow down")
        .with_header("Retry-After", "9")
}

/// Sends a chat request. Returns the response.
fn chat(socket: &Path, id: &str, body: &Value) -> Value {
    let reply = socket.post(&format!("/api/v1/chat/{id}"), body.to_string());
    reply.expect(200)
}

fn calculator() -> LlmResponse {
    LlmResponse::call("calculator", &json!({"expression": "6 * 7"}))
}

/// Returns the header that continues the chat of a response that waits for an approval.
fn going_on(response: &http::Reply) -> String {
    let id = response.head.split_once("x-pillion-chat: ").unwrap().1;
    format!("x-pillion-chat: {}\r\n", id.lines().next().unwrap())
}

/// Approves every pending call.
fn approve_all(socket: &Path) {
    let waiting = socket.get("/api/v1/approvals/").json();
    for approval in waiting["approvals"].items() {
        let id = approval["id"].text();
        assert_eq!(decide(socket, id, "approve").status, 200);
    }
}

/// Returns the names and data of the events of a stream.
fn events(body: &[u8]) -> Vec<(String, Value)> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let blocks = text.split("\n\n").filter_map(|block| {
        let (name, data) = block.strip_prefix("event: ")?.split_once("\ndata: ")?;
        Some((name.to_owned(), serde_json::from_str(data).unwrap()))
    });
    blocks.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_a_message_is_answered_with_tools_and_the_chat_continues() {
    let (llm, daemon) = start([
        calculator().costing(10, 5),
        LlmResponse::text("It is 42.").costing(20, 3),
        LlmResponse::text("It was 42."),
    ])
    .await;
    let socket = &daemon.socket;
    let body = json!({"message": "What is 6 * 7?", "system": "Be short.", "user": "ada",
        "channel": "maths", "temperature": 0.5});
    let response = chat(socket, "", &body);
    assert_json!(response["success"], true);
    assert_eq!(response["status"], "answered");
    assert_eq!(response["content"], "It is 42.");
    assert_eq!(response["model"], "demo");
    let call = json!({"id": "call_1", "name": "calculator", "arguments": {"expression": "6 * 7"},
        "success": true, "content": "42"});
    assert_eq!(response["tool_calls"], json!([call]));
    let cost = json!({"requests": 2, "input_tokens": 30, "output_tokens": 8, "cached_tokens": 0});
    assert_eq!(response["usage"], cost);
    // The call is logged on behalf of the user in the body.
    assert_eq!(socket.recorded("?user=ada")[0]["toolName"], "calculator");

    // The chat belongs to ada, and no other user can read it.
    let id = response["id"].text();
    let target = format!("/api/v1/chat/{id}");
    assert_eq!(socket.get(&target).status, 404);
    let as_ada =
        |method, body: &[u8]| socket.send(method, &target, "x-pillion-user: ada\r\n", body);
    let again = as_ada("POST", b"{}").json();
    assert_eq!(again["content"], "It is 42.", "an answer is given again");
    let next = as_ada("POST", br#"{"message": "And before?"}"#).json();
    assert_eq!(next["content"], "It was 42.");
    let bodies = llm.bodies();
    assert_eq!(bodies.len(), 3);
    assert_eq!(bodies[0]["temperature"], 0.5);
    let system = json!({"role": "system", "content": "Be short."});
    assert_eq!(bodies[0]["messages"][0], system);
    let expected = ["system", "user", "assistant", "tool", "assistant", "user"];
    assert_eq!(bodies[2]["messages"].texts("role"), expected);
    let shown = as_ada("GET", b"").json();
    assert_eq!(shown["messages"].items().len(), 7, "{shown}");
    assert_eq!(as_ada("DELETE", b"").json()["removed"], id);
    assert_eq!(as_ada("GET", b"").status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h6_a_stream_reports_events_and_ends_with_the_answer() {
    let (_llm, daemon) = start([
        LlmResponse::text("Let me see.").and_call("calculator", r#"{"expression": "6 * 7"}"#),
        LlmResponse::text("It is 42."),
    ])
    .await;
    let body = json!({"message": "What is 6 * 7?", "stream": true}).to_string();
    let reply = daemon.post("/api/v1/chat", body);
    assert_contains!(reply.head, "content-type: text/event-stream");
    let decoded = unchunked(&reply.body);
    let events = events(&decoded);
    let mut names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    let expected = [
        "chat",
        "delta",
        "usage",
        "status",
        "tool_started",
        "tool_finished",
        "delta",
        "usage",
        "done",
    ];
    assert_eq!(names, expected);
    let of = |kind: &str| {
        let found = events.iter().filter(|(name, _)| name == kind);
        found.map(|(_, data)| data).collect::<Vec<_>>()
    };
    assert_eq!(of("status")[0]["text"], "Executing calculator...");
    let arguments = json!({"expression": "6 * 7"});
    assert_eq!(of("tool_started")[0]["arguments"], arguments);
    assert_eq!(of("tool_finished")[0]["content"], "42");
    let words: String = of("delta")
        .into_iter()
        .map(|delta| delta["text"].text())
        .collect();
    assert_eq!(words, "Let me see.It is 42.");
    assert_eq!(of("done")[0]["content"], "It is 42.");
    assert_eq!(of("done")[0]["id"], of("chat")[0]["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_a_call_that_did_not_run_has_the_arguments_of_the_model() {
    let calls = LlmResponse::call("nonesuch", &json!({"why": "not"}))
        .and_call("calculator", r#"{"expression": "6 *"#);
    let (_llm, daemon) = start([calls, LlmResponse::text("Sorry.")]).await;
    let response = chat(&daemon.socket, "", &json!({"message": "Go"}));
    let mut calls = response["tool_calls"].items().iter();
    let arguments = |call: Option<&Value>| call.unwrap()["arguments"].clone();
    assert_eq!(arguments(calls.next()), json!({"why": "not"}), "{response}");
    assert_eq!(arguments(calls.next()), r#"{"expression": "6 *"#);
}

/// Returns the body without chunk sizes.
pub fn unchunked(body: &[u8]) -> Vec<u8> {
    let mut rest = body;
    let mut whole = Vec::new();
    loop {
        let end = rest.windows(2).position(|pair| pair == b"\r\n").unwrap();
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_chat_that_waits_for_an_approval_survives_a_crash() {
    let (llm, mut daemon) = start_asking([
        calculator().and_call("get_time", "{}"),
        LlmResponse::text("Done."),
    ])
    .await;
    let response = chat(&daemon.socket, "", &json!({"message": "Go"}));
    assert_eq!(response["success"], false);
    assert_json!(response["status"], "awaiting_approval");
    let approval = &response["approvals"][0];
    assert_eq!(approval["tool"], "calculator");
    assert_eq!(approval["arguments"], json!({"expression": "6 * 7"}));
    // The call that needs no approval has run before the approval of the others.
    assert_eq!(response["tool_calls"][0]["name"], "get_time");
    let id = response["id"].text();
    let daemon = daemon.restart();
    let socket = &daemon.socket;
    let waiting = chat(socket, id, &json!({}));
    assert_eq!(waiting["status"], "awaiting_approval");
    assert_eq!(waiting["approvals"], response["approvals"]);
    let decided = decide(socket, approval["id"].text(), "approve");
    assert_eq!(decided.status, 200);
    let response = chat(socket, id, &json!({}));
    assert_json!(response["content"], "Done.");
    assert_eq!(response["tool_calls"][0]["content"], "42");
    // No tool ran twice, and the model received the results in the order of its calls.
    assert_eq!(socket.recorded("?status=success").len(), 2);
    let messages = llm.bodies()[1]["messages"].clone();
    assert_json!(messages[2]["tool_call_id"], "call_1");
    assert_eq!(messages[2]["content"], "42");
    assert_eq!(messages[3]["tool_call_id"], "call_2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_the_model_receives_a_denial_and_the_chat_continues() {
    let (llm, daemon) = start_asking([calculator(), LlmResponse::text("As you wish.")]).await;
    let socket = &daemon.socket;
    let response = chat(socket, "", &json!({"message": "Go"}));
    let approval = response["approvals"][0]["id"].text();
    assert_eq!(decide(socket, approval, "deny").status, 200);
    let response = chat(socket, response["id"].text(), &json!({}));
    assert_json!(response["content"], "As you wish.");
    assert_eq!(response["tool_calls"][0]["error_code"], "denied");
    let reported = llm.bodies()[1]["messages"][2]["content"].clone();
    assert_contains!(reported.text(), "denied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failure_of_the_provider_the_chat_continues_and_no_tool_runs_twice() {
    let broken = LlmResponse::text("It is").with(LlmFault::Truncated);
    let outage = LlmResponse::rejection("503 Service Unavailable", "overloaded", "busy")
        .with_header("Retry-After", "7");
    let responses = [calculator(), broken, outage, LlmResponse::text("It is 42.")];
    let (_llm, daemon) = start(responses).await;
    let socket = &daemon.socket;
    let failed = chat(socket, "", &json!({"message": "Go"}));
    assert_eq!(failed["success"], false);
    assert_json!(failed["status"], "failed");
    assert_eq!(failed["error_code"], "unavailable");
    assert_eq!(failed["tool_calls"][0]["content"], "42");
    let id = failed["id"].text();
    let busy = chat(socket, id, &json!({}));
    assert_json!(busy["status"], "failed");
    assert_eq!(busy["retry_after"], 7.0);
    let response = chat(socket, id, &json!({}));
    assert_json!(response["content"], "It is 42.");
    assert_eq!(response["tool_calls"], json!([]));
    assert_eq!(socket.recorded("").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2_a_model_has_only_its_visible_tools() {
    let (llm, daemon) = start([LlmResponse::text("Hello.")]).await;
    let socket = &daemon.socket;
    for body in [
        json!({"message": "Hi", "model": "bare"}),
        json!({"message": "Hi", "enable_tools": false}),
        json!({"messages": [{"role": "user", "content": "Hi"}]}),
    ] {
        chat(socket, "", &body);
    }
    let bodies = llm.bodies();
    let tools: Vec<_> = bodies.iter().map(|body| &body["tools"]).collect();
    assert_eq!(tools[..2], [&Value::Null; 2]);
    let mut names = tools[2].items().iter().map(|it| &it["function"]["name"]);
    assert!(names.any(|name| name == "calculator"), "{}", tools[2]);

    let output = daemon.run(&["models", "show", "bare"]);
    assert_contains!(stdout(&output), "no       model cannot call functions");
    let output = daemon.run(&["models", "list"]);
    assert_contains!(stdout(&output), "yes, the default");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_with_a_long_name_is_called_by_its_short_name() {
    let own = "x".repeat(100);
    let server = McpServer::start(json!([{"name": own, "inputSchema": {"type": "object"}}]));
    let name = ToolName::new(&format!("far_{own}")).unwrap();
    let short = name.short().into_owned();
    let llm = FakeLlm::start([
        LlmResponse::call(&short, &json!({})),
        LlmResponse::text("Done."),
    ])
    .await;
    let servers = server_entry("far", &server.url, "");
    let sees_servers = "function_calling = true, mcp = true";
    let config = config(&llm, &servers).replace("function_calling = true", sees_servers);
    let daemon = Daemon::with_config(&config);
    let response = chat(&daemon.socket, "", &json!({"message": "Hi"}));
    assert_json!(response["content"], "Done.");
    let tools = llm.bodies()[0]["tools"].clone();
    let mut names = tools.items().iter().map(|tool| &tool["function"]["name"]);
    assert!(names.any(|name| *name == short), "{tools}");
    assert_eq!(server.last_tool(), own);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2_the_command_explains_why_a_model_lacks_a_tool() {
    let far = FakeMcp::start(Dialect::StreamableJson);
    let llm = FakeLlm::start([LlmResponse::text("Hello.")]).await;
    let more = format!(
        "[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n\
         [[models]]\nid = \"few\"\nprovider = \"fake\"\n\
         tools = {{ function_calling = true, mcp = true, enabled_tools = [\"get_time\", \"far_roll\"] }}\n",
        far.url
    );
    let daemon = Daemon::with_config(&config(&llm, &more));
    let line_of = |model: &str, tool: &str| {
        let output = daemon.run(&["models", "show", model]);
        let table = stdout(&output);
        let line = table
            .lines()
            .find(|line| line.starts_with(tool))
            .unwrap_or_else(|| panic!("{tool}: {table}"));
        let words: Vec<_> = line
            .split_whitespace()
            .skip_while(|it| !matches!(*it, "yes" | "no"))
            .collect();
        words.join(" ")
    };
    let cases = [
        ("demo", "far_roll", "no model has no 'mcp' flag"),
        ("demo", "calculator", "yes"),
        ("few", "calculator", "no not in enabled_tools"),
        ("few", "far_roll", "yes"),
        ("bare", "far_roll", "no model cannot call functions"),
    ];
    for (model, tool, says) in cases {
        assert_eq!(line_of(model, tool), says, "{model} {tool}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_requests_cannot_continue_one_chat_at_once() {
    let slow = LlmResponse::text("Late.").after(Duration::from_secs(3));
    let (llm, daemon) = start([LlmResponse::text("Hello."), slow]).await;
    let socket = daemon.socket.clone();
    let response = chat(&socket, "", &json!({"message": "Hi"}));
    let target = format!("/api/v1/chat/{}", response["id"].text());
    let (first, path) = (target.clone(), socket.clone());
    let first = thread::spawn(move || path.post(&first, r#"{"message": "One"}"#));
    eventually("the model receives a request", || llm.bodies().len() == 2);
    let second = socket.post(&target, r#"{"message": "Two"}"#);
    assert_eq!(second.status, 409, "{second:?}");
    assert_eq!(first.join().unwrap().json()["content"], "Late.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_is_stored_after_its_client_disconnects() {
    let slow = LlmResponse::text("Never heard.").after(Duration::from_secs(60));
    let (llm, daemon) = start([LlmResponse::text("One."), slow, LlmResponse::text("Two.")]).await;
    let socket = &daemon.socket;
    let response = chat(socket, "", &json!({"message": "First"}));
    let id = response["id"].text();
    let body = r#"{"message": "Second"}"#;
    let target = format!("/api/v1/chat/{id}");
    let connection = socket.begin("POST", &target, "", body);
    eventually("the model receives a request", || llm.bodies().len() == 2);
    drop(connection);
    let response = eventually_some("the chat is free again", || {
        let reply = socket.post(&target, "{}");
        (reply.status == 200).then(|| reply.json())
    });
    assert_json!(response["content"], "Two.");
    let messages = llm.bodies()[2]["messages"].clone();
    assert_json!(messages[2]["content"], "Second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_chat_that_waits_for_a_decision_is_stored() {
    let (_llm, daemon) = start_asking([calculator(), LlmResponse::text("It is 42.")]).await;
    let path = daemon.socket.clone();
    let waiting =
        thread::spawn(move || path.post("/api/v1/chat?wait_ms=20000", r#"{"message": "Go"}"#));
    let socket = &daemon.socket;
    let approval = wait_for_approval(socket);
    eventually("the chat is stored", || {
        let chats = socket.get("/api/v1/chat").json();
        chats["chats"][0]["status"] == "awaiting_approval"
    });
    assert_eq!(decide(socket, &approval, "approve").status, 200);
    let response = waiting.join().unwrap().json();
    assert_json!(response["content"], "It is 42.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_requests_are_rejected_with_a_message() {
    let (llm, daemon) = start([LlmResponse::text("Hello.")]).await;
    let both = json!({"message": "x", "messages": []});
    let unknown_model = json!({"message": "x", "model": "gone"});
    let long_user = json!({"message": "x", "user": "x".repeat(300)});
    for (body, status, words) in [
        (json!({}), 400, "'message' must be set"),
        (json!([]), 400, "expected a map"),
        (json!({"mesage": "x"}), 400, "unknown field `mesage`"),
        (both, 400, "'message' must be omitted"),
        (json!({"messages": [{"content": "x"}]}), 400, "messages[0]"),
        (unknown_model, 404, "no model 'gone'"),
        (long_user, 400, "'user' must be at most"),
    ] {
        let reply = daemon.post("/api/v1/chat", body.to_string());
        assert_eq!(reply.status, status, "{body}: {reply:?}");
        let error = reply.json()["error"].text().to_owned();
        assert!(error.contains(words), "{body}: {error}");
    }
    assert!(llm.bodies().is_empty());
    let none = Daemon::with_config("");
    let reply = none.post("/api/v1/chat", r#"{"message": "x"}"#);
    assert_eq!(reply.status, 503);
    let error = reply.json()["error"].to_string();
    assert_contains!(error, "docs/how-to/providers-and-models.md");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pillion_chat_shows_calls_as_they_run() {
    let (_llm, daemon) = start([calculator(), LlmResponse::text("It is \u{1b}[2J42.")]).await;
    let output = daemon.run(&["chat", "What is 6 * 7?"]);
    success(&output);
    assert_eq!(stdout(&output), "It is [2J42.\n");
    let calls = "· calculator {\"expression\":\"6 * 7\"}\n= calculator: 42\n";
    assert_eq!(stderr(&output), calls);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_pillion_chat_prints_how_to_continue_after_an_approval() {
    // The expression does not fit into one line of the terminal.
    let expression = format!("6 * 7{}", " + 0".repeat(100));
    let call = LlmResponse::call("calculator", &json!({"expression": expression}));
    let (_llm, daemon) = start_asking([call, LlmResponse::text("It is 42.")]).await;
    let message = failure(&daemon.run(&["chat", "Go"]), 1);
    let word_after = |words: &str| {
        let rest = message
            .split_once(words)
            .unwrap_or_else(|| panic!("{message}"))
            .1;
        rest.split_whitespace().next().unwrap().to_owned()
    };
    let (approval, id) = (word_after("approvals approve "), word_after("--resume "));
    success(&daemon.run(&["approvals", "approve", &approval]));
    let output = daemon.run(&["chat", "--resume", &id]);
    assert_eq!(stdout(&output), "It is 42.\n", "{output:?}");
}
