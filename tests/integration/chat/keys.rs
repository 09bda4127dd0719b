//! Provider keys (L1): from a variable or the vault, and never shown.

use super::*;

const KEY: &str = "sk-s3cret-key";

fn config(llm: &FakeLlm, key: &str) -> String {
    format!(
        "[log]\nfilter = \"trace\"\n[vault]\nkey_env = \"VAULT\"\n\
         [[providers]]\nname = \"fake\"\nbase_url = \"{}\"\n{key}\n\
         [[models]]\nid = \"demo\"\nprovider = \"fake\"\n",
        llm.base_url
    )
}

const VAULT: (&str, &str) = ("VAULT", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=");

fn authorization(llm: &FakeLlm) -> String {
    let request = llm.requests.all().pop().unwrap();
    request.header("authorization").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_a_key_in_a_variable_is_sent_only_to_its_provider() {
    let llm = FakeLlm::start([LlmResponse::text("Hello.")]).await;
    let text = config(&llm, "key_env = \"LLM_KEY\"");
    let daemon = Daemon::with_variables(&text, &[VAULT, ("LLM_KEY", KEY)]);
    let response = chat(&daemon.socket, "", &json!({"message": "Hi"}));
    assert_eq!(response["content"], "Hello.");
    assert_eq!(authorization(&llm), format!("Bearer {KEY}"));
    let listed = daemon.run(&["providers", "list", "--json"]);
    let expected = "\"key\":\"variable\",\"key_env\":\"LLM_KEY\"";
    assert_contains!(stdout(&listed), expected);
    assert!(!daemon.log().contains(KEY));

    let unset = Daemon::with_variables(&text, &[VAULT]);
    let response = chat(&unset.socket, "", &json!({"message": "Hi"}));
    assert_eq!(response["status"], "failed");
    let error = response["error"].text();
    assert!(
        error.contains("LLM_KEY")
            && error.contains("`pillion serve`: set the variable and restart"),
        "{response}"
    );
    assert_contains!(
        stdout(&unset.run(&["providers", "list"])),
        "LLM_KEY, not set"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_a_key_in_the_vault_is_used_at_once_and_cannot_be_read() {
    let rejected =
        LlmResponse::rejection("401 Unauthorized", "invalid_api_key", &format!("bad {KEY}"));
    let llm = FakeLlm::start([LlmResponse::text("Hello."), rejected]).await;
    let daemon = Daemon::with_variables(&config(&llm, ""), &[VAULT]);
    let socket = daemon.socket.to_str().unwrap();
    let mut set = pillion(&["providers", "set-key", "fake", "--socket", socket]);
    success(&run_with_input(&mut set, format!("{KEY}\n")));
    chat(&daemon.socket, "", &json!({"message": "Hi"}));
    assert_eq!(authorization(&llm), format!("Bearer {KEY}"));
    let store = std::fs::read(daemon.store_path()).unwrap();
    let needle = KEY.as_bytes();
    assert!(!store.windows(needle.len()).any(|window| window == needle));

    // The provider's message about a wrong key may contain the key.
    let response = chat(&daemon.socket, "", &json!({"message": "Hi"}));
    assert_json!(response["status"], "failed");
    assert!(!response.to_string().contains(KEY), "{response}");
    assert!(!daemon.log().contains(KEY));
    success(&daemon.run(&["providers", "remove-key", "fake"]));
    chat(&daemon.socket, "", &json!({"message": "Hi"}));
    assert_eq!(authorization(&llm), "");
}
