//! Chats of several processes in one store.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_a_chat_that_runs_in_another_sidecar_is_busy_and_intact() {
    let slow = LlmResponse::text("Late.").after(Duration::from_secs(3));
    let last = LlmResponse::text("Last.");
    let llm = FakeLlm::start([LlmResponse::text("Hello."), slow, last]).await;
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("shared.db");
    let store = [("PILLION__STORE__LOCATION", location.to_str().unwrap())];
    let one = Daemon::with_variables(&config(&llm, ""), &store);
    let other = Daemon::with_variables(&config(&llm, ""), &store);

    let response = chat(&one.socket, "", &json!({"message": "Hi"}));
    let id = response["id"].text();
    let target = format!("/api/v1/chat/{id}");
    let (path, socket) = (target.clone(), one.socket.clone());
    let first = thread::spawn(move || socket.post(&path, r#"{"message": "One"}"#));
    eventually("the model receives a request", || llm.bodies().len() == 2);

    let listed = other.get("/api/v1/chat").json();
    assert_json!(listed["chats"][0]["status"], "running");
    let shown = one.get(&target).json();
    assert_json!(shown["chat"]["status"], "running");
    let second = other.post(&target, r#"{"message": "Two"}"#);
    assert_eq!(second.status, 409, "{second:?}");
    let named = format!("x-pillion-chat: {id}\r\n");
    let body = json!({"messages": [{"role": "user", "content": "Two"}]}).to_string();
    let completion = other.post_with("/v1/chat/completions", &named, body.as_bytes());
    assert_eq!(completion.expect(409)["error"]["code"], "chat_busy");
    let forgotten = other.send("DELETE", &target, "", b"");
    assert_eq!(forgotten.status, 409, "{forgotten:?}");

    assert_eq!(first.join().unwrap().json()["content"], "Late.");
    let listed = other.get("/api/v1/chat").json();
    assert_json!(listed["chats"][0]["status"], "answered");
    assert_eq!(listed["chats"][0]["content"], "Late.");
    let response = chat(&other.socket, id, &json!({"message": "Two"}));
    assert_json!(response["content"], "Last.");
    let message_count = llm.bodies()[2]["messages"].items().len();
    assert_eq!(message_count, 5, "the whole conversation");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_a_chat_is_free_again_after_its_sidecar_was_killed() {
    let slow = LlmResponse::text("Never heard.").after(Duration::from_secs(60));
    let (llm, mut daemon) = start([
        LlmResponse::text("Hello."),
        slow,
        LlmResponse::text("Again."),
    ])
    .await;
    let response = chat(&daemon.socket, "", &json!({"message": "Hi"}));
    let target = format!("/api/v1/chat/{}", response["id"].text());
    let body = r#"{"message": "Still there?"}"#;
    let _connection = daemon.begin("POST", &target, "", body);
    eventually("the model receives a request", || llm.bodies().len() == 2);
    let daemon = daemon.restart();
    // The claim of the killed sidecar has not expired yet.
    let listed = daemon.get("/api/v1/chat").json();
    assert_json!(listed["chats"][0]["status"], "running");
    let mut response = json!(null);
    eventually("the chat is free", || {
        let reply = daemon.post(&target, "{}");
        response = reply.json();
        reply.status == 200
    });
    assert_json!(response["content"], "Again.");
    assert_eq!(llm.bodies()[2]["messages"][2]["content"], "Still there?");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h7_an_answered_chat_prints_its_answer_again() {
    let (_llm, daemon) = start([LlmResponse::text("It is 42.")]).await;
    let response = chat(&daemon.socket, "", &json!({"message": "What is 6 * 7?"}));
    let id = response["id"].text();
    let output = daemon.run(&["chat", "--resume", id]);
    assert_eq!(stdout(&output), "It is 42.\n", "{output:?}");
}
