use pillion_testkit::LlmDialect;

use super::*;
use crate::chat::config;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l3_claiming_a_user_gives_no_access_to_the_users_chats() {
    let responses = [
        LlmResponse::text("A secret for alice."),
        LlmResponse::text("Another one."),
    ];
    let llm = FakeLlm::with_responses(LlmDialect::OpenAiChat, responses).await;
    let server = Server::start(&config(&llm, ""));
    let ask = |token: &str, request: &str, body: &Value| {
        let (status, _, body) = server.send(request, &as_alice(token, ""), &body.to_string());
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    let message = json!({"message": "Hello", "model": "demo"});
    let (status, chat) = ask(APP, "POST /api/v1/chat/", &message);
    assert_eq!(status, 200, "{chat}");
    let id = chat["id"].text();
    let path = format!("/api/v1/chat/{id}");
    let unknown_id = "0192d5a0-0000-7000-8000-000000000000";
    let unknown_path = format!("/api/v1/chat/{unknown_id}");
    let nothing = json!({});
    // `RUNNER` may act for no user, so that its user is a claim; `HERS` is another principal.
    for token in [RUNNER, HERS] {
        for (method, body) in [
            ("GET", &nothing),
            ("DELETE", &nothing),
            ("POST", &json!({"message": "Go on"})),
            ("POST", &nothing),
        ] {
            let unknown = ask(token, &format!("{method} {unknown_path}"), body);
            let rejected = ask(token, &format!("{method} {path}"), body);
            assert_eq!(rejected.0, 404, "{method}: {rejected:?}");
            // Only the requested ID differs from the response for a chat that never existed.
            let rejection = rejected.1.to_string().replace(id, unknown_id);
            assert_eq!((rejected.0, rejection), (unknown.0, unknown.1.to_string()));
        }
        let (status, list) = ask(token, "GET /api/v1/chat/", &nothing);
        assert_eq!(status, 200, "{list}");
        assert_json!(list["chats"], json!([]));
    }
    // The chats of a claimed user are visible only to the token as well.
    let (_, claimed) = ask(RUNNER, "POST /api/v1/chat/", &message);
    let claimed = format!("/api/v1/chat/{}", claimed["id"].text());
    for token in [APP, HERS] {
        assert_eq!(ask(token, &format!("GET {claimed}"), &nothing).0, 404);
    }
    let (status, own) = ask(APP, &format!("GET {path}"), &nothing);
    assert_eq!(status, 200, "{own}");
    assert_contains!(own.to_string(), "A secret for alice.");
}
