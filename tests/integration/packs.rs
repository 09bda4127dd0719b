//! The tabletop pack in every interface: tools, resources and their updates, event streams,
//! counters (requirements D8 to D11, K1, K2, M1, N2).

#![expect(
    clippy::needless_pass_by_value,
    reason = "parameters are written where they are used"
)]

use crate::chat;
use crate::event_stream::EventStream;
use crate::prelude::*;
use crate::routes::mcp::Stream;

const ENABLED: &str = "[tabletop]\nenabled = true\n";

fn enabled() -> Daemon {
    Daemon::with_config(ENABLED)
}

/// Makes a call over REST that has to succeed. Returns its data.
fn execute(daemon: &Daemon, tool: &str, arguments: Value) -> Value {
    let response = daemon.execute(tool, &arguments);
    assert_json!(response["result"]["success"], true);
    response["result"]["data"].clone()
}

fn say(daemon: &Daemon, scene: &str, message: &str) -> Value {
    let message = json!({"scene_id": scene, "author": "Aria", "message": message});
    execute(daemon, "append_transcript", message)
}

/// Returns the content of a resource, read without a session.
fn read(daemon: &Daemon, uri: &str) -> Value {
    let response = ask(&daemon.socket, "resources/read", json!({"uri": uri}));
    let contents = &response["result"]["contents"][0];
    assert_eq!(contents["uri"], uri, "{response}");
    assert_eq!(contents["mimeType"], "application/json");
    serde_json::from_str(contents["text"].text()).unwrap()
}

#[test]
fn n2_the_pack_is_off_by_default() {
    let daemon = Daemon::start();
    let missing = daemon.get("/api/v1/tools/orchestrate_action");
    assert_eq!(missing.status, 404);
    let streams = daemon.get("/api/v1/streams").json();
    assert_eq!(streams, json!({"success": true, "streams": []}));
    assert_eq!(daemon.get("/api/v1/streams/app").status, 404);
    let resources = ask(&daemon.socket, "resources/list", json!({}));
    assert_eq!(resources["result"]["resources"], json!([]));
    let read = json!({"uri": "metrics://counters"});
    let rejected = ask(&daemon.socket, "resources/read", read);
    assert_json!(rejected["error"]["code"], -32602);
}

#[test]
fn d8_d9_d10_d11_the_tools_answer_over_rest_and_mcp() {
    let daemon = enabled();
    let check = json!({"check": {"ability": "DEX", "score": 16, "proficient": true, "dc": 15},
        "d20_rolls": [12]});
    let result = json!({"total": 17, "d20": [12], "pick": 12, "mod": 5, "success": true});
    assert_eq!(execute(&daemon, "compute_check", check.clone()), result);
    execute(&daemon, "save_character", json!({"name": "Aria"}));
    assert_eq!(say(&daemon, "cave", "Hello")["message_id"], "1");

    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let call = |tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        let in_session = session.ask("tools/call", params.clone());
        let alone = ask(&daemon.socket, "tools/call", params);
        let structured = in_session["result"]["structuredContent"].clone();
        let single = &alone["result"]["structuredContent"];
        assert_eq!(single["ok"], structured["ok"], "{alone}");
        structured
    };
    let envelope = json!({"ok": true, "data": result});
    assert_eq!(call("compute_check", check), envelope);
    let characters = json!({"ok": true, "data": {"characters": ["Aria"]}});
    assert_eq!(call("list_characters", json!({})), characters);
    let unknown = call("compute_check", json!({"ability": "LCK", "score": 10}));
    let message = "'ability' must be STR, DEX, CON, INT, WIS or CHA";
    let error = json!({"code": "invalid_input", "message": message});
    assert_eq!(unknown, json!({"ok": false, "error": error}));
    let action = json!({"scene_id": "cave", "player_msg": "I sneak"});
    let rejected = call("orchestrate_action", action);
    let gates = json!({"accepted": false, "reasons": ["llm_unconfigured"]});
    assert_json!(rejected["data"]["gates"], gates);
    let line = json!({"scene_id": "cave", "author": "Bo", "message": "Hi", "ooc": true});
    assert_eq!(call("append_transcript", line)["data"]["ok"], true);
}

#[test]
fn k1_resources_are_listed_and_read_in_both_protocol_eras_and_survive_restarts() {
    let mut daemon = enabled();
    for number in 1..=20 {
        say(&daemon, "cave", &format!("line {number}"));
    }
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let listed = ask(&daemon.socket, "resources/list", json!({}));
    let again = session.ask("resources/list", json!({}));
    let resources = &listed["result"]["resources"];
    assert_eq!(again["result"]["resources"], *resources);
    let expected = [
        "metrics://counters",
        "transcript://scene/cave",
        "scene://cave",
        "events://orchestrator",
        "logs://app",
    ];
    assert_eq!(resources.texts("uri"), expected);
    let latest = resources[1]["description"].text();
    assert_ends_with!(latest, ": Aria: line 20");
    let listed = ask(&daemon.socket, "resources/templates/list", json!({}));
    let templates = listed["result"]["resourceTemplates"].items();
    let template = &templates[0]["uriTemplate"];
    assert_eq!(template, "transcript://scene/{id}{?limit}");

    let uri = "transcript://scene/cave";
    let transcript = read(&daemon, uri);
    let messages = transcript["messages"].items();
    assert_eq!(messages.len(), 15);
    assert_eq!(messages[0]["message"], "line 6");
    assert_eq!(messages[14]["author"], "Aria");
    let in_session = session.ask("resources/read", json!({"uri": uri}));
    let text = in_session["result"]["contents"][0]["text"].text();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), transcript);
    assert_eq!(read(&daemon, "scene://cave")["messages"], 20);
    let nowhere = json!({"uri": "transcript://scene/nowhere"});
    let rejected = session.ask("resources/read", nowhere.clone());
    assert_json!(rejected["error"]["code"], -32002);
    let rejected = ask(&daemon.socket, "resources/read", nowhere);
    assert_json!(rejected["error"]["code"], -32602);
    let complete = json!({"ref": {"type": "ref/resource", "uri": "scene://{id}"},
        "argument": {"name": "id", "value": "c"}});
    let completed = session.ask("completion/complete", complete);
    assert_eq!(completed["result"]["completion"]["values"], json!([]));

    let daemon = daemon.restart();
    assert_eq!(read(&daemon, uri), transcript);
}

#[test]
fn k1_updates_are_sent_in_both_protocol_eras() {
    let daemon = enabled();
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let mut pushed = session.listen();
    let (cave, counters) = ("transcript://scene/cave", "metrics://counters?prefix=orch");
    for uri in [cave, counters] {
        let subscribed = session.ask("resources/subscribe", json!({"uri": uri}));
        assert_json!(subscribed["result"], json!({}));
    }
    let notifications = json!({"notifications": {
        "resourceSubscriptions": [cave, "events://orchestrator"], "resourcesListChanged": true,
    }});
    let mut received = Stream::subscribe(&daemon.socket, notifications.clone());
    let first = received.next().unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    say(&daemon, "hall", "No one watches this scene");
    say(&daemon, "cave", "Hello");
    let wait_for = |stream: &mut Stream, method: &str, uri: Option<&str>| {
        let method = format!("notifications/resources/{method}");
        loop {
            let notice = stream.next().unwrap();
            let reported = notice["params"]["uri"].as_str();
            assert_ne!(reported, Some("transcript://scene/hall"), "{notice}");
            if notice["method"] == method && reported == uri {
                return notice;
            }
        }
    };
    // The list has two more scenes, in any order.
    wait_for(&mut received, "list_changed", None);
    let mut other = Stream::subscribe(&daemon.socket, notifications);
    assert!(other.next().is_some());
    say(&daemon, "cave", "Again");
    let notice = wait_for(&mut other, "updated", Some(cave));
    let id = &notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*id, 7);
    wait_for(&mut received, "updated", Some(cave));
    let notice = wait_for(&mut pushed, "updated", Some(cave));
    assert_eq!(notice["params"], json!({"uri": cave}));
    let action = json!({"scene_id": "cave", "player_msg": "I sneak"});
    execute(&daemon, "orchestrate_action", action);
    wait_for(&mut pushed, "updated", Some(counters));
    wait_for(&mut received, "updated", Some("events://orchestrator"));
    let unsubscribed = session.ask("resources/unsubscribe", json!({"uri": cave}));
    assert_eq!(unsubscribed["result"], json!({}));
}

#[test]
fn k2_streams_resume_and_end_with_the_sidecar() {
    let mut daemon = enabled();
    let streams = daemon.get("/api/v1/streams").json();
    let named = |position: usize| {
        let stream = &streams["streams"][position];
        (stream["name"].clone(), stream["uri"].clone())
    };
    let orchestrator = (json!("orchestrator"), json!("events://orchestrator"));
    assert_eq!(named(0), orchestrator);
    assert_eq!(named(1), (json!("app"), json!("logs://app")));
    let open = |last_id: Option<&str>| {
        let header = |id| format!("last-event-id: {id}\r\n");
        let headers = last_id.map_or_else(String::new, header);
        EventStream::open(&daemon.socket, "/api/v1/streams/orchestrator", &headers)
    };
    let mut events = open(None);
    let ready = events.expect("ready");
    let act = |message: &str| {
        let action = json!({"scene_id": "cave", "player_msg": message});
        execute(&daemon, "orchestrate_action", action);
    };
    act("one");
    act("two");
    let first = events.expect("defense.rejected");
    assert_eq!(first.data["scene_id"], "cave");
    assert_eq!(first.data["type"], first.kind);
    assert_eq!(first.data["extra"], json!({"reason": "llm_unconfigured"}));
    assert_eq!(open(Some(&ready.id)).next().unwrap().id, first.id);
    assert_eq!(open(Some(&first.id)).next(), events.next());
    let mut lost = open(Some("other-1"));
    lost.expect("reset");
    assert_eq!(lost.next().unwrap().id, first.id);
    let shown = read(&daemon, "events://orchestrator");
    assert_eq!(shown["events"].items().len(), 2);
    let logged = read(&daemon, "logs://app");
    let line = &logged["events"][0];
    assert_eq!(line["level"], "info");
    assert_eq!(line["tool_name"], "orchestrate_action");
    assert_eq!(line["scene_id"], "cave");
    assert!(line["call_id"].is_string(), "{line}");

    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(events.next(), None);
    assert!(daemon.wait().success());
}

#[test]
fn m1_the_counters_of_the_pack_are_in_the_metrics() {
    let daemon = enabled();
    let action = json!({"scene_id": "cave", "player_msg": "I sneak"});
    execute(&daemon, "orchestrate_action", action);
    let counters = read(&daemon, "metrics://counters?prefix=llm.");
    let names: Vec<_> = counters.as_object().unwrap().keys().collect();
    let expected = [
        "llm.defense.rejected",
        "llm.parse.failed",
        "llm.request.enqueued",
        "llm.response.received",
    ];
    assert_eq!(names, expected);
    let metrics = daemon.get("/metrics").body;
    let metrics = String::from_utf8(metrics).unwrap();
    for line in [
        "pillion_tabletop_llm_request_enqueued_total 0",
        "pillion_tabletop_orchestrator_format_sent_total 0",
        "pillion_tabletop_orchestrator_action_rejected_total 1",
    ] {
        let is_shown = metrics.lines().any(|found| found == line);
        assert!(is_shown, "{line}\n{metrics}");
    }
    eventually("the line is in the log", || {
        let log = daemon.log();
        let mut lines = log.lines();
        let line = lines.find(|line| line.contains("An action was rejected"));
        line.is_some_and(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let spans = line["spans"].to_string();
            line["scene_id"] == "cave"
                && line["tool_name"] == "orchestrate_action"
                && spans.contains("request_id")
        })
    });
}

/// Returns the response of a model that narrates a leap.
fn leap() -> String {
    let response = json!({
        "proposal": {"action": "ability_check", "ability": "DEX", "suggested_dc": 12, "reason": "a leap"},
        "narration": "You leap over the gap.",
    });
    response.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d9_an_action_is_narrated_by_the_configured_model() {
    let text = format!("Here:\n```json\n{}\n```", leap());
    let llm = FakeLlm::start([LlmResponse::text(&text)]).await;
    let more = format!("{ENABLED}model = \"demo\"\n[features]\nllm = true\n");
    let daemon = Daemon::with_config(&chat::config(&llm, &more));
    let action = || json!({"scene_id": "s1", "player_msg": "I leap", "rng_seed": 7});
    let data = execute(&daemon, "orchestrate_action", action());
    assert_json!(data["gates"]["accepted"], true);
    assert_json!(data["narration"], "You leap over the gap.");
    // A repeated action within 30 seconds makes no request.
    execute(&daemon, "orchestrate_action", action());
    assert_eq!(llm.bodies().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n2_reloads_add_and_remove_the_pack_and_its_model() {
    let llm = FakeLlm::start([LlmResponse::text(&leap())]).await;
    let daemon = Daemon::with_config("");
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let mut pushed = session.listen();
    let models = chat::config(&llm, "");
    let action = |message: &str| json!({"scene_id": "s1", "player_msg": message});

    reload(&daemon, &format!("{ENABLED}{models}"));
    let rejected = execute(&daemon, "orchestrate_action", action("I leap"));
    assert_eq!(rejected["gates"]["reasons"], json!(["llm_unconfigured"]));
    let mut reported: Vec<Value> = Vec::new();
    while reported.len() < 2 {
        let method = pushed.next().unwrap()["method"].clone();
        if !reported.contains(&method) {
            reported.push(method);
        }
    }
    assert!(reported.contains(&json!("notifications/resources/list_changed")));
    say(&daemon, "cave", "Hello");
    // A session that was opened before the pack was enabled sees the pack's resources.
    while pushed.next().unwrap()["method"] != "notifications/resources/list_changed" {}

    let with_model = format!("{ENABLED}model = \"demo\"\n[features]\nllm = true\n{models}");
    reload(&daemon, &with_model);
    let accepted = execute(&daemon, "orchestrate_action", action("I leap far"));
    assert_json!(accepted["gates"]["accepted"], true);
    let counters = read(&daemon, "metrics://counters?prefix=orchestrator.action.");
    assert_eq!(counters["orchestrator.action.rejected"], 1);
    assert_eq!(counters["orchestrator.action.accepted"], 1);

    reload(&daemon, "# No settings.\n");
    let gone = daemon.get("/api/v1/tools/orchestrate_action");
    assert_eq!(gone.status, 404);
    assert_eq!(daemon.get("/api/v1/streams/app").status, 404);
    assert_lacks!(daemon.log(), "restart the sidecar to apply the change");
    reload(&daemon, ENABLED);
    assert_eq!(read(&daemon, "scene://cave")["messages"], 1);
}

/// Returns the output of `pillion packs`.
fn packs(daemon: &Daemon, arguments: &[&str]) -> std::process::Output {
    daemon.run(&[&["packs"], arguments].concat())
}

#[test]
fn d10_d11_an_operator_lists_and_removes_stored_data_over_rest() {
    let mut daemon = Daemon::with_config(&format!("{ENABLED}max_scenes = 3\n"));
    execute(&daemon, "save_character", json!({"name": "Aria"}));
    let odd = "H\u{f6}hle 7/b?%41";
    for scene in ["cave", "hall", odd, "cave"] {
        say(&daemon, scene, "Hello");
    }
    let listed = daemon.get("/api/v1/packs").json();
    let pack = &listed["packs"][0];
    assert_eq!(pack["name"], "tabletop", "{listed}");
    assert_eq!(pack["tools"].items().len(), 5);
    assert_eq!(pack["resources"][1], "scene://{id}");
    assert_eq!(pack["streams"], json!(["orchestrator", "app"]));
    let stored = json!([
        {"kind": "scenes", "count": 3, "max": 3},
        {"kind": "characters", "count": 1, "max": 500},
    ]);
    assert_eq!(pack["stored_items"], stored);

    let scenes = "/api/v1/packs/tabletop/scenes";
    let page = daemon.get(&format!("{scenes}?limit=2")).json();
    assert_json!(page["items"][0]["name"], odd);
    assert_eq!(page["items"][1]["name"], "cave");
    assert_eq!(page["items"][1]["details"]["messages"], 2);
    let state = read(&daemon, "scene://cave");
    let reported = &page["items"][1]["details"]["last_message_at"];
    assert_eq!(*reported, state["last_message_at"]);
    assert_eq!(page["next"], "cave");
    let last = daemon.get(&format!("{scenes}?limit=2&after=cave")).json();
    assert_json!(last["items"][0]["name"], "hall");
    assert_eq!(last.get("next"), None);
    let whole = daemon.get(&format!("{scenes}?limit=3")).json();
    assert_eq!(whole.get("next"), None, "{whole}");

    let remove = |path: &str| daemon.send("DELETE", path, "", b"");
    let uri = "H%C3%B6hle%207%2Fb%3F%2541";
    let removed = remove(&format!("{scenes}/{uri}"));
    let response = json!({"success": true, "removed": odd});
    assert_eq!(removed.expect(200), response);
    for gone in [
        &format!("{scenes}/{uri}"),
        "/api/v1/packs/tabletop/characters/cave",
        "/api/v1/packs/tabletop/dragons/cave",
        "/api/v1/packs/other/scenes/cave",
        "/api/v1/packs/tabletop/scenes/%ff",
    ] {
        let rejected = remove(gone);
        assert_eq!(rejected.status, 404, "{gone}");
        assert_eq!(rejected.json()["error_code"], "not_found", "{gone}");
    }
    assert_eq!(remove(scenes).status, 405);
    for nowhere in ["tabletop/dragons", "other/scenes"] {
        let path = format!("/api/v1/packs/{nowhere}");
        assert_eq!(daemon.get(&path).status, 404);
    }
    let bad = daemon.get(&format!("{scenes}?limit=0"));
    assert_eq!(bad.status, 400);
    let params = json!({"uri": format!("transcript://scene/{uri}")});
    let unread = ask(&daemon.socket, "resources/read", params);
    assert_json!(unread["error"]["code"], -32602);
    // The removal frees space, and removed entries stay removed.
    say(&daemon, "attic", "Hello");
    let daemon = daemon.restart();
    let page = daemon.get(scenes).json();
    assert_eq!(page["items"].texts("name"), ["attic", "cave", "hall"]);
}

#[test]
fn d10_d11_an_operator_lists_and_removes_stored_data_on_the_command_line() {
    let daemon = Daemon::with_config(&format!("{ENABLED}max_scenes = 2\n"));
    let character = json!({"name": "Aria Stone", "description": "A thief"});
    execute(&daemon, "save_character", character);
    for scene in ["cave", "H\u{f6}hle 7/b"] {
        say(&daemon, scene, "Hello");
    }
    let one_more = json!({"scene_id": "attic", "author": "Aria", "message": "Hello"});
    let path = "/api/v1/tools/execute/append_transcript";
    let rejected = daemon.post(path, one_more.to_string()).json();
    assert_json!(rejected["result"]["success"], false);

    let list = stdout(&packs(&daemon, &["list"]));
    assert_contains!(list, "scenes 2/2, characters 1/500");
    let json = stdout_json(&packs(&daemon, &["list", "--json"]));
    assert_eq!(json["packs"][0]["stored_items"][0]["count"], 2);
    let page = packs(&daemon, &["show", "tabletop", "scenes", "--limit", "1"]);
    let row = "H\u{f6}hle 7/b  messages=1  last_message_at=2";
    assert_contains!(stdout(&page), row);
    assert_contains!(stderr(&page), "--after 'H\u{f6}hle 7/b'");
    let after = ["show", "tabletop", "scenes", "--after", "H\u{f6}hle 7/b"];
    let page = packs(&daemon, &after);
    assert_contains!(stdout(&page), "cave");
    assert_eq!(stderr(&page), "");
    let characters = stdout(&packs(&daemon, &["show", "tabletop", "characters"]));
    assert_contains!(characters, "Aria Stone  description=A thief");

    let scene = ["remove", "tabletop", "scenes", "H\u{f6}hle 7/b"];
    let removed = packs(&daemon, &scene);
    let expected = "H\u{f6}hle 7/b: removed from tabletop scenes";
    assert_eq!(stdout(&removed).trim(), expected);
    let error = failure(&packs(&daemon, &scene), 1);
    assert_contains!(error, "stores no entry 'H\u{f6}hle 7/b'");
    let character = ["remove", "tabletop", "characters", "Aria Stone", "--json"];
    let removed = stdout_json(&packs(&daemon, &character));
    assert_eq!(removed, json!({"success": true, "removed": "Aria Stone"}));
    say(&daemon, "attic", "There is room");
    eventually("who removed what is in the log", || {
        let log = daemon.log();
        let mut lines = log.lines();
        lines.any(|line| {
            line.contains("Removed a stored entry of a pack")
                && line.contains("\"client\":\"uid:")
                && line.contains("Aria Stone")
        })
    });
}

#[test]
fn k1_subscribers_are_notified_of_a_removed_scene_in_both_protocol_eras() {
    let daemon = enabled();
    let cave = "transcript://scene/cave";
    say(&daemon, "cave", "Hello");
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let mut pushed = session.listen();
    session.ask("resources/subscribe", json!({"uri": cave}));
    let notifications = json!({"notifications": {
        "resourceSubscriptions": [cave], "resourcesListChanged": true,
    }});
    let mut received = Stream::subscribe(&daemon.socket, notifications);
    assert!(received.next().is_some());
    success(&packs(&daemon, &["remove", "tabletop", "scenes", "cave"]));
    for stream in [&mut received, &mut pushed] {
        let (mut is_updated, mut is_list_changed) = (false, false);
        while !(is_updated && is_list_changed) {
            let notice = stream.next().unwrap();
            is_updated |= notice["method"] == "notifications/resources/updated"
                && notice["params"]["uri"] == cave;
            is_list_changed |= notice["method"] == "notifications/resources/list_changed";
        }
    }
    let list = ask(&daemon.socket, "resources/list", json!({})).to_string();
    assert_lacks!(list, cave);
}

#[test]
fn n2_without_a_pack_there_is_no_stored_data_of_packs() {
    let daemon = Daemon::start();
    let listed = daemon.get("/api/v1/packs/").json();
    assert_eq!(listed, json!({"success": true, "packs": []}));
    let error = failure(&packs(&daemon, &["show", "tabletop", "scenes"]), 1);
    assert_contains!(error, "not_found");
}
