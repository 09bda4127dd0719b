//! Uses the pack as a program does: through the executor, its resources and its streams.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and what it calls may do so too"
)]

mod table;

use std::sync::Arc;
use std::time::Duration;

use pillion_chat::{ModelError, ModelErrorKind};
use pillion_core::pack::{ResourceChange, StoredItems, StreamMessage};
use pillion_core::store::PackStore;
use pillion_core::tool::ErrorCode;
use pillion_tabletop::TabletopOptions;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use table::{Gated, Scripted, Table, proposal};

/// Returns a model response that passes the gates, with this narration.
fn narration(narration: &str) -> Result<String, ModelError> {
    Ok(proposal(12, "DEX", "r", narration))
}

/// Returns the arguments of `orchestrate_action` with this message, always in the same scene.
fn action(message: &str) -> Value {
    json!({"scene_id": "cave", "player_msg": message})
}

/// Returns the arguments of an action whose narration is added to the transcript.
fn public_action() -> Value {
    let mut action = action("go");
    action["rng_seed"] = json!(1);
    action["options"] = json!({"visibility": "public"});
    action
}

#[tokio::test]
async fn d8_compute_check_takes_a_check_or_its_members() {
    let table = Table::without_model().await;
    let check = json!({"ability": "dex", "score": 16, "proficient": true, "dc": 15});
    let result = json!({"total": 17, "d20": [12], "pick": 12, "mod": 5, "success": true});
    let nested = json!({"check": check, "d20_rolls": [12]});
    assert_eq!(table.data("compute_check", nested).await, result);
    let mut flat = check.clone();
    flat["d20_rolls"] = json!([12]);
    assert_eq!(table.data("compute_check", flat).await, result);
    let arguments = json!({"check": check, "d20_rolls": [12]});
    let called = table.call("compute_check", arguments).await;
    assert_eq!(
        called.to_message(),
        "Check: DEX vs DC 15\nd20: 12 | mod: +5 | total: 17 -> SUCCESS"
    );
}

#[tokio::test]
async fn d8_compute_check_throws_once_or_twice_and_equal_seeds_throw_equally() {
    let table = Table::without_model().await;
    let throw = async |more: Value| {
        let mut check = json!({"ability": "WIS", "score": 10});
        let members = more.as_object().unwrap().clone();
        check.as_object_mut().unwrap().extend(members);
        let arguments = json!({"check": check, "seed": 42});
        table.data("compute_check", arguments).await
    };
    assert_eq!(throw(json!({})).await["d20"], json!([12]));
    for twice in [json!({"advantage": true}), json!({"disadvantage": true})] {
        assert_eq!(throw(twice).await["d20"], json!([12, 10]));
    }
    assert_eq!(throw(json!({"advantage": true})).await["pick"], 12);
    assert_eq!(throw(json!({"disadvantage": true})).await["pick"], 10);
    assert_eq!(throw(json!({})).await["success"], Value::Null);
    let unknown = json!({"check": {"ability": "LCK", "score": 10}});
    let failed = table.call("compute_check", unknown).await;
    let message = "'ability' must be STR, DEX, CON, INT, WIS or CHA";
    assert_eq!(failed.error.as_deref(), Some(message));
    assert_eq!(failed.error_code, Some(ErrorCode::InvalidInput));
}

#[tokio::test]
async fn d9_an_accepted_action_is_narrated_and_rolled() {
    let model = Scripted::new([Ok(proposal(12, "DEX", "It is dark", "You slip by."))]);
    let table = Table::with(&model).await;
    let action = json!({"scene_id": "cave", "player_msg": " I sneak ", "rng_seed": 3,
        "allowed_actors": ["Player", "GM"]});
    let called = table.call("orchestrate_action", action.clone()).await;
    let data = called.data.clone().unwrap();
    assert_eq!(data["narration"], "You slip by.");
    assert_eq!(data["gates"], json!({"accepted": true}));
    assert_eq!(data["metrics"]["tokens_in"], 100);
    assert_eq!(data["metrics"]["tokens_out"], 20);
    assert!(data["metrics"]["latency_ms"].is_u64(), "{data}");
    let artifacts = &data["artifacts"];
    let proposed = json!({"action": "ability_check", "ability": "DEX", "suggested_dc": 12,
        "reason": "It is dark"});
    assert_eq!(artifacts["proposal"], proposed);
    let eval = &artifacts["rule_eval"];
    let (total, thrown) = (&eval["total"], &eval["d20"][0]);
    assert_eq!((total, &eval["mod"]), (thrown, &json!(0)));
    let fate = if total.as_i64() >= Some(12) {
        "SUCCESS"
    } else {
        "FAIL"
    };
    let mechanics =
        format!("Check: DEX vs DC 12\nd20: {thrown} | mod: +0 | total: {total} -> {fate}");
    assert_eq!(eval["mechanics"], mechanics);
    assert_eq!(called.to_message(), format!("{mechanics}\n\nYou slip by."));
    let again = Scripted::new([Ok(proposal(12, "DEX", "It is dark", "You slip by."))]);
    let elsewhere = Table::with(&again).await;
    let same = elsewhere.data("orchestrate_action", action).await;
    assert_eq!(same["artifacts"], *artifacts, "equal seeds");
}

#[tokio::test]
async fn d9_each_gate_gives_its_reason() {
    let (invalid, range) = ("llm_invalid_or_empty", "DC out of acceptable range");
    let other_action = proposal(12, "DEX", "r", "n").replace("ability_check", "attack");
    let unknown_actor = proposal(12, "DEX", "r", "Bob hands Alice a potion.");
    let cases = [
        (proposal(5, "DEX", "r", "n"), None),
        (proposal(30, "DEX", "r", "n"), None),
        (proposal(31, "DEX", "r", "n"), Some(range)),
        (proposal(40, "DEX", "r", "n"), Some(range)),
        (proposal(45, "DEX", "r", "n"), Some(invalid)),
        (String::new(), Some(invalid)),
        ("I will not".to_owned(), Some(invalid)),
        (proposal(12, "LCK", "r", "n"), Some("Unknown ability")),
        (proposal(12, "DEX", "  ", "n"), Some("Missing reason")),
        (
            proposal(12, "DEX", "change HP by 5", "n"),
            Some("unsafe_verb"),
        ),
        (unknown_actor, Some("unknown_actor")),
        (other_action, Some("Unsupported action")),
    ];
    let model = Scripted::new(cases.iter().map(|(text, _)| Ok(text.clone())));
    let table = Table::with(&model).await;
    for (number, (text, reason)) in cases.iter().enumerate() {
        let action = json!({"scene_id": "s", "player_msg": number.to_string(),
            "allowed_actors": ["Player", "GM"]});
        let data = table.data("orchestrate_action", action).await;
        let gates = match reason {
            None => json!({"accepted": true}),
            Some(reason) => json!({"accepted": false, "reasons": [reason]}),
        };
        assert_eq!(data["gates"], gates, "{text}");
        if reason.is_some() {
            assert_eq!(data["narration"], "", "{text}");
            assert_eq!(data.get("artifacts"), None, "{text}");
        }
    }
    let counts = table.read("metrics://counters").await;
    let expected = json!({
        "llm.request.enqueued": 12, "llm.response.received": 12, "llm.parse.failed": 3,
        "llm.defense.rejected": 7, "orchestrator.format.sent": 2,
        "orchestrator.action.accepted": 2, "orchestrator.action.rejected": 10,
        "orchestrator.action.duplicate": 0,
    });
    for (name, count) in expected.as_object().unwrap() {
        assert_eq!(counts[name], *count, "{name} {counts}");
    }
}

#[tokio::test]
async fn d9_a_repeated_action_makes_one_request_to_the_model() {
    let model = Scripted::new([
        Ok(proposal(45, "DEX", "r", "n")),
        narration("The first"),
        narration("Elsewhere"),
    ]);
    let table = Table::with(&model).await;
    let narrate = async |scene: &str, message: &str, seed: u64| {
        let action = json!({"scene_id": scene, "player_msg": message, "rng_seed": seed});
        table.data("orchestrate_action", action).await
    };
    let rejected = narrate("cave", "go", 1).await;
    assert_eq!(rejected["gates"]["accepted"], false);
    let first = narrate("cave", "go", 1).await;
    assert_eq!(first["narration"], "The first");
    assert_eq!(narrate("cave", "go ", 2).await, first, "whatever the seed");
    assert_eq!(model.turns(), 2);
    assert_eq!(narrate("hall", "go", 1).await["narration"], "Elsewhere");
    let counts = table
        .read("metrics://counters?prefix=orchestrator.action.d")
        .await;
    assert_eq!(counts, json!({"orchestrator.action.duplicate": 1}));
}

#[tokio::test]
async fn d9_two_equal_concurrent_actions_make_one_request_to_the_model() {
    let model = Scripted::waiting([narration("Once")]);
    let table = Table::with(&model).await;
    let (first, second, ()) = tokio::join!(
        table.data("orchestrate_action", action("go")),
        table.data("orchestrate_action", action("go")),
        async {
            model.requested().await;
            model.respond_now();
        }
    );
    assert_eq!(first, second);
    assert_eq!(first["narration"], "Once");
    assert_eq!(model.turns(), 1);
}

#[tokio::test]
async fn d9_without_a_model_no_action_is_accepted() {
    let table = Table::without_model().await;
    let called = table.call("orchestrate_action", action("go")).await;
    assert!(called.success, "{called:?}");
    let gates = json!({"accepted": false, "reasons": ["llm_unconfigured"]});
    assert_eq!(called.data.unwrap()["gates"], gates);
    let text = called.result.to_string();
    let settings = "set features.llm and tabletop.model";
    assert!(text.contains(settings), "{text}");
}

#[tokio::test]
async fn d9_a_model_that_fails_is_a_failure_of_its_kind() {
    let error = |kind| ModelError::new(kind, "the provider said no");
    let limited = ModelError {
        retry_after: Some(Duration::from_millis(1_500)),
        ..error(ModelErrorKind::RateLimited)
    };
    let model = Scripted::new([Err(limited), Err(error(ModelErrorKind::Timeout))]);
    let table = Table::with(&model).await;
    let limited = table.call("orchestrate_action", action("go")).await;
    assert_eq!(limited.error_code, Some(ErrorCode::RateLimited));
    assert_eq!(limited.metadata["retry_after"], 2);
    let late = table.call("orchestrate_action", action("go")).await;
    assert_eq!(late.error_code, Some(ErrorCode::Timeout));
    let options = TabletopOptions {
        model_timeout: Duration::from_millis(20),
        ..TabletopOptions::default()
    };
    let silent = Scripted::waiting([]);
    let silent_table = Table::new(Some(Arc::clone(&silent)), options).await;
    let failed = silent_table.call("orchestrate_action", action("go")).await;
    let message = failed.error.as_deref();
    assert_eq!(
        message,
        Some("The language model did not respond within 0.02s")
    );
    assert_eq!(failed.error_code, Some(ErrorCode::Timeout));
}

#[tokio::test]
async fn d9_the_model_receives_the_last_15_messages_without_system_messages() {
    let model = Scripted::new([narration("n")]);
    let table = Table::with(&model).await;
    for number in 10..28 {
        let author = if number == 20 { "system" } else { "Aria" };
        table.say("cave", author, &format!("line {number}")).await;
    }
    let mut look = action("I look");
    look["allowed_actors"] = json!(["Aria"]);
    table.data("orchestrate_action", look).await;
    let prompt = model.prompt(0);
    for (text, is_in_prompt) in [
        ("line 12", false),
        ("Aria: line 13\\nAria: line 14", true),
        ("line 20", false),
        ("line 27", true),
        ("Name only these characters: Aria.", true),
        ("The player says:\\nI look", true),
    ] {
        assert_eq!(prompt.contains(text), is_in_prompt, "{text}: {prompt}");
    }
}

#[tokio::test]
async fn n2_an_action_is_public_only_where_the_operator_allows_it() {
    let mut public = public_action();
    public["options"]["prompt_token_cap"] = json!(5_000);
    for may_be_public in [false, true] {
        let model = Scripted::new([narration("You slip by.")]);
        let options = TabletopOptions {
            may_be_public,
            ..TabletopOptions::default()
        };
        let table = Table::new(Some(Arc::clone(&model)), options).await;
        table.say("cave", "Aria", "I am here").await;
        for arguments in [&action("go"), &public, &public] {
            table.data("orchestrate_action", arguments.clone()).await;
        }
        let messages = table.transcript("transcript://scene/cave").await;
        assert_eq!(messages.len(), if may_be_public { 2 } else { 1 });
        if may_be_public {
            assert_eq!(messages[1]["author"], "narrator");
            let text = messages[1]["message"].as_str().unwrap();
            assert!(text.starts_with("Check: DEX vs DC 12\n"), "{text}");
            assert!(text.ends_with("\n\nYou slip by."), "{text}");
        }
    }
}

#[tokio::test]
async fn d9_bad_arguments_never_reach_the_model() {
    let model = Scripted::new([]);
    let table = Table::with(&model).await;
    for (pointer, value) in [
        ("/player_msg", Value::Null),
        ("/player_msg", json!("  ")),
        ("/player_msg", json!("x".repeat(4_001))),
        ("/scene_id", json!("")),
        ("/scene_id", json!("x".repeat(101))),
        ("/scene_id", json!("a\nb")),
        ("/allowed_actors", json!(vec!["A"; 201])),
        ("/options/prompt_token_cap", json!(0)),
        ("/options/visibility", json!("secret")),
    ] {
        let mut bad = action("go");
        bad["allowed_actors"] = json!([]);
        bad["options"] = json!({"prompt_token_cap": 9, "visibility": "shadow"});
        *bad.pointer_mut(pointer).unwrap() = value;
        // A null argument counts as absent.
        bad.as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        let failed = table.call("orchestrate_action", bad.clone()).await;
        assert_eq!(failed.error_code, Some(ErrorCode::InvalidInput), "{bad}");
        let error = failed.error.unwrap_or_default();
        let name = pointer.rsplit('/').next().unwrap();
        assert!(error.contains(name), "{bad}: {error}");
    }
    assert_eq!(model.turns(), 0);
}

#[tokio::test]
async fn d10_saved_characters_are_listed() {
    let table = Table::without_model().await;
    let none = table.data("list_characters", json!({})).await;
    assert_eq!(none, json!({"characters": []}));
    for (name, description, is_new) in [
        ("Bo", "A bard", true),
        ("Aria Stone", "", true),
        ("Bo", "A bold bard", false),
    ] {
        let character = json!({"name": name, "description": description});
        let saved = table.data("save_character", character).await;
        assert_eq!(saved, json!({"name": name, "is_new": is_new}));
    }
    let all = table.data("list_characters", json!({})).await;
    assert_eq!(all, json!({"characters": ["Aria Stone", "Bo"]}));
    let long = json!({"name": "x".repeat(65)});
    let failed = table.call("save_character", long).await;
    assert_eq!(failed.error_code, Some(ErrorCode::InvalidInput));
}

#[tokio::test]
async fn d11_a_message_is_appended_with_an_id_and_a_time() {
    let table = Table::without_model().await;
    let message =
        json!({"scene_id": "cave", "author": "x".repeat(64), "message": "Hello", "ooc": true});
    let appended = table.data("append_transcript", message.clone()).await;
    assert_eq!(appended["ok"], true);
    assert_eq!(appended["message_id"], "1");
    let at = appended["timestamp"].as_str().unwrap();
    assert!(at.ends_with('Z') && at.contains('T'), "{at}");
    assert_eq!(table.say("cave", "Bo", "Hi").await["message_id"], "2");
    assert_eq!(table.say("hall", "Bo", "Hi").await["message_id"], "1");
    let messages = table.transcript("transcript://scene/cave").await;
    let first = json!({"message_id": "1", "author": "x".repeat(64), "message": "Hello", "ooc": true,
        "timestamp": at});
    assert_eq!(messages[0], first);
    for (name, bad) in [
        ("author", json!("x".repeat(65))),
        ("author", json!(" ")),
        ("author", json!("a\u{0}b")),
        ("message", json!("x".repeat(8_001))),
        ("message", json!("")),
        ("scene_id", json!("x".repeat(101))),
    ] {
        let mut bad_message = message.clone();
        bad_message[name] = bad;
        let failed = table.call("append_transcript", bad_message).await;
        assert_eq!(failed.error_code, Some(ErrorCode::InvalidInput), "{name}");
    }
}

#[tokio::test]
async fn k1_a_transcript_has_its_last_messages_and_the_list_the_latest_of_each_scene() {
    let table = Table::without_model().await;
    for uri in ["transcript://scene/cave", "scene://cave"] {
        assert_eq!(table.try_read(uri).await, Err(ErrorCode::NotFound));
    }
    for number in 1..=20 {
        let author = if number == 19 { "system" } else { "Aria" };
        table.say("cave", author, &format!("line {number}")).await;
    }
    table.say("H\u{f6}hle 7/b", "Bo", &"y".repeat(200)).await;
    let messages = table.transcript("transcript://scene/cave").await;
    assert_eq!(messages.len(), 15);
    assert_eq!(messages[0]["message"], "line 6");
    assert_eq!(messages[14]["author"], "Aria");
    assert_eq!(messages[14]["message"], "line 20");
    let two = table.transcript("transcript://scene/cave?limit=2").await;
    assert_eq!(two[0]["message"], "line 19");
    let state = table.read("scene://cave").await;
    assert_eq!(state["messages"], 20);
    assert_eq!(state["facts"].as_array().unwrap().len(), 14);
    assert_eq!(state["facts"][0], "Aria: line 6");
    let list = table.list().await;
    let uris: Vec<_> = list.iter().map(|resource| resource.uri.as_str()).collect();
    assert_eq!(
        uris,
        [
            "metrics://counters",
            "transcript://scene/H%C3%B6hle%207%2Fb",
            "scene://H%C3%B6hle%207%2Fb",
            "transcript://scene/cave",
            "scene://cave",
            "events://orchestrator",
            "logs://app",
        ]
    );
    let cave = list[3].description.as_deref().unwrap();
    assert!(cave.starts_with("Latest, "), "{cave}");
    assert!(cave.ends_with(": Aria: line 20"), "{cave}");
    let hoehle = list[1].description.as_deref().unwrap();
    assert!(hoehle.ends_with("yy\u{2026}"), "{hoehle}");
    assert!(table.try_read(uris[1]).await.is_ok());
    let templates = table.packs.templates();
    assert_eq!(templates.len(), 3);
}

#[tokio::test]
async fn k1_changes_are_announced_at_once() {
    let table = Table::without_model().await;
    let provider = table.packs.provider_of("scene://cave").unwrap();
    let mut changes = provider.changes().unwrap();
    table.say("cave", "Aria", "Hello").await;
    table.say("cave", "Aria", "Again").await;
    let updated = |uri: &str| ResourceChange::Updated(uri.to_owned());
    for change in [
        updated("transcript://scene/cave"),
        updated("scene://cave"),
        ResourceChange::ListChanged,
        updated("transcript://scene/cave"),
        updated("scene://cave"),
    ] {
        assert_eq!(changes.next().await, Some(change));
    }
    table.data("orchestrate_action", action("go")).await;
    assert_eq!(changes.next().await, Some(updated("metrics://counters")));
}

#[tokio::test]
async fn k2_the_streams_report_the_outcome_of_an_action() {
    let model = Scripted::new([narration("n"), Ok(proposal(12, "LCK", "r", "n"))]);
    let table = Table::with(&model).await;
    let orchestrator = table.packs.stream("orchestrator").unwrap();
    let mut events = orchestrator.listen(None);
    let mut log = table.packs.stream("app").unwrap().listen(None);
    for message in ["go", "secret plan"] {
        table.data("orchestrate_action", action(message)).await;
    }
    assert!(matches!(events.next().await, StreamMessage::Ready { .. }));
    for kind in [
        "llm.enqueued",
        "llm.received",
        "format.sent",
        "llm.enqueued",
        "llm.received",
        "defense.rejected",
    ] {
        let StreamMessage::Event(event) = events.next().await else {
            panic!("no event");
        };
        assert_eq!(event.kind, kind);
        let data: Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!(data["scene_id"], "cave");
        assert_eq!(data["type"], kind);
        assert!(data["ts"].as_str().unwrap().ends_with('Z'));
        assert!(data["extra"].is_object());
        if kind == "defense.rejected" {
            assert_eq!(data["extra"], json!({"reason": "Unknown ability"}));
        }
    }
    assert!(matches!(log.next().await, StreamMessage::Ready { .. }));
    let StreamMessage::Event(logged_event) = log.next().await else {
        panic!("no line");
    };
    let line: Value = serde_json::from_str(&logged_event.data).unwrap();
    assert_eq!(line["level"], "info");
    assert_eq!(line["module"], "pillion_tabletop::orchestrator");
    assert_eq!(line["scene_id"], "cave");
    assert_eq!(line["tool_name"], "orchestrate_action");
    assert_eq!(line["call_id"], "call");
    let shown = table.read("events://orchestrator").await;
    assert_eq!(shown["events"].as_array().unwrap().len(), 6);
    let logged = table.read("logs://app").await.to_string();
    assert!(!logged.contains("secret plan"), "{logged}");
}

#[tokio::test]
async fn d9_an_action_cancelled_during_publication_is_published_once() {
    let store = Arc::new(Gated {
        store: Table::store().await,
        waiting: Semaphore::new(0),
        may_append: Semaphore::new(0),
    });
    let model = Scripted::new([narration("You slip by.")]);
    let options = TabletopOptions {
        may_be_public: true,
        ..TabletopOptions::default()
    };
    let table = Arc::new(Table::over(Arc::clone(&store) as _, Some(model), options));
    let publish = || {
        let table = Arc::clone(&table);
        tokio::spawn(async move { table.call("orchestrate_action", public_action()).await })
    };
    let given_up = publish();
    store.waiting.acquire().await.unwrap().forget();
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    // The action is not reported as public before the transcript is written.
    let again = publish();
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert!(!again.is_finished());
    store.may_append.add_permits(2);
    assert!(again.await.unwrap().success);
    let messages = table.transcript("transcript://scene/cave").await;
    assert_eq!(messages.len(), 1);
}

#[tokio::test]
async fn d9_a_failed_publication_is_repeated_by_the_next_attempt() {
    let model = Scripted::new([narration("You slip by.")]);
    let options = TabletopOptions {
        may_be_public: true,
        max_scenes: 1,
        ..TabletopOptions::default()
    };
    let store = Table::store().await;
    let table = Table::over(Arc::clone(&store) as _, Some(model), options);
    table.say("hall", "Aria", "I am here").await;
    let failed = table.call("orchestrate_action", public_action()).await;
    assert_eq!(failed.error_code, Some(ErrorCode::Denied), "{failed:?}");
    store.remove_log("tabletop", "scenes/hall").await.unwrap();
    table.data("orchestrate_action", public_action()).await;
    let messages = table.transcript("transcript://scene/cave").await;
    assert_eq!(messages.len(), 1);
}

#[tokio::test]
async fn d10_d11_the_stored_data_is_limited() {
    let options = TabletopOptions {
        max_messages: 3,
        max_scenes: 2,
        max_characters: 1,
        ..TabletopOptions::default()
    };
    let table = Table::new(None, options).await;
    for number in 1..=5 {
        let appended = table.say("cave", "Aria", &format!("line {number}")).await;
        assert_eq!(appended["message_id"], number.to_string());
    }
    let messages = table.transcript("transcript://scene/cave?limit=200").await;
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[0]["message"], "line 3");
    table.say("hall", "Aria", "Another scene").await;
    let line = json!({"scene_id": "attic", "author": "Aria", "message": "One too many"});
    let failed = table.call("append_transcript", line).await;
    assert_eq!(failed.error_code, Some(ErrorCode::Denied));
    let message = "The limit of 2 scenes (tabletop.max_scenes) is reached";
    assert_eq!(failed.error.as_deref(), Some(message));
    table.say("hall", "Aria", "This one goes on").await;
    table.data("save_character", json!({"name": "Aria"})).await;
    let second = table.call("save_character", json!({"name": "Bo"})).await;
    assert_eq!(second.error_code, Some(ErrorCode::Denied));
    let changed = json!({"name": "Aria", "description": "A thief"});
    assert_eq!(table.data("save_character", changed).await["is_new"], false);
}

#[tokio::test]
async fn d10_d11_stored_data_is_listed_in_pages_and_removal_frees_space() {
    let options = TabletopOptions {
        max_scenes: 3,
        max_characters: 2,
        ..TabletopOptions::default()
    };
    let table = Table::new(None, options).await;
    let odd = "H\u{f6}hle 7/b";
    for scene in ["hall", odd, "cave", "cave"] {
        table.say(scene, "Aria", "Hello").await;
    }
    let scenes = table.stored_items_of("scenes");
    let room = (scenes.count().await.unwrap(), scenes.max_items());
    assert_eq!(room, (3, Some(3)));
    let names = async |items: &dyn StoredItems, after: Option<&str>, limit| {
        let list = items.list(after, limit).await.unwrap().into_iter();
        list.map(|item| item.name).collect::<Vec<_>>()
    };
    assert_eq!(names(scenes, None, 2).await, [odd, "cave"]);
    assert_eq!(names(scenes, Some("cave"), 2).await, ["hall"]);
    let cave = scenes.list(Some(odd), 1).await.unwrap().remove(0);
    assert_eq!(cave.facts["messages"], 2);
    let state = table.read("scene://cave").await;
    assert_eq!(cave.facts["last_message_at"], state["last_message_at"]);

    assert!(scenes.remove(odd).await.unwrap());
    assert!(!scenes.remove(odd).await.unwrap());
    assert!(!scenes.remove("no such scene").await.unwrap());
    let uri = "transcript://scene/H%C3%B6hle%207%2Fb";
    assert_eq!(table.try_read(uri).await, Err(ErrorCode::NotFound));
    // After the removal, another scene can be created, or the removed one again.
    assert_eq!(table.say(odd, "Aria", "Again").await["message_id"], "1");
    assert_eq!(names(scenes, None, 9).await, [odd, "cave", "hall"]);

    for (name, description) in [("Bo", "A bard"), ("Aria", "")] {
        let character = json!({"name": name, "description": description});
        table.data("save_character", character).await;
    }
    let characters = table.stored_items_of("characters");
    assert_eq!(characters.count().await.unwrap(), 2);
    assert_eq!(characters.max_items(), Some(2));
    let bo = characters.list(Some("Aria"), 9).await.unwrap().remove(0);
    assert_eq!(bo.name, "Bo");
    assert_eq!(bo.facts["description"], "A bard");
    assert!(characters.remove("Bo").await.unwrap());
    assert!(!characters.remove("Bo").await.unwrap());
    table.data("save_character", json!({"name": "Zoe"})).await;
    assert_eq!(names(characters, None, 9).await, ["Aria", "Zoe"]);
}

#[tokio::test]
async fn k1_removals_are_announced() {
    let table = Table::without_model().await;
    table.say("cave", "Aria", "Hello").await;
    let provider = table.packs.provider_of("scene://cave").unwrap();
    let mut changes = provider.changes().unwrap();
    table.data("save_character", json!({"name": "Bo"})).await;
    assert!(!table.remove("scenes", "hall").await);
    assert!(table.remove("characters", "Bo").await);
    assert!(table.remove("scenes", "cave").await);
    let updated = |uri: &str| ResourceChange::Updated(uri.to_owned());
    for change in [
        updated("scene://cave"),
        updated("scene://cave"),
        updated("transcript://scene/cave"),
        updated("scene://cave"),
        ResourceChange::ListChanged,
    ] {
        assert_eq!(changes.next().await, Some(change));
    }
}

#[tokio::test]
async fn d9_a_removed_scene_forgets_its_accepted_actions() {
    let model = Scripted::new([narration("The first"), narration("The second")]);
    let table = Table::with(&model).await;
    table.say("cave", "Aria", "Hello").await;
    table.data("orchestrate_action", action("go")).await;
    assert!(table.remove("scenes", "cave").await);
    let second = table.data("orchestrate_action", action("go")).await;
    assert_eq!(second["narration"], "The second");
    assert!(!model.prompt(1).contains("Hello"), "{}", model.prompt(1));
}
