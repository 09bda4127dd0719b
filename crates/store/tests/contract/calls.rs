use std::sync::Arc;
use std::time::Duration;

use pillion_core::store::{
    ApprovalRecord, CallFilter, CallGrouping, CallId, CallStatus, Cursor, PageRequest, Retention,
    Store, StoreErrorKind, Timestamp, ToolCallRecord,
};
use pillion_core::tool::{ErrorCode, QuotaAccount};

use super::approvals::approval;
use super::{all_pages, assert_fails, at, ended, interrupt_all, process, running};

pub async fn f4_a_call_is_stored_at_each_step(store: Arc<dyn Store>) {
    let parent = running("chain");
    store.record_call(parent.clone()).await.unwrap();
    let mut call = running("roll");
    call.server = Some("s".to_owned());
    call.user = Some("alice".to_owned());
    call.user_is_verified = true;
    call.principal = Some("token:a".to_owned());
    call.caller = Some("mcp".to_owned());
    call.arguments = r#"{"dice":"1d6"}"#.to_owned();
    call.parent = Some(parent.id);
    call.status = CallStatus::Pending;
    store.record_call(call.clone()).await.unwrap();
    assert_eq!(store.find_call(call.id).await.unwrap().unwrap(), call);

    call.status = CallStatus::Running;
    store.record_call(call.clone()).await.unwrap();
    assert_eq!(store.find_call(call.id).await.unwrap().unwrap(), call);

    call.status = CallStatus::Error;
    call.completed_at = Some(at(1_764_000_000_123));
    call.duration = Some(Duration::from_micros(1_234_567));
    call.error = Some("MCP Error -32600: Invalid Request".to_owned());
    call.error_code = Some(ErrorCode::InternalError);
    call.result = Some(r#"{"isError":true}"#.to_owned());
    store.record_call(call.clone()).await.unwrap();
    assert_eq!(store.find_call(call.id).await.unwrap().unwrap(), call);
    assert_eq!(store.find_call(CallId::new()).await.unwrap(), None);
}

pub async fn f4_a_call_that_ended_does_not_change(store: Arc<dyn Store>) {
    let call = running("roll");
    let success = ended(&call, CallStatus::Success);
    store.record_call(success.clone()).await.unwrap();
    // The same record is sent again, by a caller that could not know that the record had been
    // stored.
    store.record_call(success.clone()).await.unwrap();
    for other in [call.clone(), ended(&call, CallStatus::Error)] {
        let changed = store.record_call(other).await;
        assert_fails(changed, StoreErrorKind::Conflict);
    }
    assert_eq!(store.find_call(call.id).await.unwrap().unwrap(), success);
}

pub async fn f4_many_at_once_are_all_stored(store: Arc<dyn Store>) {
    // One in ten calls has already ended, and only its record is rejected.
    let late: Vec<_> = (0..20).map(|_| running("late")).collect();
    for call in &late {
        let call = ended(call, CallStatus::Cancelled);
        store.record_call(call).await.unwrap();
    }
    let calls = (0..200).map(|number| match number % 10 {
        0 => late[number / 10].clone(),
        _ => running("roll"),
    });
    let tasks: Vec<_> = calls
        .map(|call| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let first = store.record_call(call.clone()).await;
                let second = store.record_call(ended(&call, CallStatus::Success)).await;
                (call, first, second)
            })
        })
        .collect();
    for task in tasks {
        let (call, first, second) = task.await.unwrap();
        let stored = store.find_call(call.id).await.unwrap().unwrap();
        if call.tool == "late" {
            assert_fails(first, StoreErrorKind::Conflict);
            assert_fails(second, StoreErrorKind::Conflict);
            assert_eq!(stored.status, CallStatus::Cancelled);
        } else {
            first.unwrap();
            second.unwrap();
            assert_eq!(stored.status, CallStatus::Success);
        }
    }
}

pub async fn f4_the_same_call_can_be_stored_twice_concurrently(store: Arc<dyn Store>) {
    let call = running("roll");
    let success = ended(&call, CallStatus::Success);
    // Both records are sent in this order without waiting, so that both may be in one batch.
    let (first, second) = tokio::join!(
        store.record_call(call.clone()),
        store.record_call(success.clone())
    );
    first.unwrap();
    second.unwrap();
    assert_eq!(store.find_call(call.id).await.unwrap().unwrap(), success);
}

pub async fn f4_own_calls_are_readable_at_once(store: Arc<dyn Store>) {
    let mut call = running("roll");
    call.server = Some("s".to_owned());
    call.user = Some("alice".to_owned());
    call.caller = Some("mcp".to_owned());
    call.arguments = "{\"text\":\"two\\nlines\"}".to_owned();
    call.parent = Some(CallId::new());
    store.record_local_call(call.clone()).await.unwrap();
    assert_eq!(store.find_call(call.id).await.unwrap(), Some(call.clone()));

    call.status = CallStatus::Error;
    call.completed_at = Some(at(1_764_000_000_123));
    call.duration = Some(Duration::from_micros(1_234_567));
    call.error = Some("no\nluck".to_owned());
    call.error_code = Some(ErrorCode::InternalError);
    call.result = Some("x".repeat(100_000));
    store.record_local_call(call.clone()).await.unwrap();
    let all = CallFilter::default();
    let found = store.calls(&all, &PageRequest::default()).await.unwrap();
    assert_eq!(found.items, [call.clone()]);
    let found = store
        .call_statistics(&all, CallGrouping::Tool)
        .await
        .unwrap();
    assert_eq!((found[0].calls, found[0].failed), (1, 1));

    // Many calls are recorded concurrently; the last record of each call counts.
    let tasks: Vec<_> = (0..300)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let call = running("draw");
                store.record_local_call(call.clone()).await.unwrap();
                let success = ended(&call, CallStatus::Success);
                store.record_local_call(success.clone()).await.unwrap();
                success
            })
        })
        .collect();
    for task in tasks {
        let call = task.await.unwrap();
        assert_eq!(store.find_call(call.id).await.unwrap(), Some(call));
    }
}

/// Returns a call that began at this time.
fn call_at(time: Timestamp, tool: &str) -> ToolCallRecord {
    ToolCallRecord {
        id: CallId::min_at(time),
        ..running(tool)
    }
}

pub async fn p_calls_are_found_by_their_parent_call(store: Arc<dyn Store>) {
    let outer = running("chain");
    store.record_call(outer.clone()).await.unwrap();
    let below = |tool: &str| ToolCallRecord {
        parent: Some(outer.id),
        ..running(tool)
    };
    let (first, second) = (below("roll"), below("draw"));
    store.record_local_call(first.clone()).await.unwrap();
    store.record_call(second.clone()).await.unwrap();
    store.record_call(running("roll")).await.unwrap();
    let filter = CallFilter {
        parent: Some(outer.id),
        ..CallFilter::default()
    };
    let page = store.calls(&filter, &PageRequest::first(10)).await.unwrap();
    assert_eq!(page.items, [second, first]);
}

pub async fn f4_calls_are_found_by_their_fields(store: Arc<dyn Store>) {
    for (time, server, tool, user, status) in [
        (1_000, "a", "roll", "alice", CallStatus::Success),
        (2_000, "a", "draw", "bob", CallStatus::Error),
        (3_000, "b", "roll", "alice", CallStatus::Error),
        (4_000, "b", "draw", "alice", CallStatus::Running),
    ] {
        let call = ToolCallRecord {
            server: Some(server.to_owned()),
            user: Some(user.to_owned()),
            user_is_verified: time != 3_000,
            status,
            ..call_at(at(time), tool)
        };
        store.record_call(call).await.unwrap();
    }
    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }
    type SetFilter = fn(&mut CallFilter);
    let cases: [(SetFilter, &[i64]); 12] = [
        (|_| {}, &[4_000, 3_000, 2_000, 1_000]),
        (|filter| filter.server = text("a"), &[2_000, 1_000]),
        (|filter| filter.tool = text("draw"), &[4_000, 2_000]),
        (|filter| filter.user = text("bob"), &[2_000]),
        (|filter| filter.user = text("alice"), &[4_000, 3_000, 1_000]),
        (
            |filter| {
                filter.user = text("alice");
                filter.only_verified = true;
            },
            &[4_000, 1_000],
        ),
        (
            |filter| filter.status = Some(CallStatus::Error),
            &[3_000, 2_000],
        ),
        (|filter| filter.status = Some(CallStatus::Success), &[1_000]),
        (
            |filter| {
                filter.server = text("b");
                filter.status = Some(CallStatus::Error);
            },
            &[3_000],
        ),
        (
            |filter| filter.from = Some(at(2_000)),
            &[4_000, 3_000, 2_000],
        ),
        (|filter| filter.until = Some(at(2_000)), &[1_000]),
        (|filter| filter.user = text("' OR 1 = 1 --"), &[]),
    ];
    for (set, expected) in cases {
        let mut filter = CallFilter::default();
        set(&mut filter);
        let found = store.calls(&filter, &PageRequest::default()).await.unwrap();
        let times = found.items.iter().map(|call| call.arrived_at().as_millis());
        assert_eq!(times.collect::<Vec<_>>(), expected, "{filter:?}");
        assert_eq!(found.next, None);
    }
}

pub async fn pages_are_stable_while_calls_come_in(store: Arc<dyn Store>) {
    let mut expected = Vec::new();
    for _ in 0..25 {
        let call = running("roll");
        expected.push(call.id);
        store.record_call(call).await.unwrap();
    }
    expected.reverse();
    let pages = all_pages(PageRequest::first(10), async |page| {
        let found = store.calls(&CallFilter::default(), &page).await;
        store.record_call(running("roll")).await.unwrap();
        found
    });
    assert_pages(&pages.await, &expected, &[10, 10, 5]);
}

/// Checks the IDs of all calls and the number of calls on each page.
pub fn assert_pages(pages: &[Vec<ToolCallRecord>], ids: &[CallId], lengths: &[usize]) {
    let seen = pages.iter().flatten().map(|call| call.id);
    assert_eq!(seen.collect::<Vec<_>>(), ids);
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), lengths);
}

pub async fn a_page_of_calls_ends_at_its_size(store: Arc<dyn Store>) {
    // Each letter takes two bytes.
    let sizes = [10, 10, 10, 5_000, 10, 480, 10];
    let mut expected = Vec::new();
    for (nth, size) in sizes.into_iter().enumerate() {
        let mut call = running("roll");
        let letters = "\u{e9}".repeat(size / 2 - 1);
        call.arguments = format!("\"{letters}\"");
        if nth % 2 == 1 {
            call.result = Some(std::mem::replace(&mut call.arguments, "{}".to_owned()));
        }
        expected.push(call.id);
        store.record_call(call).await.unwrap();
    }
    expected.reverse();
    for (limit, lengths) in [(10, &[2, 1, 1, 3][..]), (2, &[2, 1, 1, 2, 1])] {
        let first = PageRequest {
            max_bytes: 500,
            ..PageRequest::first(limit)
        };
        let all = CallFilter::default();
        let pages = all_pages(first, async |page| store.calls(&all, &page).await).await;
        assert_pages(&pages, &expected, lengths);
    }
}

pub async fn c7_rate_limits_count_calls_that_ran(store: Arc<dyn Store>) {
    let start = at(1_764_000_000_000);
    let call = |offset: i64, status, duration: Option<u64>| {
        let mut call = call_at(at(start.as_millis() + offset), "roll");
        call.user = Some("alice".to_owned());
        call.principal = (offset == 20).then(|| "ci".to_owned());
        call.status = status;
        call.completed_at = status
            .is_final()
            .then(|| at(start.as_millis() + offset + 500));
        call.duration = duration.map(Duration::from_millis);
        call
    };
    let ran = [
        call(10, CallStatus::Success, Some(300)),
        call(20, CallStatus::Error, Some(100)),
        call(30, CallStatus::Running, None),
        call(40, CallStatus::Interrupted, None),
        call(50, CallStatus::Success, None),
        call(60, CallStatus::Cancelled, Some(1)),
    ];
    let did_not = [
        call(-10, CallStatus::Success, Some(1)),
        call(15, CallStatus::Error, None),
        call(25, CallStatus::Denied, None),
        call(35, CallStatus::Pending, None),
        call(45, CallStatus::Cancelled, None),
    ];
    for call in ran.iter().chain(&did_not) {
        store.record_call(call.clone()).await.unwrap();
    }
    let mut elsewhere = call(70, CallStatus::Success, Some(1));
    elsewhere.process.owner = "elsewhere".to_owned();
    store.record_call(elsewhere).await.unwrap();

    let pages = all_pages(PageRequest::first(4), async |page| {
        store.counted_calls("here", start, &page).await
    });
    let found = pages.await.concat();
    let ids: Vec<_> = found.iter().map(|call| call.id).collect();
    let expected: Vec<_> = ran.iter().rev().map(|call| call.id).collect();
    assert_eq!(ids, expected);
    let first = found.last().unwrap();
    assert_eq!(
        (first.tool.as_str(), first.run_id.as_str()),
        ("roll", "now")
    );
    assert_eq!(first.account, QuotaAccount::User("alice".to_owned()));
    let ci = QuotaAccount::Principal("ci".to_owned());
    assert_eq!(found.iter().filter(|call| call.account == ci).count(), 1);
    // The call ended at 510 ms, and its tool ran for 300 ms.
    assert_eq!(first.began_at, at(start.as_millis() + 210));
    assert_eq!(found[3].began_at, at(start.as_millis() + 30));
}

pub async fn a_foreign_cursor_is_rejected(store: Arc<dyn Store>) {
    for cursor in ["", "AAAA", "not base64!", "eHl6", "%00"] {
        let page = PageRequest::after(Cursor::new(cursor), 10);
        let calls = store.calls(&CallFilter::default(), &page).await;
        assert_eq!(calls.unwrap_err().code(), ErrorCode::InvalidInput);
        let approvals = store.approvals(&Default::default(), &page).await;
        assert_eq!(approvals.unwrap_err().code(), ErrorCode::InvalidInput);
    }
}

pub async fn statistics_count_and_rank(store: Arc<dyn Store>) {
    for number in 1..=100_u64 {
        let mut call = running("roll");
        call.server = Some("s".to_owned());
        // The order of the calls differs from the order of their durations.
        call.duration = Some(Duration::from_micros((number * 37) % 101));
        call.status = match number % 4 {
            0 => CallStatus::Error,
            _ => CallStatus::Success,
        };
        store.record_call(call).await.unwrap();
    }
    store.record_call(running("alone")).await.unwrap();
    let all = CallFilter::default();
    let found = store
        .call_statistics(&all, CallGrouping::Tool)
        .await
        .unwrap();
    let [alone, roll] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (&alone.server, alone.tool.as_deref()),
        (&None, Some("alone"))
    );
    let unknown = (alone.success_rate(), alone.p50);
    assert_eq!((alone.calls, unknown), (1, (None, None)));
    assert_eq!(roll.server.as_deref(), Some("s"));
    assert_eq!(roll.tool.as_deref(), Some("roll"));
    assert_eq!((roll.calls, roll.succeeded, roll.failed), (100, 75, 25));
    assert_eq!(roll.success_rate(), Some(0.75));
    let ranks = [roll.p50, roll.p95, roll.p99].map(|rank| rank.unwrap().as_micros());
    assert_eq!(ranks, [50, 95, 99]);
    let unknown_user = CallFilter {
        user: Some("unknown".to_owned()),
        ..CallFilter::default()
    };
    let found = store
        .call_statistics(&unknown_user, CallGrouping::Tool)
        .await
        .unwrap();
    assert!(found.is_empty());

    let servers = store
        .call_statistics(&all, CallGrouping::Server)
        .await
        .unwrap();
    let counts: Vec<_> = servers
        .iter()
        .map(|group| (group.server.as_deref(), group.calls))
        .collect();
    assert_eq!(counts, [(None, 1), (Some("s"), 100)]);

    for (user, is_verified) in [("ada", true), ("ada", false), ("ada", true)] {
        let mut call = running("roll");
        call.user = Some(user.to_owned());
        call.user_is_verified = is_verified;
        store.record_call(call).await.unwrap();
    }
    let users = store
        .call_statistics(&all, CallGrouping::User)
        .await
        .unwrap();
    let mut counts: Vec<_> = users
        .iter()
        .map(|group| (group.user.as_deref(), group.user_is_verified, group.calls))
        .collect();
    counts.sort_unstable();
    assert_eq!(
        counts,
        [
            (None, false, 101),
            (Some("ada"), false, 1),
            (Some("ada"), true, 2)
        ]
    );
}

pub async fn calls_of_an_ended_process_are_interrupted(store: Arc<dyn Store>) {
    use CallStatus::{Interrupted, Pending, Running, Success};
    let calls = [
        ("here", "before", Running, Interrupted),
        ("here", "before", Pending, Interrupted),
        ("here", "before", Success, Success),
        ("here", "draining", Running, Running),
        ("here", "now", Running, Running),
        ("elsewhere", "its own", Running, Running),
    ]
    .map(|(owner, run_id, status, expected)| {
        let mut call = running("roll");
        call.process = process(run_id);
        call.process.owner = owner.to_owned();
        call.status = status;
        (call, expected)
    });
    for (call, _) in &calls {
        store.record_call(call.clone()).await.unwrap();
    }
    let mut unfinished = store.unfinished_processes("here").await.unwrap();
    unfinished.sort();
    assert_eq!(unfinished, ["before", "draining", "now"]);
    let before = process("before");
    assert_eq!(store.interrupt_run(&before, at(9)).await.unwrap(), 2);
    for (call, expected) in calls {
        let stored = store.find_call(call.id).await.unwrap().unwrap();
        assert_eq!(stored.status, expected, "{:?}", call.process);
        if expected == Interrupted {
            assert_eq!(stored.completed_at, Some(at(9)));
            assert!(stored.error.is_some());
        }
    }
    let ended = process("draining");
    assert_eq!(store.interrupt_run(&ended, at(9)).await.unwrap(), 1);
    assert_eq!(store.interrupt_run(&ended, at(9)).await.unwrap(), 0);
}

pub async fn a_waiting_call_ends_only_while_it_waits(store: Arc<dyn Store>) {
    let with = |call: &ToolCallRecord, status| {
        let mut call = call.clone();
        call.status = status;
        call.completed_at = status.is_final().then(|| at(9));
        call
    };
    for (before, is_written) in [
        (None, true),
        (Some(CallStatus::Pending), true),
        (Some(CallStatus::Running), false),
        (Some(CallStatus::Success), false),
    ] {
        let call = running("roll");
        if let Some(status) = before {
            store.record_call(with(&call, status)).await.unwrap();
        }
        let end = with(&call, CallStatus::Cancelled);
        for _ in 0..2 {
            let rejection = store.record_waiting_call(end.clone()).await.err();
            assert_eq!(rejection.is_none(), is_written, "{before:?}");
            assert!(rejection.is_none_or(|error| error.is_conflict()));
        }
        let found = store.find_call(call.id).await.unwrap().unwrap();
        let expected = match before {
            Some(status) if !is_written => status,
            _ => CallStatus::Cancelled,
        };
        assert_eq!(found.status, expected);
    }
}

pub async fn a_pending_call_with_an_open_approval_stays_pending(store: Arc<dyn Store>) {
    for (id, expires_at) in [("open", at(100)), ("expired", at(5))] {
        let mut call = running(id);
        call.process = process("before");
        call.status = CallStatus::Pending;
        store.record_call(call.clone()).await.unwrap();
        let approval = ApprovalRecord {
            call: Some(call.id),
            expires_at,
            ..approval(id, 1)
        };
        store.insert_approval(&approval).await.unwrap();
    }
    let mut running = running("none");
    running.status = CallStatus::Pending;
    store.record_call(running).await.unwrap();
    assert_eq!(store.cancel_undecided_calls(at(4), at(9)).await.unwrap(), 0);
    assert_eq!(store.cancel_undecided_calls(at(6), at(9)).await.unwrap(), 1);
    interrupt_all(&*store, at(9)).await.unwrap();
    for (tool, expected) in [
        ("open", CallStatus::Pending),
        ("expired", CallStatus::Cancelled),
        ("none", CallStatus::Interrupted),
    ] {
        let filter = CallFilter {
            tool: Some(tool.to_owned()),
            ..CallFilter::default()
        };
        let found = store.calls(&filter, &PageRequest::default()).await.unwrap();
        assert_eq!(found.items[0].status, expected);
    }
}

pub async fn old_calls_are_removed_by_age_number_and_size(store: Arc<dyn Store>) {
    let unfinished = call_at(at(1), "roll");
    store.record_call(unfinished.clone()).await.unwrap();
    for second in 1..=1_200 {
        let mut call = ended(&call_at(at(second * 1_000), "roll"), CallStatus::Success);
        call.arguments = "x".repeat(100);
        store.record_call(call).await.unwrap();
    }
    let now = at(1_201_000);
    let prune = async |max_age, max_calls, max_bytes| {
        let retention = Retention {
            max_age,
            max_calls,
            max_bytes,
        };
        store.prune_calls(&retention, now).await.unwrap().calls
    };
    let age = Some(Duration::from_secs(601));
    assert_eq!(prune(None, None, None).await, 0);
    assert_eq!(prune(age, None, None).await, 599);
    assert_eq!(prune(None, Some(500), None).await, 101);
    assert_eq!(prune(None, None, Some(4_200)).await, 458);
    assert_eq!(prune(None, None, Some(4_200)).await, 0);
    let page = PageRequest::first(1_000);
    let found = store.calls(&CallFilter::default(), &page).await;
    let left = found.unwrap().items;
    assert_eq!(left.len(), 43);
    assert_eq!(left[0].arrived_at(), at(1_200_000));
    assert_eq!(left[42].id, unfinished.id, "what has not ended stays");
}

pub async fn a_removed_call_is_distinguished_from_one_that_was_never_recorded(
    store: Arc<dyn Store>,
) {
    let limits = |age, calls, bytes| Retention {
        max_age: age,
        max_calls: calls,
        max_bytes: bytes,
    };
    let all = [
        limits(Some(Duration::ZERO), None, None),
        limits(None, Some(0), None),
        limits(None, None, Some(0)),
        limits(None, Some(1), None),
        limits(Some(Duration::from_secs(5)), Some(2), Some(150)),
    ];
    let mut recorded = Vec::new();
    for (round, retention) in all.into_iter().enumerate() {
        let first = 1_000 + 100_000 * i64::try_from(round).unwrap();
        for second in 0..10 {
            let call = call_at(at(first + second * 1_000), "roll");
            let mut call = ended(&call, CallStatus::Interrupted);
            call.arguments = "x".repeat(20);
            store.record_call(call.clone()).await.unwrap();
            recorded.push(call.id);
        }
        store
            .prune_calls(&retention, at(first + 10_000))
            .await
            .unwrap();
        for id in &recorded {
            let is_there = store.find_call(*id).await.unwrap().is_some();
            let may_be_removed = store.may_have_removed_call(*id).await.unwrap();
            assert!(is_there || may_be_removed, "{round}: {id}");
        }
        let later = call_at(at(first + 20_000), "roll").id;
        assert!(
            !store.may_have_removed_call(later).await.unwrap(),
            "{round}"
        );
    }
}

pub async fn f4_zero_bytes_are_removed_from_texts(store: Arc<dyn Store>) {
    let call = running("roll");
    store.record_call(call.clone()).await.unwrap();
    let mut end = ended(&call, CallStatus::Error);
    end.error = Some("no\0 dice".to_owned());
    store.record_call(end.clone()).await.unwrap();
    let stored = store.find_call(call.id).await.unwrap().unwrap();
    assert_eq!(stored.error.as_deref(), Some("no\u{fffd} dice"));
    assert_eq!(stored.status, CallStatus::Error);
    // Recording the same end twice succeeds.
    store.record_call(end).await.unwrap();
}

pub async fn large_and_unusual_texts_are_stored_unchanged(store: Arc<dyn Store>) {
    let mut call = running("r\u{f6}ll \u{1f3b2} '; DROP TABLE tool_calls; --");
    call.arguments = format!(r#"{{"text":"{}"}}"#, "\\u0000\\\"\u{10ffff}".repeat(1_000));
    call.result = Some("y".repeat(8 * 1024 * 1024));
    store.record_call(call.clone()).await.unwrap();
    assert_eq!(store.find_call(call.id).await.unwrap().unwrap(), call);
}
