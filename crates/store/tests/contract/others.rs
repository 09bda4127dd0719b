use std::sync::Arc;

use pillion_core::store::{
    AccessToken, ChatClaim, ChatRecord, ChatSummary, IdempotencyKey, KeyClaim, Memory,
    MemoryCategory, MemorySearch, PendingDefinition, PinOwner, Store, StoreErrorKind, ToolPin,
    UNFINISHED_KEY_TTL,
};

use super::{assert_fails, at, memory, pin};

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
    let again = store.record_key(&alice, "f", "43").await;
    assert_fails(again, StoreErrorKind::Conflict);
    let missing = store.record_key(&key("carol"), "f", "1").await;
    assert_fails(missing, StoreErrorKind::NotFound);
    // A key with a result cannot be released; a claim without a result can.
    for key in [&alice, &bob] {
        store.release_key(key, "f").await.unwrap();
    }
    let recorded = KeyClaim::Recorded {
        fingerprint: "f".to_owned(),
        result: "42 \u{20ac}".to_owned(),
        expires_at: at(100),
    };
    let claim = async |key, time| {
        let claim = store.claim_key(key, "other", at(time), at(200)).await;
        claim.unwrap()
    };
    assert_eq!(claim(&alice, 99).await, recorded);
    assert_eq!(claim(&alice, 100).await, KeyClaim::Claimed, "expired");
    assert_eq!(claim(&bob, 2).await, KeyClaim::Claimed, "released");
    // A late release of the earlier claim does not release the new claim.
    store.release_key(&bob, "f").await.unwrap();
    assert_ne!(claim(&bob, 2).await, KeyClaim::Claimed);
    // A claim without a result may belong to a running request.
    let unfinished = KeyClaim::InProgress {
        fingerprint: "other".to_owned(),
        expires_at: at(200),
    };
    assert_eq!(claim(&alice, 300).await, unfinished);
    // A late result of the earlier claim is not recorded for the new claim.
    let late = store.record_key(&alice, "f", "43").await;
    assert_fails(late, StoreErrorKind::Conflict);
    store.record_key(&alice, "other", "44").await.unwrap();
    assert_eq!(store.remove_expired_keys(at(199)).await.unwrap(), 0);
    assert_eq!(store.remove_expired_keys(at(200)).await.unwrap(), 1);
    let much_later = at(200).plus(UNFINISHED_KEY_TTL);
    assert_eq!(store.remove_expired_keys(much_later).await.unwrap(), 1);
}

pub async fn stored_steps_are_taken_once(store: Arc<dyn Store>) {
    let take = async |key, time| store.take_step_checkpoint(key, at(time)).await.unwrap();
    assert_eq!(take("a", 0).await, None);
    store.save_step_checkpoint("a", "1", at(100)).await.unwrap();
    store.save_step_checkpoint("a", "2", at(200)).await.unwrap();
    store.save_step_checkpoint("b", "3", at(100)).await.unwrap();
    let (first, second) = tokio::join!(take("a", 150), take("a", 150));
    let mut both = [first, second];
    both.sort();
    assert_eq!(both, [None, Some("2".to_owned())]);
    assert_eq!(take("b", 100).await, None);
    for (time, removed) in [(99, 0), (100, 1)] {
        let expired = store.remove_expired_step_checkpoints(at(time)).await;
        assert_eq!(expired.unwrap(), removed);
    }
}

pub async fn a_pin_changes_only_when_accepted(store: Arc<dyn Store>) {
    let all = PinOwner {
        server: "s",
        user: None,
    };
    let mut pin = pin("s", "roll", "1");
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
    let set_pending =
        async |owner: PinOwner<'_>, tool: &str, pending: Option<&PendingDefinition>| {
            store.set_pending_pin(owner, tool, pending).await
        };
    set_pending(all, "roll", Some(&pending)).await.unwrap();
    pin.pending = Some(pending.clone());
    assert_eq!(store.pins(all).await.unwrap(), [pin.clone()]);
    let other = store.accept_pin(all, "roll", "3", at(3)).await;
    assert_fails(other, StoreErrorKind::Conflict);
    // A rejected definition stays pending and counts no longer, also if it is offered again.
    let other = store.reject_pin(all, "roll", "3").await;
    assert_fails(other, StoreErrorKind::Conflict);
    let missing = store.reject_pin(all, "none", "2").await;
    assert_fails(missing, StoreErrorKind::NotFound);
    assert_eq!(store.count_pending_pins().await.unwrap(), 1);
    store.reject_pin(all, "roll", "2").await.unwrap();
    assert_eq!(store.count_pending_pins().await.unwrap(), 0);
    pin.rejected_hash = Some("2".to_owned());
    assert_eq!(store.pins(all).await.unwrap(), [pin.clone()]);
    for offered in [None, Some(&pending)] {
        set_pending(all, "roll", offered).await.unwrap();
        assert_eq!(store.count_pending_pins().await.unwrap(), 0);
    }
    let later = PendingDefinition {
        hash: "4".to_owned(),
        ..pending.clone()
    };
    set_pending(all, "roll", Some(&later)).await.unwrap();
    assert_eq!(store.count_pending_pins().await.unwrap(), 1);
    set_pending(all, "roll", Some(&pending)).await.unwrap();
    store.accept_pin(all, "roll", "2", at(3)).await.unwrap();
    let accepted = ToolPin {
        hash: pending.hash.clone(),
        definition: pending.definition.clone(),
        accepted_at: at(3),
        pending: None,
        rejected_hash: None,
        ..pin
    };
    assert_eq!(store.pins(all).await.unwrap(), [accepted]);
    set_pending(all, "roll", None).await.unwrap();
    let missing = set_pending(all, "none", None).await;
    assert_fails(missing, StoreErrorKind::NotFound);
    let missing_accepted = store.accept_pin(all, "none", "2", at(3)).await;
    assert_fails(missing_accepted, StoreErrorKind::NotFound);
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
    set_pending(alice, "roll", Some(&pending)).await.unwrap();
    assert_eq!(store.pins(all).await.unwrap()[0].pending, None);
    assert_eq!(store.server_pins("s").await.unwrap().len(), 2);
    for _ in 0..2 {
        store.remove_pins(alice).await.unwrap();
    }
    assert_eq!(store.find_pin(alice, "roll").await.unwrap(), None);
    assert_eq!(
        store.find_pin(all, "roll").await.unwrap().unwrap().user,
        None
    );
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
        let inserted = store.insert_access_token(&taken).await;
        assert_fails(inserted, StoreErrorKind::Conflict);
    }
    let used = store.mark_access_token_used(&token.hash, at(5)).await;
    used.unwrap();
    for time in [10, 20] {
        let revoked = store.revoke_access_token("laptop", at(time)).await;
        revoked.unwrap();
    }
    token.last_used_at = Some(at(5));
    token.revoked_at = Some(at(10));
    let stored = store.find_access_token(&token.hash).await.unwrap();
    assert_eq!(stored.as_ref(), Some(&token));
    assert_eq!(store.access_tokens().await.unwrap(), [token]);
    assert_eq!(store.find_access_token("ef").await.unwrap(), None);
    let missing = store.revoke_access_token("none", at(1)).await;
    assert_fails(missing, StoreErrorKind::NotFound);
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
            category: MemoryCategory::Preference,
            content: content.to_owned(),
            importance,
            ..memory(id, "table", user)
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
        let ids = found.into_iter().map(|memory| memory.id);
        ids.collect::<Vec<_>>()
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
            content: content(number),
            importance,
            last_accessed_at: at(i64::from(number)),
            ..memory(&number.to_string(), "table", None)
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
    // A search updates the access time of the memories that it returns, but not of memories beyond
    // its limit.
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
    assert_fails(insert("1", "c", None).await, StoreErrorKind::Conflict);
}

pub async fn settings_are_replaced(store: Arc<dyn Store>) {
    assert_eq!(store.find_setting("a").await.unwrap(), None);
    store.set_setting("a", "1").await.unwrap();
    store.set_setting("b", "true").await.unwrap();
    store.set_setting("a", "[2]").await.unwrap();
    store.add_setting("a", "3").await.unwrap();
    assert_eq!(
        store.find_setting("a").await.unwrap().as_deref(),
        Some("[2]")
    );
    let pair = |key: &str, json: &str| (key.to_owned(), json.to_owned());
    let all = store.settings().await.unwrap();
    assert_eq!(all, [pair("a", "[2]"), pair("b", "true")]);
    store.remove_setting("a").await.unwrap();
    store.remove_setting("a").await.unwrap();
    assert_eq!(store.find_setting("a").await.unwrap(), None);
}

fn chat(owner: &str, id: &str, milliseconds: i64) -> ChatRecord {
    ChatRecord {
        id: id.to_owned(),
        owner: owner.to_owned(),
        json: "{}".to_owned(),
        summary: "{}".to_owned(),
        revision: 1,
        created_at: at(milliseconds),
        updated_at: at(milliseconds),
        claim: None,
    }
}

pub async fn h4_a_chat_can_be_claimed_for_a_while(store: Arc<dyn Store>) {
    let claim = |claimant: &str, expires_at| ChatClaim {
        claimant: claimant.to_owned(),
        expires_at: at(expires_at),
    };
    let chat = ChatRecord {
        claim: Some(claim("one", 30)),
        ..chat("eve", "claimed", 10)
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
    // Storing a step of the chat keeps the claim.
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
    let free = store.find_chat("eve", "claimed").await.unwrap();
    assert_eq!(free, Some(next));
    assert!(claims("three", 70, 50).await);
    let unknown = store.claim_chat("eve", "gone", &claim("x", 9), at(1)).await;
    assert!(!unknown.unwrap());
    // A claimed chat is never old, regardless of its last change.
    assert_eq!(store.remove_old_chats(at(70)).await.unwrap(), 0);
    let foreign = store.remove_chat_at_revision("eve", "claimed", 1).await;
    assert_fails(foreign, StoreErrorKind::Conflict);
    store
        .remove_chat_at_revision("eve", "claimed", 2)
        .await
        .unwrap();
    // Removing the revision again succeeds.
    store
        .remove_chat_at_revision("eve", "claimed", 2)
        .await
        .unwrap();
    assert_eq!(store.find_chat("eve", "claimed").await.unwrap(), None);
}

pub async fn h4_only_its_owner_reads_a_chat_and_updates_follow_its_revision(store: Arc<dyn Store>) {
    let chat = |id: &str, milliseconds| chat("ada", id, milliseconds);
    let summary = |id: &str, summary: &str| ChatSummary {
        id: id.to_owned(),
        summary: summary.to_owned(),
        claim: None,
    };
    for (id, time) in [("a", 10), ("b", 20)] {
        store.insert_chat(&chat(id, time)).await.unwrap();
    }
    let again = store.insert_chat(&chat("a", 30)).await;
    assert_fails(again, StoreErrorKind::Conflict);
    assert_eq!(
        store.find_chat("ada", "a").await.unwrap(),
        Some(chat("a", 10))
    );
    assert_eq!(store.find_chat("bob", "a").await.unwrap(), None);

    let next = ChatRecord {
        json: "[1]".to_owned(),
        summary: "next".to_owned(),
        revision: 2,
        updated_at: at(40),
        ..chat("a", 10)
    };
    store.replace_chat(&next).await.unwrap();
    // Another update has replaced the chat first.
    let twice = store.replace_chat(&next).await;
    assert_fails(twice, StoreErrorKind::Conflict);
    assert_eq!(
        store.chats("ada", 5).await.unwrap(),
        [summary("a", "next"), summary("b", "{}")]
    );
    assert_eq!(store.chats("ada", 1).await.unwrap(), [summary("a", "next")]);
    assert_eq!(store.chats("bob", 5).await.unwrap(), []);

    let foreign = store.remove_chat("bob", "a").await;
    assert_fails(foreign, StoreErrorKind::NotFound);
    assert_eq!(store.remove_old_chats(at(40)).await.unwrap(), 1, "b");
    store.remove_chat("ada", "a").await.unwrap();
    assert_eq!(store.chats("ada", 5).await.unwrap(), []);
}
