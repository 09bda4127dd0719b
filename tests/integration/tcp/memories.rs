//! The memories that a token can read and remove.

use super::*;

/// Makes a call with these header lines in addition to the token.
fn call(server: &Server, token: &str, about: &str, tool: &str, arguments: &Value) -> Value {
    let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n{about}");
    let request = format!("POST /api/v1/tools/execute/{tool}");
    let (_, _, text) = server.send(&request, &headers, &arguments.to_string());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn about(user: &str, channel: &str) -> String {
    let header = |name: &str, value: &str| match value {
        "" => String::new(),
        _ => format!("x-pillion-{name}: {value}\r\n"),
    };
    header("user", user) + &header("channel", channel)
}

fn found(response: &Value) -> Vec<&str> {
    let memories = response["result"]["data"]["memories"].as_array();
    memories
        .unwrap_or_else(|| panic!("{response}"))
        .iter()
        .map(|memory| memory["content"].text())
        .collect()
}

#[test]
fn d5_a_token_has_only_the_memories_of_its_user() {
    let server = Server::start("");
    let remember = |token, user, content: &str, importance: u8| {
        let arguments = json!({"content": content, "importance": importance});
        let response = call(
            &server,
            token,
            &about(user, "table"),
            "remember",
            &arguments,
        );
        let id = response["result"]["data"]["id"].as_str();
        id.unwrap_or_else(|| panic!("{response}")).to_owned()
    };
    let hers = remember(HERS, "", "Alice likes dice", 2);
    let his = remember(APP, "bob", "Bob likes cards", 2);
    let everybodys = remember(RUNNER, "", "All like cake", 1);
    let search = |token, user, channel| {
        let arguments = json!({"query": "LIKE"});
        call(
            &server,
            token,
            &about(user, channel),
            "search_memory",
            &arguments,
        )
    };
    assert_eq!(
        found(&search(HERS, "", "table")),
        ["Alice likes dice", "All like cake"]
    );
    assert_eq!(found(&search(HERS, "alice", "table")).len(), 2);
    assert_eq!(
        found(&search(APP, "bob", "table")),
        ["Bob likes cards", "All like cake"]
    );
    assert_eq!(found(&search(APP, "", "table")), ["All like cake"]);
    assert!(found(&search(APP, "bob", "")).is_empty());

    // A token for one user cannot name another user. A token without `user` or `any-user` can, but
    // the user is then unverified, so the search is denied.
    assert_eq!(search(HERS, "bob", "table")["error_code"], "denied");
    let claimed = search(RUNNER, "alice", "table");
    assert_json!(claimed["result"]["error_code"], "denied");

    let forget = |token, user, id: &str| {
        let about = about(user, "table");
        call(&server, token, &about, "forget", &json!({"id": id}))["result"].clone()
    };
    assert_eq!(forget(HERS, "", &his)["error_code"], "not_found");
    assert_eq!(forget(RUNNER, "", &hers)["error_code"], "not_found");
    assert_eq!(forget(RUNNER, "alice", &hers)["error_code"], "denied");
    assert_eq!(forget(HERS, "", &hers)["success"], true);
    assert_eq!(forget(APP, "bob", &everybodys)["success"], true);
    assert_eq!(found(&search(APP, "bob", "table")), ["Bob likes cards"]);
}

#[test]
fn d5_memories_survive_a_restart_and_the_most_important_come_first() {
    let call = |daemon: &Daemon, tool: &str, arguments: &Value| {
        let path = format!("/api/v1/tools/execute/{tool}");
        let head = about("alice", "table");
        daemon.post_with(&path, &head, arguments.to_string()).json()
    };
    let mut daemon = Daemon::start();
    for (content, importance) in [("Alice likes dice", 3), ("alice owns a cat", 5)] {
        let arguments = json!({"content": content, "importance": importance});
        let response = call(&daemon, "remember", &arguments);
        assert_json!(response["result"]["success"], true);
    }
    let daemon = daemon.restart();
    for (query, contents) in [
        ("alice dice", vec!["Alice likes dice"]),
        ("alice", vec!["alice owns a cat", "Alice likes dice"]),
    ] {
        let response = call(&daemon, "search_memory", &json!({"query": query}));
        assert_eq!(found(&response), contents);
    }
}

#[test]
fn d5_the_channel_of_mcp_clients_is_a_header() {
    let server = Server::start("");
    let arguments = json!({"content": "We meet on Fridays"});
    call(&server, HERS, &about("", "club"), "remember", &arguments);
    let search = |channel: &str| {
        let params = json!({"name": "search_memory", "arguments": {"query": "friday"}});
        let (headers, body) = super::stateless("tools/call", params, json!({}));
        let about = about("", channel);
        let headers =
            format!("host: localhost\r\nauthorization: Bearer {HERS}\r\n{about}{headers}");
        let (_, _, text) = server.send("POST /mcp", &headers, &body.to_string());
        text
    };
    assert_contains!(search("club"), "We meet on Fridays");
    assert_contains!(search("pub"), "No memories found");
}

#[test]
fn d5_the_memory_can_be_disabled() {
    let server = Server::start("[memory]\nenabled = false\n");
    let response = call(&server, HERS, "", "remember", &json!({"content": "x"}));
    assert_eq!(response["error_code"], "not_found");
}
