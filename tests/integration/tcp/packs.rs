use super::*;

const STREAM: &str = "GET /api/v1/streams/orchestrator";

/// Starts a sidecar with the tabletop pack, in which bob and then alice played an action.
fn server() -> Server {
    let server = Server::start("[tabletop]\nenabled = true\n");
    for user in ["bob", "alice"] {
        let scene = format!("of {user}");
        let action = json!({"scene_id": scene, "player_msg": "I sneak"}).to_string();
        let path = "/api/v1/tools/execute/orchestrate_action";
        let headers = format!("x-pillion-user: {user}\r\n");
        let socket = &server.daemon.socket;
        let done = socket.post_with(path, &headers, action.as_bytes());
        assert_eq!(done.status, 200);
    }
    server
}

#[test]
fn l3_a_token_of_one_user_reads_only_data_of_that_user() {
    let server = server();
    let read = |token: &str, uri: &str| {
        let (headers, body) = stateless("resources/read", json!({"uri": uri}), json!({}));
        let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n{headers}");
        let (status, _, body) = server.send("POST /mcp", &headers, &body.to_string());
        (status, body)
    };
    for uri in ["events://orchestrator", "logs://app"] {
        assert_eq!(read(READER, uri).0, 403);
        let (_, hers) = read(HERS, uri);
        assert_contains!(hers, "of alice");
        assert_lacks!(hers, "of bob");
        let (_, all) = read(RUNNER, uri);
        assert_contains!(all, "of alice", "of bob");
    }
}

#[test]
fn l3_a_token_of_one_user_receives_only_events_of_that_user() {
    let server = server();
    let scenes = |token: &str, number: usize| {
        let mut stream = server.connect();
        let head = format!(
            "{STREAM} HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             last-event-id: before-1\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let lines = BufReader::new(stream).lines().map(Result::unwrap);
        let data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        let all = data.map(|data| serde_json::from_str::<Value>(&data).unwrap());
        // The first event reports that earlier events are lost.
        let events = all.skip(1).take(number);
        events
            .map(|event| event["scene_id"].text().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(scenes(READER, 2), ["of bob", "of alice"]);
    assert_eq!(scenes(HERS, 1), ["of alice"]);
    let (status, _, body) = server.send(STREAM, "host: localhost\r\n", "");
    assert_eq!(status, 401, "{body}");
}

#[test]
fn l1_events_of_a_claimed_user_do_not_belong_to_the_user() {
    let server = server();
    for (token, scene) in [(RUNNER, "claimed"), (HERS, "again")] {
        let headers = format!(
            "host: localhost\r\nauthorization: Bearer {token}\r\nx-pillion-user: alice\r\n"
        );
        let action = json!({"scene_id": scene, "player_msg": "I sneak"}).to_string();
        let path = "POST /api/v1/tools/execute/orchestrate_action";
        assert_eq!(server.send(path, &headers, &action).0, 200);
    }
    let read = |token: &str, uri: &str| {
        let (headers, body) = stateless("resources/read", json!({"uri": uri}), json!({}));
        let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n{headers}");
        server.send("POST /mcp", &headers, &body.to_string()).2
    };
    for uri in ["events://orchestrator", "logs://app"] {
        let hers = read(HERS, uri);
        assert_contains!(hers, "again");
        assert_lacks!(hers, "claimed");
        assert_contains!(read(RUNNER, uri), "again", "claimed");
    }
}

#[test]
fn l3_a_token_without_a_tool_of_a_pack_has_no_resources_or_streams_of_the_pack() {
    let server = server();
    let ask = |token: &str, method: &str, params: Value| {
        let (headers, body) = stateless(method, params, json!({}));
        let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n{headers}");
        let (_, _, body) = server.send("POST /mcp", &headers, &body.to_string());
        // If a response is a stream, its last event contains the result.
        let last = body.lines().rev().find_map(|line| {
            Some(line.trim_start_matches("data: ")).filter(|line| line.starts_with('{'))
        });
        serde_json::from_str::<Value>(last.unwrap()).unwrap()
    };
    for (token, is_there) in [(RUNNER, true), (FEW, false)] {
        for (method, key) in [
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ] {
            let response = ask(token, method, json!({}));
            let listed = response["result"][key].items();
            assert_eq!(!listed.is_empty(), is_there, "{method} {listed:?}");
        }
        for uri in ["logs://app", "metrics://counters", "events://orchestrator"] {
            let read = ask(token, "resources/read", json!({"uri": uri}));
            assert_eq!(read["result"].is_object(), is_there, "{read}");
            assert_eq!(read["error"]["code"] == -32602, !is_there, "{read}");
        }
        let (status, _, body) = server.authorized(token, "GET /api/v1/streams", "");
        assert_eq!((status, body.contains("orchestrator")), (200, is_there));
    }
    let notifications = json!({"notifications": {"resourceSubscriptions": ["logs://app"]}});
    let rejected = ask(FEW, "subscriptions/listen", notifications);
    assert_json!(rejected["error"]["code"], -32602);
    let (status, _, body) = server.authorized(FEW, STREAM, "");
    assert_eq!(status, 404, "{body}");
}

#[test]
fn l3_stored_data_of_a_pack_needs_admin_and_one_of_its_tools() {
    let server = server();
    let say = json!({"scene_id": "cave", "author": "Bo", "message": "Hi"}).to_string();
    let appended = "POST /api/v1/tools/execute/append_transcript";
    assert_eq!(server.authorized(RUNNER, appended, &say).0, 200);
    for (token, is_there) in [(READER, true), (FEW, false), (OTHER_ADMIN, false)] {
        let (status, _, body) = server.authorized(token, "GET /api/v1/packs", "");
        assert_eq!(
            (status, body.contains("tabletop")),
            (200, is_there),
            "{body}"
        );
    }
    let list = "GET /api/v1/packs/tabletop/scenes";
    let remove = "DELETE /api/v1/packs/tabletop/scenes/cave";
    for request in [list, remove] {
        assert_eq!(server.send(request, "host: localhost\r\n", "").0, 401);
        for token in [READER, RUNNER, HERS] {
            assert_eq!(server.authorized(token, request, "").0, 403, "{request}");
        }
        assert_eq!(server.authorized(OTHER_ADMIN, request, "").0, 404);
    }
    let (status, _, body) = server.authorized(ADMIN, list, "");
    assert_eq!(status, 200);
    assert_contains!(body, "cave");
    assert_eq!(server.authorized(ADMIN, remove, "").0, 200);
    assert_eq!(server.authorized(ADMIN, remove, "").0, 404);
}
