use super::*;
use crate::reload::{calls_succeed_during, rewrite};

#[test]
fn f2_a_server_is_usable_at_once_and_its_calls_are_removed_with_it() {
    let far = McpServer::echo();
    let mut daemon = Daemon::start();
    let id = add(&daemon, &json!({"name": "far", "url": far.url}))["id"].clone();
    assert!(call(&daemon, "far_echo"));
    change(&daemon, "POST", "/far/disable", &Value::Null);
    assert!(!daemon.offers("far_echo"));
    change(&daemon, "POST", "/far/enable", &Value::Null);
    assert!(daemon.offers("far_echo"));
    let renamed = change(
        &daemon,
        "PATCH",
        "/far",
        &json!({"name": "afar", "description": "d"}),
    );
    assert_eq!(
        (&renamed["id"], &renamed["description"]),
        (&id, &json!("d"))
    );
    assert!(call(&daemon, "afar_echo"));
    assert!(!call(&daemon, "far_echo"));

    let daemon = daemon.restart();
    assert_eq!(names(&daemon), ["afar"]);
    assert!(call(&daemon, "afar_echo"));
    let calls = |server: &str| {
        let query = format!("?server={server}");
        daemon.recorded(&query).len()
    };
    // The records have the server's new name.
    assert_eq!((calls("far"), calls("afar")), (0, 3));
    let path = format!("/{}", id.text());
    let removed = ask(&daemon, "DELETE", &path, &Value::Null).json();
    assert_eq!(removed, json!({"success": true, "removed": id}));
    assert_eq!(calls("afar"), 0);
    assert!(names(&daemon).is_empty());
    assert!(!daemon.offers("afar_echo"));
}

#[test]
fn f1_put_replaces_and_patch_merges() {
    let far = McpServer::echo();
    let daemon = Daemon::start();
    add(
        &daemon,
        &json!({"name": "far", "url": far.url, "timeout": 5_000, "description": "old"}),
    );
    let patched = change(&daemon, "PATCH", "/far", &json!({"retryAttempts": 0}));
    assert_json!(patched["timeout"], 5_000);
    assert_json!(patched["retryAttempts"], 0);
    let patched = change(&daemon, "PATCH", "/far", &json!({"description": null}));
    assert_eq!(patched.get("description"), None);
    let put = change(
        &daemon,
        "PUT",
        "/far",
        &json!({"name": "far", "url": far.url, "enabled": false}),
    );
    assert_json!(put["timeout"], 30_000);
    assert_json!(put["retryAttempts"], 3);
    assert_eq!(put["enabled"], false);
}

#[test]
fn f3_the_status_contains_the_state_and_the_last_response() {
    let far = McpServer::echo();
    let mut daemon = Daemon::with_config("[mcp]\nretry_after_ms = 10\n");
    let added = add(
        &daemon,
        &json!({"name": "far", "url": far.url, "retryAttempts": 1}),
    );
    assert_eq!(added["status"], "disconnected");
    assert_eq!(added.get("lastConnectedAt"), None);
    far.set_mood(Mood::Ill);
    daemon.tools();
    let shown = &servers(&daemon)[0];
    assert_eq!(shown["status"], "error");
    assert_contains!(shown["error"].text(), "500");
    far.set_mood(Mood::Well);
    eventually("the server is connected", || {
        daemon.tools();
        servers(&daemon)[0]["status"] == "connected"
    });
    assert!(call(&daemon, "far_echo"));
    let shown = servers(&daemon)[0].clone();
    assert_eq!(shown["toolCount"], 1);
    assert_eq!(shown["calls"], json!({"total": 1, "failed": 0}));
    // The call counters survive a change while the server is disconnected.
    far.set_mood(Mood::Ill);
    change(&daemon, "PATCH", "/far", &json!({"retryAttempts": 0}));
    let expected = json!({"total": 1, "failed": 0});
    assert_eq!(servers(&daemon)[0]["calls"], expected);
    far.set_mood(Mood::Well);
    assert!(shown["lastConnectedAt"].is_string(), "{shown}");
    // The caller does not wait for the removal.
    eventually("the time is stored", || {
        daemon.kill();
        daemon = daemon.again();
        let entry = &servers(&daemon)[0];
        assert_eq!(entry["status"], "disconnected");
        entry["lastConnectedAt"].is_string()
    });
}

#[test]
fn f2_tools_of_one_server_or_its_error_are_listed() {
    let (far, ill) = (McpServer::echo(), McpServer::echo());
    ill.set_mood(Mood::Ill);
    let daemon = Daemon::start();
    add(&daemon, &json!({"name": "far", "url": far.url}));
    add(
        &daemon,
        &json!({"name": "ill", "url": ill.url, "retryAttempts": 0}),
    );
    let tools = |name: &str| ask(&daemon, "GET", &format!("/{name}/tools"), &Value::Null).json();
    let listed = tools("far");
    assert_eq!(listed["total"], 1);
    assert_eq!(listed["tools"][0]["name"], "far_echo");
    assert_eq!(listed.get("unavailable_servers"), None, "{listed}");
    let listed = tools("ill");
    assert_eq!(listed["total"], 0);
    assert_eq!(listed["unavailable_servers"][0]["label"], "ill");
    change(&daemon, "POST", "/far/disable", &Value::Null);
    let listed = tools("far");
    let expected = "the server is disabled";
    assert_eq!(listed["unavailable_servers"][0]["error"], expected);
}

#[test]
fn f2_a_server_can_be_tested_before_and_after_it_is_added() {
    let far = McpServer::echo();
    let daemon = Daemon::start();
    let trial = ask(&daemon, "POST", "/test", &json!({"url": far.url})).json();
    assert_eq!(
        (&trial["success"], &trial["reachable"]),
        (&json!(true), &json!(true)),
        "{trial}"
    );
    assert_json!(trial["tools"], json!(["echo"]));
    assert_json!(trial["server"], "fake 1");
    assert!(names(&daemon).is_empty());
    add(
        &daemon,
        &json!({"name": "far", "url": far.url, "enabled": false}),
    );
    assert_eq!(
        ask(&daemon, "POST", "/far/test", &Value::Null).json()["reachable"],
        true
    );
    far.set_mood(Mood::Ill);
    let trial = ask(&daemon, "POST", "/far/test", &Value::Null).expect(200);
    assert_eq!(trial["reachable"], false);
    assert_contains!(trial["error"].text(), "500");
}

#[test]
fn f2_no_call_fails_while_servers_are_added_and_removed() {
    let ((far, daemon), other) = (with_echo(), McpServer::echo());
    calls_succeed_during(&daemon.socket, |_| {
        add(&daemon, &json!({"name": "other", "url": other.url}));
        assert!(daemon.offers("other_echo"));
        ask(&daemon, "DELETE", "/other", &Value::Null);
    });
    // All calls, from the first to the last, use one session.
    assert_eq!(far.count("initialize"), 1);
}

#[test]
fn f2_a_reload_of_the_file_keeps_the_servers_of_the_store() {
    let (far, daemon) = with_echo();
    assert!(call(&daemon, "far_echo"));
    rewrite(&daemon, "[executor]\nmax_concurrent = 2\n");
    assert!(call(&daemon, "far_echo"));
    assert_eq!(far.count("initialize"), 1);
}

#[test]
fn f2_a_successor_has_the_servers_of_its_predecessor() {
    let (far, daemon) = with_echo();
    let next = daemon.successor();
    assert!(call(&next, "far_echo"));
    assert_eq!(names(&next), ["far"]);
    add(&next, &json!({"name": "other", "url": far.url}));
    assert!(call(&next, "other_echo"));
}

/// Adds servers, changes each and removes every third, until the sidecar is gone. Returns the
/// acknowledged names with their new timeouts (`None` for removed servers), and the name of the
/// last server, whose state is unknown.
fn change_until_killed(socket: &Path, round: usize) -> (Vec<(String, Option<u64>)>, String) {
    let client = Client::new(socket);
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let name = format!("r{round}n{number}");
        let server = json!({"name": name, "url": "http://127.0.0.1:9/mcp"});
        let add = client.request(route::ADD_SERVER, []);
        let change = client.request(route::CHANGE_SERVER, [&name]);
        let remove = client.request(route::REMOVE_SERVER, [&name]);
        let changed = add
            .send_json(&server)
            .and_then(|_| change.send_json(&json!({"timeout": 5000})))
            .and_then(|_| match number % 3 {
                0 => remove.send().map(|_| None),
                _ => Ok(Some(5_000)),
            });
        match changed {
            Ok(timeout) => acknowledged.push((name, timeout)),
            Err(_) => return (acknowledged, name),
        }
    }
    unreachable!("the sidecar is killed")
}

#[test]
fn f2_acknowledged_changes_survive_a_kill_without_duplicates() {
    let mut daemon = Daemon::start();
    let mut expected = std::collections::BTreeMap::new();
    let mut total = 0;
    for round in 0..8 {
        let socket = daemon.socket.clone();
        let changing = std::thread::spawn(move || change_until_killed(&socket, round));
        let time = 60 + u64::try_from(round).unwrap() * 37;
        std::thread::sleep(Duration::from_millis(time));
        daemon.kill();
        let (acknowledged, unknown) = changing.join().unwrap();
        total += acknowledged.len();
        expected.extend(acknowledged);
        daemon = daemon.again();
        let mut found = std::collections::BTreeMap::new();
        for server in servers(&daemon) {
            let name = server["name"].text().to_owned();
            if name == unknown {
                ask(&daemon, "DELETE", &format!("/{name}"), &Value::Null);
                continue;
            }
            let before = found.insert(name, server["timeout"].as_u64());
            assert_eq!(before, None);
        }
        let entry: std::collections::BTreeMap<_, _> = expected
            .iter()
            .filter(|(_, timeout)| timeout.is_some())
            .map(|(name, timeout)| (name.clone(), *timeout))
            .collect();
        assert_eq!(found, entry);
    }
    assert!(total > 8, "{total}");
}
