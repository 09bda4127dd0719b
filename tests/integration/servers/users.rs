//! Servers that are called with the credentials of users (L1).

use std::net::{SocketAddr, TcpStream};

use super::credentials::{all_stored_bytes, holds, with_vault};
use super::*;
use crate::approvals::{approval_id, decide, wait_for_approval};
use crate::program::vault;
use crate::reload::rewrite;
use crate::routes::mcp::last;

const ALICE: &str = "alice-alice-alice-alice";
const BOB: &str = "bob-bob-bob-bob-bob-bob";
const SHARED: &str = "shared-shared-shared-shared";

fn far() -> McpServer {
    let tools = json!([
        {"name": "echo", "inputSchema": {"type": "object"}},
        {"name": "fresh", "inputSchema": {"type": "object"}},
    ]);
    McpServer::guarded(tools, &[(ALICE, "alice"), (BOB, "bob"), (SHARED, "all")])
}

fn server(far: &McpServer, credential: &str) -> Value {
    json!({"name": "far", "url": far.url, "retryAttempts": 0, "credential": credential})
}

fn bearer(token: &str) -> Value {
    json!({"authentication": {"type": "bearer", "token": token}})
}

fn give(daemon: &Daemon, user: &str, token: &str) {
    let path = format!("/far/credentials/{user}");
    let stored = ask(daemon, "PUT", &path, &bearer(token)).expect(200)["credential"].clone();
    assert_eq!(stored["user"], user);
    assert_eq!(stored["authentication"], "bearer");
}

fn take(daemon: &Daemon, user: &str) {
    let path = format!("/far/credentials/{user}");
    ask(daemon, "DELETE", &path, &Value::Null).expect(200);
}

fn users(daemon: &Daemon) -> Vec<String> {
    let response = ask(daemon, "GET", "/far/credentials", &Value::Null).json();
    let list = response["credentials"].items().iter();
    list.map(|entry| entry["user"].text().to_owned()).collect()
}

fn user_header(user: Option<&str>) -> String {
    user.map_or_else(String::new, |user| format!("x-pillion-user: {user}\r\n"))
}

fn call(daemon: &Daemon, user: Option<&str>, tool: &str) -> Value {
    let target = format!("/api/v1/tools/execute/{tool}");
    daemon.post_with(&target, &user_header(user), b"{}").json()
}

/// Returns the account for which the server ran the call.
fn account(daemon: &Daemon, user: Option<&str>) -> Value {
    let response = call(daemon, user, "far_echo");
    assert_json!(response["result"]["success"], true);
    response["result"]["data"]["structuredContent"]["account"].clone()
}

/// Returns why a call was rejected before it reached the server.
fn denied(daemon: &Daemon, far: &McpServer, user: Option<&str>) -> String {
    let before = far.count("tools/call");
    let response = call(daemon, user, "far_echo");
    assert_eq!(far.count("tools/call"), before);
    let failure = if response["success"] == true {
        &response["result"]
    } else {
        &response
    };
    assert_eq!(failure["error_code"], "denied", "{response}");
    failure["error"].text().to_owned()
}

fn tools_of(daemon: &Daemon, user: Option<&str>) -> Vec<String> {
    let list = daemon.get_with("/api/v1/tools/", &user_header(user)).json();
    let mut names = list["tools"].texts("name");
    names.retain(|name| name.starts_with("far_"));
    names.into_iter().map(str::to_owned).collect()
}

/// Starts a server with credentials of Alice and Bob.
fn with_users() -> (McpServer, Daemon) {
    let (far, daemon) = (far(), with_vault());
    add(&daemon, &server(&far, "per_user"));
    give(&daemon, "alice", ALICE);
    give(&daemon, "bob", BOB);
    (far, daemon)
}

#[test]
fn l1_users_call_a_server_concurrently_with_their_own_credentials() {
    let (far, daemon) = (far(), with_vault());
    let shown = add(&daemon, &server(&far, "per_user"));
    assert_json!(shown["credential"], "per_user");
    assert_json!(shown["authentication"], json!({"type": "none"}));
    give(&daemon, "alice", ALICE);
    give(&daemon, "bob", BOB);
    std::thread::scope(|scope| {
        for user in ["alice", "bob", "alice", "bob"] {
            let daemon = &daemon;
            scope.spawn(move || {
                for _ in 0..20 {
                    assert_eq!(account(daemon, Some(user)), user);
                    let own = format!("far_files_of_{user}");
                    let tools = tools_of(daemon, Some(user));
                    assert_eq!(tools, ["far_echo", "far_fresh", &own]);
                }
            });
        }
    });
    assert_eq!(far.strays(), 0);
    // One session for each of the two users, however many calls they make.
    assert_eq!(far.count("initialize"), 2);
    // The tools of one user are hidden from the other, and from callers without a user.
    let own = call(&daemon, Some("alice"), "far_files_of_alice");
    assert_json!(own["result"]["success"], true);
    // Statistics do not contain the tools of users either.
    for path in ["/metrics", "/api/v1/status"] {
        let reply = daemon.get(path);
        let body = String::from_utf8(reply.body).unwrap();
        assert_contains!(body, "(users' of far)");
        assert_lacks!(body, "files_of", "far_echo");
    }
    let others = call(&daemon, Some("bob"), "far_files_of_alice");
    assert_json!(others["error_code"], "not_found");
    let available = others["details"]["available_tools"].to_string();
    assert!(available.contains("far_files_of_bob"), "{others}");
    assert!(!available.contains("of_alice"), "{others}");
    let shown = |user: Option<&str>| {
        let target = "/api/v1/tools/far_files_of_alice";
        daemon.get_with(target, &user_header(user)).status
    };
    let statuses = ["alice", "bob", "carol"].map(|user| shown(Some(user)));
    assert_eq!(statuses, [200, 404, 404]);
    assert_eq!(shown(None), 404);
    assert!(tools_of(&daemon, None).is_empty());
    assert!(tools_of(&daemon, Some("carol")).is_empty());
    assert_contains!(denied(&daemon, &far, None), "the call names no user");
    let reason = denied(&daemon, &far, Some("carol"));
    assert_contains!(reason, "'carol' has no credential");
    let carol = user_header(Some("carol"));
    let list = daemon.get_with("/api/v1/tools/", &carol).json();
    assert_json!(list["unavailable_servers"][0]["label"], "far");
    // Tools of other users are hidden also in batches, and in the list of one server.
    let batch =
        json!({"calls": [{"id": "a", "name": "far_echo"}, {"id": "b", "name": "get_time"}]});
    let batch = |user| {
        let (target, header) = ("/api/v1/tools/batch-execute", user_header(user));
        daemon.post_with(target, &header, batch.to_string()).json()
    };
    let of_bob = batch(Some("bob"));
    let content = &of_bob["results"][0]["result"]["data"]["structuredContent"];
    assert_eq!(content["account"], "bob");
    let of_carol = batch(Some("carol"));
    assert_json!(of_carol["results"][0]["error_code"], "denied");
    assert_json!(of_carol["results"][1]["result"]["success"], true);
    let target = "/api/v1/servers/far/tools";
    let of_one = daemon.get_with(target, &user_header(Some("bob"))).json();
    assert_json!(of_one["total"], 3);
}

#[test]
fn l1_mcp_clients_have_the_tools_of_their_user() {
    let (far, daemon) = with_users();
    for (user, own, others) in [
        ("alice", "files_of_alice", "files_of_bob"),
        ("bob", "files_of_bob", "files_of_alice"),
    ] {
        let header = user_header(Some(user));
        let session = Session::open_with(&daemon.socket, "2025-06-18", json!({}), &header);
        let list = session.ask("tools/list", json!({})).to_string();
        assert_contains!(list, own);
        assert_lacks!(list, others);
        for name in ["echo", "far_echo", own] {
            let result = session.ask("tools/call", json!({"name": name}));
            assert_json!(result["result"]["structuredContent"]["account"], user);
        }
        let result = session.ask("tools/call", json!({"name": others}));
        assert!(result["error"]["message"].is_string(), "{result}");
        session.ask("resources/list", json!({}));
    }
    let session = Session::open_with(&daemon.socket, "2025-06-18", json!({}), "");
    let result = session.ask("tools/call", json!({"name": "far_echo"}));
    assert_json!(result["result"]["isError"], true);
    assert_eq!(far.strays(), 0);
    let expected = [ALICE, BOB].map(|token| format!("Bearer {token}"));
    assert!(far.credentials().iter().all(|it| expected.contains(it)));
}

#[test]
fn h2_a_model_learns_nothing_about_a_hidden_server() {
    let far = far();
    let models = "[[models]]\nid = \"one\"\n\
         tools = { function_calling = true, mcp = true, enabled_tools = [\"calculator\"] }\n\
         [[models]]\nid = \"all\"\ntools = { function_calling = true, mcp = true }\n";
    let daemon = Daemon::with_vault(models);
    add(&daemon, &server(&far, "per_user"));
    for user in [None, Some("carol")] {
        let call = |target: &str, name: &str| {
            let params = json!({"name": name, "arguments": {}});
            let (headers, body) = stateless("tools/call", params, json!({}));
            let headers = headers + &user_header(user);
            last(&daemon.post_with(target, &headers, body.to_string()))
        };
        for target in ["/mcp", "/mcp?model=all"] {
            let rejected = call(target, "far_echo");
            let text = rejected["result"]["content"][0]["text"].text();
            assert!(text.contains("credential of the user"), "{rejected}");
        }
        let unknown = call("/mcp?model=one", "far_echo");
        assert_json!(unknown["error"]["message"], "Unknown tool: far_echo");
        let nothing = call("/mcp?model=one", "nothing");
        assert_eq!(unknown["error"]["code"], nothing["error"]["code"]);
    }
}

#[test]
fn l1_calls_to_a_hanging_server_of_a_user_share_one_connection_attempt() {
    let far = far();
    let daemon = Daemon::with_vault("[mcp]\ndiscovery_timeout_ms = 1500\n");
    add(&daemon, &server(&far, "per_user"));
    give(&daemon, "alice", ALICE);
    far.set_mood(Mood::Asleep);
    assert!(tools_of(&daemon, Some("alice")).is_empty());
    let unavailable = || {
        let response = call(&daemon, Some("alice"), "far_echo");
        assert_json!(response["error_code"], "unavailable");
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(unavailable);
        }
    });
    // One after the other, the attempts would take 12 s. A call between two attempts
    // starts another.
    assert!(started.elapsed() < Duration::from_secs(8));
}

#[test]
fn l1_a_cached_result_belongs_to_its_user_and_credential() {
    let (_far, daemon) = with_users();
    let fresh = |user: &str| {
        let result = call(&daemon, Some(user), "far_fresh")["result"].clone();
        let account = result["data"]["structuredContent"]["account"].clone();
        (account, result["metadata"]["cached"] == true)
    };
    // The server declares its result public, but it is not shared.
    assert_eq!(fresh("alice"), (json!("alice"), false));
    assert_eq!(fresh("alice"), (json!("alice"), true));
    assert_eq!(fresh("bob"), (json!("bob"), false));
    give(&daemon, "alice", SHARED);
    assert_eq!(fresh("alice"), (json!("all"), false));
    take(&daemon, "alice");
    let removed = call(&daemon, Some("alice"), "far_fresh");
    assert_json!(removed["error_code"], "denied");
    assert_eq!(fresh("bob"), (json!("bob"), true));
}

#[test]
fn l1_a_credential_survives_a_crash_until_it_or_its_server_is_removed() {
    let (far, other, mut daemon) = (far(), far(), with_vault());
    add(&daemon, &server(&far, "per_user"));
    give(&daemon, "alice", ALICE);
    assert_eq!(account(&daemon, Some("alice")), "alice");
    let daemon = daemon.restart();
    assert_eq!(account(&daemon, Some("alice")), "alice");
    assert_eq!(users(&daemon), ["alice"]);
    // A changed credential applies from the next call on.
    give(&daemon, "alice", BOB);
    assert_eq!(account(&daemon, Some("alice")), "bob");
    take(&daemon, "alice");
    denied(&daemon, &far, Some("alice"));
    let (status, code, _) = rejection(&daemon, "DELETE", "/far/credentials/alice", &Value::Null);
    assert_eq!((status, code.as_str()), (404, "not_found"));
    // The credential is only sent to the URL that it was stored for.
    give(&daemon, "alice", ALICE);
    change(&daemon, "PATCH", "/far", &json!({"url": other.url}));
    denied(&daemon, &other, Some("alice"));
    assert!(other.credentials().is_empty());
    change(&daemon, "PATCH", "/far", &json!({"url": far.url}));
    assert!(users(&daemon).is_empty());
    give(&daemon, "alice", ALICE);
    assert_eq!(ask(&daemon, "DELETE", "/far", &Value::Null).status, 200);
    add(&daemon, &server(&far, "per_user"));
    denied(&daemon, &far, Some("alice"));
}

#[test]
fn l1_a_users_credential_is_shown_nowhere() {
    let (far, mut daemon) = (far(), with_vault());
    add(&daemon, &server(&far, "per_user"));
    give(&daemon, "alice", ALICE);
    give(&daemon, "mallory", "evil-evil-evil-evil-evil");
    account(&daemon, Some("alice"));
    // The server rejects a credential, or a credential cannot be sent.
    call(&daemon, Some("mallory"), "far_echo");
    let rejected = call(&daemon, Some("mallory"), "far_echo");
    let mut shown = rejected.to_string().into_bytes();
    let alice = "/far/credentials/alice";
    let odd = json!({"authentication": {"type": "bearer", "token": [ALICE]}});
    for (method, path, body) in [
        ("GET", "/far", Value::Null),
        ("GET", "/far/credentials", Value::Null),
        ("PUT", alice, odd),
        ("PUT", alice, json!({"authentication": ALICE})),
        ("PUT", alice, json!({"authentication": {"type": ALICE}})),
        ("PUT", alice, json!({"token": ALICE})),
        ("PUT", alice, json!({"authentication": {"type": "none"}})),
        ("PUT", alice, json!({"authentication": {"type": "oauth"}})),
    ] {
        let reply = ask(&daemon, method, path, &body);
        assert!(method == "GET" || reply.status == 400, "{body}: {reply:?}");
        shown.extend(reply.body);
    }
    give(&daemon, "odd", "line\nbreak-break-break");
    let odd = call(&daemon, Some("odd"), "far_echo");
    assert_json!(odd["error_code"], "denied");
    shown.extend(daemon.get("/api/v1/tool-calls").body);
    shown.extend(daemon.get("/api/v1/status").body);
    shown.extend(odd.to_string().bytes());
    daemon.kill();
    shown.extend(all_stored_bytes(&daemon));
    assert!(holds(&shown, "A user's credential was stored") && holds(&shown, "SQLite format 3"));
    for secret in [ALICE, "evil-evil", "break-break"] {
        assert!(!holds(&shown, secret), "{secret}");
    }
}

#[test]
fn l1_a_server_may_have_its_own_credential_too() {
    let (far, daemon) = (far(), with_vault());
    let mut both = server(&far, "user_or_shared");
    both["authentication"] = json!({"type": "bearer", "token": SHARED});
    add(&daemon, &both);
    give(&daemon, "alice", ALICE);
    assert_eq!(account(&daemon, Some("alice")), "alice");
    assert_eq!(account(&daemon, Some("bob")), "all");
    assert_eq!(account(&daemon, None), "all");
    // The list with the server's own credential is for all users.
    for user in [None, Some("alice")] {
        assert_eq!(
            tools_of(&daemon, user),
            ["far_echo", "far_fresh", "far_files_of_all"]
        );
    }
    // With per_user, the server's own credential is used only to list tools.
    change(&daemon, "PATCH", "/far", &json!({"credential": "per_user"}));
    assert_eq!(
        tools_of(&daemon, None),
        ["far_echo", "far_fresh", "far_files_of_all"]
    );
    assert_eq!(account(&daemon, Some("alice")), "alice");
    denied(&daemon, &far, Some("bob"));
    denied(&daemon, &far, None);
    change(&daemon, "PATCH", "/far", &json!({"credential": "shared"}));
    assert_eq!(account(&daemon, Some("alice")), "all");
    let (status, code, error) = rejection(&daemon, "PUT", "/far/credentials/alice", &bearer(ALICE));
    assert_eq!((status, code.as_str()), (409, "invalid_input"));
    assert_contains!(error, "per_user");
    assert_eq!(far.strays(), 0);
}

#[test]
fn g3_an_approval_is_valid_for_one_credential() {
    let far = far();
    let daemon = Daemon::with_vault("[approvals]\npolicy = \"always-ask\"\n");
    let mut both = server(&far, "user_or_shared");
    both["authentication"] = json!({"type": "bearer", "token": SHARED});
    add(&daemon, &both);
    let alice = Some("alice");
    let result = || call(&daemon, alice, "far_echo")["result"].clone();
    let approve = |id: &str| assert_eq!(decide(&daemon.socket, id, "approve").status, 200);

    // The call is repeated after the decision: with another credential, it is a different call,
    // which needs another decision.
    give(&daemon, "alice", ALICE);
    let of_alice = approval_id(&result());
    approve(&of_alice);
    take(&daemon, "alice");
    let of_server = approval_id(&result());
    assert_ne!(of_server, of_alice);
    approve(&of_server);
    give(&daemon, "alice", ALICE);
    assert_eq!(far.count("tools/call"), 0);
    // Alice's approval stays valid for Alice, also with another credential.
    give(&daemon, "alice", BOB);
    assert_eq!(account(&daemon, alice), "bob");
    take(&daemon, "alice");
    assert_eq!(account(&daemon, alice), "all");

    // The credential changes while the call waits for the decision: the call is rejected, and the
    // server does not receive it.
    let calls = far.count("tools/call");
    let rejection_after = |change: &dyn Fn()| {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| call(&daemon, alice, "far_echo?wait_ms=60000"));
            let open = wait_for_approval(&daemon.socket);
            change();
            approve(&open);
            let response = waiting.join().unwrap()["result"].clone();
            assert_json!(response["error_code"], "denied");
            response["error"].text().to_owned()
        })
    };
    let error = rejection_after(&|| give(&daemon, "alice", ALICE));
    assert_contains!(error, "has a credential now");
    let error = rejection_after(&|| take(&daemon, "alice"));
    assert_contains!(error, "no longer has a credential");
    assert_eq!(far.count("tools/call"), calls);
    assert_eq!(far.strays(), 0);
}

/// Starts a daemon with these tokens. Returns the daemon and its TCP address.
fn with_tokens(tokens: &str, more: &str) -> (Daemon, SocketAddr) {
    let address = http::free_address();
    let config = format!("[tcp]\nlisten = \"{address}\"\ntokens_env = \"TOKENS\"\n{more}");
    (
        Daemon::with_vault_and(&config, &[("TOKENS", tokens)]),
        address,
    )
}

/// Sends a request with a token. Returns the status and the body.
fn send(
    address: SocketAddr,
    token: &str,
    request: &str,
    user: Option<&str>,
    body: &str,
) -> (u16, String) {
    let reply = http::send_with_token(address, token, request, &user_header(user), body);
    (reply.status, reply.text())
}

/// Returns the JSON that a token reads there.
fn read(address: SocketAddr, token: &str, path: &str) -> (u16, Value) {
    let (status, body) = send(address, token, &format!("GET {path}"), None, "");
    (status, serde_json::from_str(&body).unwrap())
}

const PLAIN: &str = "plain-plain-plain-plain";
const HERS: &str = "hers-hers-hers-hers-hers";
const APP: &str = "application-application";
const OPS: &str = "operator-operator-operator";

fn tokens() -> String {
    format!(
        "plain approve {PLAIN}; hers execute {HERS} user=alice; app execute {APP} any-user; \
         ops admin {OPS}; boss approve boss-boss-boss-boss-boss user=alice"
    )
}

#[test]
fn l1_tools_listed_for_a_user_are_pinned_for_that_user() {
    let far = far();
    let (daemon, address) =
        with_tokens(&tokens(), "[mcp]\nrefresh_after_ms = 50\npin = \"block\"\n");
    add(&daemon, &server(&far, "per_user"));
    give(&daemon, "alice", ALICE);
    give(&daemon, "bob", BOB);
    let echo = |description: &str| {
        let tool =
            json!({"name": "echo", "description": description, "inputSchema": {"type": "object"}});
        far.set_tools(json!([tool]));
    };
    let has_echo = |user: &str| tools_of(&daemon, Some(user)).contains(&"far_echo".to_owned());
    echo("One");
    assert!(has_echo("alice"));
    // The tool is new for Bob, whatever its state is for Alice.
    echo("Two");
    assert!(has_echo("bob"));
    eventually("it is another for her", || !has_echo("alice"));

    let pins = |token: &str| {
        let (status, response) = read(address, token, "/api/v1/pins");
        assert_eq!(status, 200, "{response}");
        let pins = response["pins"].items().iter();
        let of = |pin: &Value| format!("{} {}", pin["user"], pin["tool"]).replace('"', "");
        pins.map(of).collect::<Vec<_>>()
    };
    let all = [
        "alice echo",
        "alice files_of_alice",
        "bob echo",
        "bob files_of_bob",
    ];
    assert_eq!(pins(APP), all);
    assert_eq!(pins(OPS), all);
    assert_eq!(pins(HERS), all[..2]);
    assert!(pins(PLAIN).is_empty());
    let status =
        |token: &str, path: &str| read(address, token, &format!("/api/v1/pins/far/{path}")).0;
    for (token, of_alice, of_bob) in [(PLAIN, 404, 404), (HERS, 200, 404), (APP, 200, 200)] {
        assert_eq!(status(token, "echo?user=alice"), of_alice, "{token}");
        assert_eq!(status(token, "echo?user=bob"), of_bob, "{token}");
        assert_eq!(status(token, "echo"), 404, "{token}");
    }

    // An operator accepts the tool for one user only.
    let run = |arguments: &[&str]| {
        let output = daemon.run(arguments);
        format!("{}{}", stdout(&output), stderr(&output))
    };
    let reported = run(&["servers", "tools", "far", "--user", "alice"]);
    assert_contains!(reported, "`pillion pins diff far echo --user alice`");
    let of_bob = run(&["servers", "tools", "far", "--user", "bob"]);
    assert_lacks!(of_bob, "blocked");
    let change = run(&["pins", "diff", "far", "echo", "--user", "alice"]);
    assert_contains!(change, "- One\n+ Two");
    assert_lacks!(run(&["pins", "accept", "far", "echo"]), "accepted");
    let accepted = run(&["pins", "accept", "far", "echo", "--user", "alice"]);
    assert_contains!(accepted, "accepted: far echo");
    assert!(has_echo("alice") && has_echo("bob"));
    let listed = run(&["pins", "list", "--user", "alice"]);
    assert_contains!(listed, "files_of_alice");
    assert_lacks!(listed, "of_bob");
    // The pins are removed with the credential.
    take(&daemon, "bob");
    assert_eq!(pins(OPS), all[..2]);
}

#[test]
fn l1_a_token_of_one_user_cannot_read_records_of_others() {
    let more = "[tools.get_time]\nrequire_approval = \"always\"\n";
    let (daemon, address) = with_tokens(&tokens(), more);
    for user in [None, Some("alice"), Some("bob")] {
        let calculate = br#"{"expression": "1"}"#;
        let target = "/api/v1/tools/execute/calculator";
        daemon.post_with(target, &user_header(user), calculate);
        call(&daemon, user, "get_time");
    }
    const BOSS: &str = "boss-boss-boss-boss-boss";
    let users = |token: &str, path: &str, list: &str| {
        let (status, response) = read(address, token, path);
        assert_eq!(status, 200, "{response}");
        let entries = response[list].items().iter();
        let mut users: Vec<_> = entries
            .map(|entry| entry["user"].as_str().unwrap_or("no user").to_owned())
            .collect();
        users.sort();
        users.dedup();
        users
    };
    let everybody = ["alice", "bob", "no user"];
    for path in ["/api/v1/tool-calls", "/api/v1/tool-calls?tool=calculator"] {
        assert_eq!(users(HERS, path, "calls"), ["alice"]);
        assert_eq!(users(BOSS, path, "calls"), ["alice"]);
        for token in [PLAIN, APP, OPS] {
            assert_eq!(users(token, path, "calls"), everybody, "{token}");
        }
    }
    let approvals = "/api/v1/approvals";
    assert_eq!(users(HERS, approvals, "approvals"), ["alice"]);
    assert_eq!(users(BOSS, approvals, "approvals"), ["alice"]);
    for token in [PLAIN, APP, OPS] {
        assert_eq!(users(token, approvals, "approvals"), everybody, "{token}");
    }
    let of_bob = |path: &str, list: &str| {
        let path = format!("{path}?user=bob");
        assert_eq!(read(address, HERS, &path).0, 403);
        let (_, response) = read(address, OPS, &path);
        response[list][0]["id"].text().to_owned()
    };
    for (path, list) in [("/api/v1/tool-calls", "calls"), (approvals, "approvals")] {
        let one = format!("{path}/{}", of_bob(path, list));
        let (status, hidden) = read(address, HERS, &one);
        assert_eq!(status, 404, "{hidden}");
        assert_eq!(read(address, BOSS, &one).0, 404);
        assert_eq!(read(address, APP, &one).0, 200);
        let (_, hers) = read(address, HERS, &format!("{path}?user=alice"));
        let own = format!("{path}/{}", hers[list][0]["id"].text());
        assert_eq!(read(address, HERS, &own).0, 200);
    }
    let counted = |token: &str, query: &str| {
        let path = format!("/api/v1/tool-calls/statistics?tool=calculator{query}");
        read(address, token, &path)
    };
    assert_eq!(counted(HERS, "").1["tools"][0]["calls"], 1);
    assert_eq!(counted(OPS, "").1["tools"][0]["calls"], 3);
    assert_eq!(counted(HERS, "&user=bob").0, 403);

    // Also while the events are sent.
    let mut stream = TcpStream::connect(address).unwrap();
    let timeout = Some(Duration::from_secs(30));
    stream.set_read_timeout(timeout).unwrap();
    let request = format!(
        "GET /api/v1/events?types=call HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {HERS}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut received = String::new();
    let receive_until = |stream: &mut TcpStream, received: &mut String, text: &str| {
        while !received.contains(text) {
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "{received}");
            *received += &String::from_utf8_lossy(&bytes[..read]);
        }
    };
    receive_until(&mut stream, &mut received, "event: ready");
    for user in [None, Some("bob"), Some("alice")] {
        call(&daemon, user, "roll_dice");
    }
    receive_until(&mut stream, &mut received, "event: call.ended");
    assert_contains!(received, "alice");
    for other in ["bob", "\"user\":null"] {
        assert_lacks!(received, other);
    }
}

#[test]
fn l1_a_token_uses_credentials_only_of_users_it_may_act_for() {
    let far = far();
    let (daemon, address) = with_tokens(&tokens(), "");
    add(&daemon, &server(&far, "per_user"));
    give(&daemon, "alice", ALICE);
    give(&daemon, "bob", BOB);
    let send = |token: &str, request: &str, user: Option<&str>, body: &str| {
        send(address, token, request, user, body)
    };
    const CALL: &str = "POST /api/v1/tools/execute/far_echo";
    let runs = |token: &str, user: Option<&str>, account: &str| {
        let (_, response) = send(token, CALL, user, "{}");
        assert_contains!(response, &format!("\"account\":\"{account}\""));
    };
    let is_denied = |token: &str, user: Option<&str>| {
        let before = far.credentials().len();
        let (status, response) = send(token, CALL, user, "{}");
        assert_contains!(response, "\"error_code\":\"denied\"");
        assert_eq!(far.credentials().len(), before);
        status
    };
    assert_eq!(is_denied(PLAIN, Some("alice")), 200);
    assert_eq!(is_denied(PLAIN, None), 200);
    runs(HERS, None, "alice");
    runs(HERS, Some("alice"), "alice");
    assert_eq!(is_denied(HERS, Some("bob")), 403);
    runs(APP, Some("alice"), "alice");
    runs(APP, Some("bob"), "bob");
    assert_eq!(is_denied(APP, None), 200);
    runs(OPS, Some("bob"), "bob");
    // The token does not see hidden tools in any interface.
    let list = "GET /api/v1/tools/";
    let (_, listed) = send(PLAIN, list, Some("alice"), "");
    assert_lacks!(listed, "files_of_alice");
    assert_contains!(listed, "may not act for");
    let (_, listed) = send(HERS, list, None, "");
    assert_contains!(listed, "files_of_alice");
    assert_lacks!(listed, "of_bob");
    // Only the operator can see which users have a credential.
    for request in [
        "GET /api/v1/servers/far/credentials",
        "PUT /api/v1/servers/far/credentials/alice",
        "DELETE /api/v1/servers/far/credentials/alice",
        "GET /api/v1//servers/far/credentials",
    ] {
        let (status, response) = send(PLAIN, request, None, "{}");
        assert!(status == 403 || status == 404, "{request}: {response}");
        assert_lacks!(response, "alice");
    }
    let (status, _) = send(OPS, "GET /api/v1/servers/far/credentials", None, "");
    assert_eq!(status, 200);
}

#[test]
fn l1_a_real_server_behind_bearer_tokens() {
    let Some(peer) = Peer::new("fastmcp-bearer") else {
        return;
    };
    let daemon = with_vault();
    let server =
        json!({"name": "far", "url": peer.url, "retryAttempts": 0, "credential": "per_user"});
    add(&daemon, &server);
    give(&daemon, "alice", "let-me-in");
    give(&daemon, "mallory", "let-me-in-too");
    let sum = |user: &str| {
        let header = user_header(Some(user));
        let target = "/api/v1/tools/execute/far_add";
        let body = r#"{"a": 2, "b": 40}"#;
        daemon.post_with(target, &header, body).json()
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let response = sum("alice");
                assert_json!(response["result"]["text"], "42");
                assert_eq!(sum("mallory")["success"], false);
            });
        }
    });
    let peer = peer.kill_and_restart();
    assert_eq!(sum("alice")["result"]["text"], "42");
    assert!(tools_of(&daemon, Some("mallory")).is_empty());
    drop(peer);
}

#[test]
fn l1_servers_of_the_configuration_file_have_users_and_programs_have_none() {
    let directory = tempfile::tempdir().unwrap();
    let far = far();
    let config = |credential: &str| {
        let credential = format!("credential = \"{credential}\"");
        vault(directory.path()) + &detected_entry("far", &far.url, &credential)
    };
    let daemon = Daemon::with_config(&config("per_user"));
    give(&daemon, "alice", ALICE);
    assert_eq!(account(&daemon, Some("alice")), "alice");
    denied(&daemon, &far, Some("bob"));
    // The change is loaded like every change of the file.
    rewrite(&daemon, &config("shared"));
    assert_eq!(call(&daemon, Some("alice"), "far_echo")["success"], false);
    let program =
        "[[mcp_servers]]\nlabel = \"far\"\ncommand = \"true\"\ncredential = \"per_user\"\n";
    let error = pillion_config::Config::parse(program, "pillion.toml").unwrap_err();
    assert_contains!(error.to_string(), "mcp_servers[0].credential");
    // Without a vault key, no user has a credential.
    let daemon = Daemon::start();
    add(&daemon, &server(&far, "per_user"));
    denied(&daemon, &far, Some("alice"));
    let (status, code, error) = rejection(&daemon, "PUT", "/far/credentials/alice", &bearer(ALICE));
    assert_eq!((status, code.as_str()), (403, "denied"));
    assert_contains!(error, "vault.key_file");
}
