use std::sync::Arc;

use pillion_core::store::{
    AccessToken, ChatClaim, ChatRecord, ChatSummary, IdempotencyKey, KeyClaim, Memory,
    MemoryCategory, MemorySearch, PendingDefinition, PinOwner, Store, StoreErrorKind, ToolPin,
    UNFINISHED_KEY_TTL,
};

use super::at;

pub async fn an_idempotency_key_runs_once(store: Arc<dyn Store>) {
    let key = |scope: &str| IdempotencyKey {
        scope: scope.to_owned(),
        key: "k".to_owned(),
    };
    let (alice, bob) = (key("alice"), key("bob"));
    let claims = tokio::join!(
        store.claim_key(&alice, "f", at(1), at(100)),
        store.claim_key(&alice, "f", at(1), at(100)),
        store.claim_key(&bob, "f", at(1), at(100)),
    );
    let in_progress = KeyClaim::InProgress {
        fingerprint: "f".to_owned(),
        expires_at: at(100),
    };
    let of_alice = [claims.0.unwrap(), claims.1.unwrap()];
    assert!(of_alice.contains(&KeyClaim::Claimed) && of_alice.contains(&in_progress));
    assert_eq!(claims.2.unwrap(), KeyClaim::Claimed);

    assert_eq!(store.key_bytes().await.unwrap(), []);
    store.record_key(&alice, "f", "42 \u{20ac}").await.unwrap();
    let sizes = store.key_bytes().await.unwrap();
    assert_eq!(sizes, [("alice".to_owned(), 6)]);
    assert!(
        store
            .record_key(&alice, "f", "43")
            .await
            .unwrap_err()
            .is_conflict()
    );
    let missing = store.record_key(&key("carol"), "f", "1").await.unwrap_err();
    assert!(missing.is_not_found());
    // A result cannot be released; a claim without a result can.
    for key in [&alice, &bob] {
        store.release_key(key, "f").await.unwrap();
    }
    let recorded = KeyClaim::Recorded {
        fingerprint: "f".to_owned(),
        result: "42 \u{20ac}".to_owned(),
        expires_at: at(100),
    };
    let claim = async |key, moment| {
        let claim = store.claim_key(key, "other", at(moment), at(200)).await;
        claim.unwrap()
    };
    assert_eq!(claim(&alice, 99).await, recorded);
    assert_eq!(
        claim(&alice, 100).await,
        KeyClaim::Claimed,
        "it had expired"
    );
    assert_eq!(claim(&bob, 2).await, KeyClaim::Claimed, "it was given up");
    // A late release of the earlier claim does not release the new one.
    store.release_key(&bob, "f").await.unwrap();
    assert_ne!(claim(&bob, 2).await, KeyClaim::Claimed);
    // A claim without a result may belong to a running request.
    let unfinished = KeyClaim::InProgress {
        fingerprint: "other".to_owned(),
        expires_at: at(200),
    };
    assert_eq!(claim(&alice, 300).await, unfinished);
    // A late result of the earlier claim is not that of the new one.
    let late = store.record_key(&alice, "f", "43").await.unwrap_err();
    assert!(late.is_conflict());
    store.record_key(&alice, "other", "44").await.unwrap();
    assert_eq!(store.remove_expired_keys(at(199)).await.unwrap(), 0);
    assert_eq!(store.remove_expired_keys(at(200)).await.unwrap(), 1);
    let much_later = at(200).plus(UNFINISHED_KEY_TTL);
    assert_eq!(store.remove_expired_keys(much_later).await.unwrap(), 1);
}

pub async fn stored_steps_are_taken_once(store: Arc<dyn Store>) {
    assert_eq!(store.take_step_checkpoint("a", at(0)).await.unwrap(), None);
    store.save_step_checkpoint("a", "1", at(100)).await.unwrap();
    store.save_step_checkpoint("a", "2", at(200)).await.unwrap();
    store.save_step_checkpoint("b", "3", at(100)).await.unwrap();
    let both = tokio::join!(
        store.take_step_checkpoint("a", at(150)),
        store.take_step_checkpoint("a", at(150))
    );
    let mut both = [both.0.unwrap(), both.1.unwrap()];
    both.sort();
    assert_eq!(both, [None, Some("2".to_owned())]);
    assert_eq!(
        store.take_step_checkpoint("b", at(100)).await.unwrap(),
        None
    );
    assert_eq!(
        store.remove_expired_step_checkpoints(at(99)).await.unwrap(),
        0
    );
    assert_eq!(
        store
            .remove_expired_step_checkpoints(at(100))
            .await
            .unwrap(),
        1
    );
}

pub async fn a_pin_changes_only_when_accepted(store: Arc<dyn Store>) {
    let all = PinOwner {
        server: "s",
        user: None,
    };
    let mut pin = ToolPin {
        server: "s".to_owned(),
        user: None,
        tool: "roll".to_owned(),
        hash: "1".to_owned(),
        definition: r#"{"name":"roll"}"#.to_owned(),
        accepted_at: at(1),
        pending: None,
    };
    assert_eq!(store.insert_pin(&pin).await.unwrap(), pin);
    let changed = ToolPin {
        hash: "2".to_owned(),
        ..pin.clone()
    };
    assert_eq!(store.insert_pin(&changed).await.unwrap(), pin);
    let pending = PendingDefinition {
        hash: "2".to_owned(),
        definition: r#"{"name":"roll","description":"new"}"#.to_owned(),
        seen_at: at(2),
    };
    store
        .set_pending_pin(all, "roll", Some(&pending))
        .await
        .unwrap();
    let noted = pending.clone();
    pin.pending = Some(pending.clone());
    assert_eq!(store.pins(all).await.unwrap(), [pin.clone()]);
    let other = store.accept_pin(all, "roll", "3", at(3)).await.unwrap_err();
    assert!(other.is_conflict(), "{other:?}");
    store.accept_pin(all, "roll", "2", at(3)).await.unwrap();
    let accepted = ToolPin {
        hash: pending.hash,
        definition: pending.definition,
        accepted_at: at(3),
        pending: None,
        ..pin
    };
    assert_eq!(store.pins(all).await.unwrap(), [accepted]);
    store.set_pending_pin(all, "roll", None).await.unwrap();
    let missing = store.set_pending_pin(all, "none", None).await.unwrap_err();
    assert!(missing.is_not_found());
    let missing = store.accept_pin(all, "none", "2", at(3)).await.unwrap_err();
    assert!(missing.is_not_found());
    // A user's pin is separate from the pin for all users.
    let alice = PinOwner {
        user: Some("alice"),
        ..all
    };
    assert!(store.pins(alice).await.unwrap().is_empty());
    let of_alice = ToolPin {
        user: Some("alice".to_owned()),
        ..changed
    };
    assert_eq!(store.insert_pin(&of_alice).await.unwrap(), of_alice);
    assert_eq!(store.pins(alice).await.unwrap(), [of_alice]);
    store
        .set_pending_pin(alice, "roll", Some(&noted))
        .await
        .unwrap();
    assert_eq!(store.pins(all).await.unwrap()[0].pending, None);
    assert_eq!(store.server_pins("s").await.unwrap().len(), 2);
    for _ in 0..2 {
        store.remove_pins(alice).await.unwrap();
    }
    assert_eq!(store.pin(alice, "roll").await.unwrap(), None);
    assert_eq!(store.pin(all, "roll").await.unwrap().unwrap().user, None);
    store.remove_pins(all).await.unwrap();
    assert!(store.server_pins("s").await.unwrap().is_empty());
}

pub async fn l3_revoked_access_tokens_stay_revoked(store: Arc<dyn Store>) {
    let mut token = AccessToken {
        hash: "ab".repeat(32),
        name: "laptop".to_owned(),
        scopes: vec!["tools:call".to_owned(), "a \"quoted\" one".to_owned()],
        created_at: at(1),
        expires_at: Some(at(900)),
        last_used_at: None,
        revoked_at: None,
    };
    store.insert_access_token(&token).await.unwrap();
    for (hash, name) in [(token.hash.as_str(), "other"), ("cd", "laptop")] {
        let taken = AccessToken {
            hash: hash.to_owned(),
            name: name.to_owned(),
            ..token.clone()
        };
        assert!(
            store
                .insert_access_token(&taken)
                .await
                .unwrap_err()
                .is_conflict()
        );
    }
    store
        .mark_access_token_used(&token.hash, at(5))
        .await
        .unwrap();
    for moment in [10, 20] {
        store
            .revoke_access_token("laptop", at(moment))
            .await
            .unwrap();
    }
    token.last_used_at = Some(at(5));
    token.revoked_at = Some(at(10));
    assert_eq!(
        store.access_token(&token.hash).await.unwrap().unwrap(),
        token
    );
    assert_eq!(store.access_tokens().await.unwrap(), [token]);
    assert_eq!(store.access_token("ef").await.unwrap(), None);
    let missing = store.revoke_access_token("none", at(1)).await.unwrap_err();
    assert!(missing.is_not_found());
}

pub async fn d5_memories_are_found_by_words(store: Arc<dyn Store>) {
    for (id, user, content, importance) in [
        ("dice", None, "Alice likes dice", 3),
        ("cat", None, "alice owns a cat", 5),
        (
            "bob's",
            Some("bob"),
            "Alice owes bob 100% of \u{c4}pfel_saft",
            1,
        ),
    ] {
        let memory = Memory {
            id: id.to_owned(),
            channel: "table".to_owned(),
            user: user.map(str::to_owned),
            category: MemoryCategory::Preference,
            content: content.to_owned(),
            importance,
            created_at: at(1),
            last_accessed_at: at(1),
        };
        assert!(store.insert_memory(&memory, 2).await.unwrap());
    }
    let search = async |channel: &str, user: Option<&str>, query: &str| {
        let search = MemorySearch {
            channel: channel.to_owned(),
            user: user.map(str::to_owned),
            query: query.to_owned(),
            limit: 5,
        };
        let found = store.search_memories(&search, at(7)).await.unwrap();
        assert!(found.iter().all(|memory| memory.last_accessed_at == at(7)));
        found
            .into_iter()
            .map(|memory| memory.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(search("table", None, "alice dice").await, ["dice"]);
    assert_eq!(search("table", None, "alice").await, ["cat", "dice"]);
    assert_eq!(
        search("table", Some("bob"), "ALICE").await,
        ["cat", "dice", "bob's"]
    );
    // These characters are literals, although LIKE treats them as wildcards.
    assert_eq!(
        search("table", Some("bob"), "100% \u{e4}pfel_").await,
        ["bob's"]
    );
    for (channel, user, query) in [
        ("table", None, "owes"),
        ("other", None, "alice"),
        ("table", None, "  "),
        ("table", Some("bob"), "10%0"),
        ("table", Some("bob"), "alic_"),
    ] {
        assert!(search(channel, user, query).await.is_empty(), "{query}");
    }
    let remove = async |channel: &str, user: Option<&str>, id: &str| {
        let removed = store.remove_memory(channel, user, id).await;
        removed.map_err(|error| error.is_not_found())
    };
    for (channel, user, id) in [
        ("other", None, "cat"),
        ("table", None, "bob's"),
        ("table", Some("alice"), "bob's"),
        ("other", Some("bob"), "bob's"),
    ] {
        assert_eq!(remove(channel, user, id).await, Err(true), "{id}");
    }
    assert_eq!(remove("table", Some("alice"), "cat").await, Ok(()));
    assert_eq!(remove("table", None, "cat").await, Err(true));
    assert_eq!(remove("table", Some("bob"), "bob's").await, Ok(()));
}

pub async fn d5_among_equal_importance_the_last_used_memory_comes_first(store: Arc<dyn Store>) {
    let content = |number: u32| format!("Note {number}: one two three four five");
    for (number, importance) in [(1, 2), (2, 2), (3, 2), (4, 3)] {
        let memory = Memory {
            id: format!("{number}"),
            channel: "table".to_owned(),
            user: None,
            category: MemoryCategory::Fact,
            content: content(number),
            importance,
            created_at: at(1),
            last_accessed_at: at(i64::from(number)),
        };
        assert!(store.insert_memory(&memory, 10).await.unwrap());
    }
    let search = async |query: &str, limit, now| {
        let search = MemorySearch {
            channel: "table".to_owned(),
            user: Some("alice".to_owned()),
            query: query.to_owned(),
            limit,
        };
        let found = store.search_memories(&search, at(now)).await.unwrap();
        let ids = found.into_iter().map(|memory| memory.id);
        ids.collect::<Vec<_>>().join(" ")
    };
    // A search updates the access time of the memories that it returns, but not of those beyond its
    // limit.
    assert_eq!(search("note", 2, 10).await, "4 3");
    assert_eq!(search("1:", 5, 20).await, "1");
    assert_eq!(search("note", 2, 30).await, "4 1");
    assert_eq!(search("2:", 5, 40).await, "2");
    assert_eq!(search("note", 5, 50).await, "4 2 1 3");
    // Words after the first five are ignored.
    assert_eq!(search("one two three four five SIX", 1, 60).await, "4");
    assert_eq!(search("one two three four six five", 1, 60).await, "");
}

pub async fn d5_the_memories_of_a_user_in_a_channel_are_limited(store: Arc<dyn Store>) {
    let memory = |id: &str, channel: &str, user: Option<&str>| Memory {
        id: id.to_owned(),
        channel: channel.to_owned(),
        user: user.map(str::to_owned),
        category: MemoryCategory::Fact,
        content: "x".to_owned(),
        importance: 1,
        created_at: at(1),
        last_accessed_at: at(1),
    };
    let insert = async |id, channel, user| {
        let memory = memory(id, channel, user);
        store.insert_memory(&memory, 2).await
    };
    for (id, channel, user, is_added) in [
        ("1", "a", Some("bob"), true),
        ("2", "a", Some("bob"), true),
        ("3", "a", Some("bob"), false),
        ("4", "b", Some("bob"), true),
        ("5", "a", Some("alice"), true),
        ("6", "a", None, true),
        ("7", "a", None, true),
        ("8", "a", None, false),
    ] {
        assert_eq!(insert(id, channel, user).await.unwrap(), is_added, "{id}");
    }
    assert!(insert("1", "c", None).await.unwrap_err().is_conflict());
}

pub async fn settings_are_replaced(store: Arc<dyn Store>) {
    assert_eq!(store.setting("a").await.unwrap(), None);
    store.set_setting("a", "1").await.unwrap();
    store.set_setting("b", "true").await.unwrap();
    store.set_setting("a", "[2]").await.unwrap();
    store.add_setting("a", "3").await.unwrap();
    assert_eq!(store.setting("a").await.unwrap().as_deref(), Some("[2]"));
    let pair = |key: &str, json: &str| (key.to_owned(), json.to_owned());
    let all = store.settings().await.unwrap();
    assert_eq!(all, [pair("a", "[2]"), pair("b", "true")]);
    store.remove_setting("a").await.unwrap();
    store.remove_setting("a").await.unwrap();
    assert_eq!(store.setting("a").await.unwrap(), None);
}

pub async fn h4_a_chat_can_be_claimed_for_a_while(store: Arc<dyn Store>) {
    let claim = |by: &str, until| ChatClaim {
        by: by.to_owned(),
        until: at(until),
    };
    let chat = ChatRecord {
        id: "claimed".to_owned(),
        owner: "eve".to_owned(),
        json: "{}".to_owned(),
        summary: String::new(),
        revision: 1,
        created_at: at(10),
        updated_at: at(10),
        claim: Some(claim("one", 30)),
    };
    store.insert_chat(&chat).await.unwrap();
    let claims = async |by, until, now| {
        let claim = claim(by, until);
        let claimed = store.claim_chat("eve", "claimed", &claim, at(now));
        claimed.await.unwrap()
    };
    assert!(!claims("two", 50, 20).await, "one has it");
    assert!(claims("one", 40, 20).await, "for longer");
    assert!(!claims("two", 60, 35).await);
    assert!(claims("two", 60, 40).await, "one's time is over");
    // A step of the chat keeps the claim.
    let next = ChatRecord {
        revision: 2,
        claim: None,
        ..chat
    };
    store.replace_chat(&next).await.unwrap();
    let listed = store.chats("eve", 1).await.unwrap();
    assert_eq!(listed[0].claim, Some(claim("two", 60)));
    store.release_chat("eve", "claimed", "one").await.unwrap();
    assert!(!claims("three", 70, 50).await, "two has it");
    store.release_chat("eve", "claimed", "two").await.unwrap();
    let free = store.chat("eve", "claimed").await.unwrap();
    assert_eq!(free, Some(next));
    assert!(claims("three", 70, 50).await);
    let nobodys = claim("x", 9);
    let unknown = store.claim_chat("eve", "gone", &nobodys, at(1));
    assert!(!unknown.await.unwrap());
    // A claimed chat is never old, regardless of its last change.
    assert_eq!(store.remove_old_chats(at(70)).await.unwrap(), 0);
    let foreign = store.remove_revision("eve", "claimed", 1).await;
    assert_eq!(foreign.unwrap_err().kind(), StoreErrorKind::Conflict);
    store.remove_revision("eve", "claimed", 2).await.unwrap();
    // Removing it again succeeds.
    store.remove_revision("eve", "claimed", 2).await.unwrap();
    assert_eq!(store.chat("eve", "claimed").await.unwrap(), None);
}

pub async fn h4_only_its_owner_reads_a_chat_and_updates_follow_its_revision(store: Arc<dyn Store>) {
    let chat = |id: &str, moment| ChatRecord {
        id: id.to_owned(),
        owner: "ada".to_owned(),
        json: "{}".to_owned(),
        summary: "{}".to_owned(),
        revision: 1,
        created_at: at(moment),
        updated_at: at(moment),
        claim: None,
    };
    let summary = |id: &str, summary: &str| ChatSummary {
        id: id.to_owned(),
        summary: summary.to_owned(),
        claim: None,
    };
    for (id, moment) in [("a", 10), ("b", 20)] {
        store.insert_chat(&chat(id, moment)).await.unwrap();
    }
    let again = store.insert_chat(&chat("a", 30)).await.unwrap_err();
    assert!(again.is_conflict());
    assert_eq!(store.chat("ada", "a").await.unwrap(), Some(chat("a", 10)));
    assert_eq!(store.chat("bob", "a").await.unwrap(), None);

    let next = ChatRecord {
        json: "[1]".to_owned(),
        summary: "next".to_owned(),
        revision: 2,
        updated_at: at(40),
        ..chat("a", 10)
    };
    store.replace_chat(&next).await.unwrap();
    let twice = store.replace_chat(&next).await.unwrap_err();
    assert!(twice.is_conflict(), "another update came first");
    assert_eq!(
        store.chats("ada", 5).await.unwrap(),
        [summary("a", "next"), summary("b", "{}")]
    );
    assert_eq!(store.chats("ada", 1).await.unwrap(), [summary("a", "next")]);
    assert_eq!(store.chats("bob", 5).await.unwrap(), []);

    assert!(
        store
            .remove_chat("bob", "a")
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert_eq!(store.remove_old_chats(at(40)).await.unwrap(), 1, "b");
    store.remove_chat("ada", "a").await.unwrap();
    assert_eq!(store.chats("ada", 5).await.unwrap(), []);
}
