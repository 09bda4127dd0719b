use std::sync::Arc;

use pillion_core::store::{
    ApprovalDecision, ApprovalFilter, ApprovalRecord, CallId, PageRequest, Store, StoreErrorKind,
    Verdict,
};
use pillion_core::tool::QuotaAccount;

use super::{all_pages, assert_fails, at};

pub fn approval(id: &str, created_at: i64) -> ApprovalRecord {
    ApprovalRecord {
        id: id.to_owned(),
        call: Some(CallId::new()),
        tool: "roll".to_owned(),
        server: Some("s".to_owned()),
        arguments_hash: format!("hash of {id}"),
        arguments: r#"{"dice":"1d6"}"#.to_owned(),
        user: Some("alice".to_owned()),
        user_is_verified: true,
        principal: Some("token:a".to_owned()),
        channel: Some("room".to_owned()),
        forwarded: Some(r#"{"task":{}}"#.to_owned()),
        created_at: at(created_at),
        expires_at: at(1_000),
        decision: None,
        used_at: None,
    }
}

fn decision(verdict: Verdict, by: &str, milliseconds: i64) -> ApprovalDecision {
    ApprovalDecision {
        verdict,
        decider: by.to_owned(),
        decided_at: at(milliseconds),
        reason: (verdict == Verdict::Denied).then(|| "not today".to_owned()),
        arguments: (verdict == Verdict::Approved).then(|| r#"{"dice":"2d6"}"#.to_owned()),
    }
}

pub async fn a_page_of_approvals_ends_at_its_size(store: Arc<dyn Store>) {
    for nth in 1..=6 {
        let mut record = approval(&nth.to_string(), nth);
        let long = format!("\"{}\"", "\u{e9}".repeat(300));
        match nth {
            2 => record.arguments = long,
            3 => record.forwarded = Some(long),
            4 => {
                let mut edit = decision(Verdict::Approved, "bob", 10);
                edit.arguments = Some(long);
                record.decision = Some(edit);
            }
            _ => {}
        }
        store.insert_approval(&record).await.unwrap();
    }
    let first = PageRequest {
        max_bytes: 500,
        ..PageRequest::first(10)
    };
    assert_eq!(
        page_ids(&*store, first).await,
        [&["6", "5"][..], &["4"], &["3"], &["2"], &["1"]]
    );
}

/// Returns the IDs of the approvals on each page.
async fn page_ids(store: &dyn Store, first: PageRequest) -> Vec<Vec<String>> {
    let all = ApprovalFilter::default();
    let pages = all_pages(first, async |page| store.approvals(&all, &page).await).await;
    pages.into_iter().map(ids).collect()
}

fn ids(approvals: Vec<ApprovalRecord>) -> Vec<String> {
    approvals.into_iter().map(|approval| approval.id).collect()
}

async fn found(store: &dyn Store, filter: &ApprovalFilter) -> Vec<String> {
    let page = store.approvals(filter, &PageRequest::default()).await;
    ids(page.unwrap().items)
}

pub async fn g3_the_first_decision_counts(store: Arc<dyn Store>) {
    let mut record = approval("a", 1);
    store.insert_approval(&record).await.unwrap();
    assert_fails(
        store.insert_approval(&record).await,
        StoreErrorKind::Conflict,
    );
    assert_eq!(store.find_approval("a").await.unwrap().unwrap(), record);

    let decide = |verdict, by: &'static str| {
        let store = Arc::clone(&store);
        async move { store.decide_approval("a", &decision(verdict, by, 10)).await }
    };
    let (bob, carol) = tokio::join!(
        decide(Verdict::Approved, "bob"),
        decide(Verdict::Denied, "carol")
    );
    let (first, second) = if bob.is_ok() {
        (decision(Verdict::Approved, "bob", 10), carol)
    } else {
        (decision(Verdict::Denied, "carol", 10), bob)
    };
    assert_fails(second, StoreErrorKind::Conflict);
    record.decision = Some(first);
    assert_eq!(store.find_approval("a").await.unwrap().unwrap(), record);
    let denied = decision(Verdict::Denied, "bob", 10);
    let missing = store.decide_approval("b", &denied).await;
    assert_fails(missing, StoreErrorKind::NotFound);
}

pub async fn g3_an_approval_is_used_once(store: Arc<dyn Store>) {
    for id in ["open", "approved", "denied", "late"] {
        store.insert_approval(&approval(id, 1)).await.unwrap();
    }
    for (id, verdict) in [
        ("approved", Verdict::Approved),
        ("denied", Verdict::Denied),
        ("late", Verdict::Approved),
    ] {
        let decision = decision(verdict, "bob", 10);
        store.decide_approval(id, &decision).await.unwrap();
    }
    store.use_approval("approved", at(20)).await.unwrap();
    let stored = store.find_approval("approved").await.unwrap().unwrap();
    assert_eq!(stored.used_at, Some(at(20)));
    for (id, time, kind) in [
        ("approved", 21, StoreErrorKind::Conflict),
        ("denied", 20, StoreErrorKind::Conflict),
        ("open", 20, StoreErrorKind::Conflict),
        ("late", 1_000, StoreErrorKind::Conflict),
        ("none", 20, StoreErrorKind::NotFound),
    ] {
        eprintln!("{id}");
        assert_fails(store.use_approval(id, at(time)).await, kind);
    }
}

pub async fn approvals_are_listed_and_expire(store: Arc<dyn Store>) {
    for number in 1..=5 {
        // Two approvals have the same time.
        let record = approval(&number.to_string(), number / 2);
        store.insert_approval(&record).await.unwrap();
    }
    let decided = decision(Verdict::Denied, "bob", 10);
    store.decide_approval("3", &decided).await.unwrap();
    let approved = decision(Verdict::Approved, "bob", 1_000);
    let late = store.decide_approval("4", &approved).await;
    assert_fails(late, StoreErrorKind::Conflict);

    let seen = page_ids(&*store, PageRequest::first(2)).await;
    assert_eq!(seen, [&["5", "4"][..], &["3", "2"], &["1"]]);
    let open = async |user, time| {
        let account = QuotaAccount::new(user, true, Some("token:a"));
        let count = store.count_open_approvals(&account, at(time)).await;
        count
            .map(|count| (count.total, count.account_total))
            .unwrap()
    };
    assert_eq!(open(None, 999).await, (4, 0));
    assert_eq!(open(Some("alice"), 999).await, (4, 4));
    assert_eq!(open(Some("alice"), 1_000).await, (0, 0));
    type SetFilter = fn(&mut ApprovalFilter);
    let cases: [(SetFilter, &[&str]); 6] = [
        (
            |filter| filter.open_at = Some(at(999)),
            &["5", "4", "2", "1"],
        ),
        (|filter| filter.open_at = Some(at(1_000)), &[]),
        (
            |filter| filter.expired_at = Some(at(1_000)),
            &["5", "4", "2", "1"],
        ),
        (
            |filter| {
                filter.verdict = Some(Verdict::Denied);
                filter.tool = Some("roll".to_owned());
            },
            &["3"],
        ),
        (|filter| filter.tool = Some("move".to_owned()), &[]),
        (
            |filter| {
                filter.arguments_hash = Some("hash of 2".to_owned());
                filter.user = Some("alice".to_owned());
            },
            &["2"],
        ),
    ];
    for (set, expected) in cases {
        let mut filter = ApprovalFilter::default();
        set(&mut filter);
        assert_eq!(found(&*store, &filter).await, expected, "{filter:?}");
    }
    assert_eq!(store.remove_expired_approvals(at(1_000)).await.unwrap(), 0);
    assert_eq!(store.remove_expired_approvals(at(1_001)).await.unwrap(), 5);
}

pub async fn claimed_and_verified_users_are_different_accounts_and_lists(store: Arc<dyn Store>) {
    let callers = [
        (Some("alice"), true, Some("token:a")),
        (Some("alice"), true, Some("token:b")),
        (Some("alice"), false, Some("token:a")),
        (Some("bob"), false, Some("token:a")),
        (None, false, Some("token:a")),
        (Some("alice"), false, Some("token:b")),
        (Some("alice"), false, None),
        (None, false, None),
    ];
    for (number, (user, user_is_verified, principal)) in (1..).zip(callers) {
        let record = ApprovalRecord {
            user: user.map(str::to_owned),
            user_is_verified,
            principal: principal.map(str::to_owned),
            ..approval(&number.to_string(), number)
        };
        store.insert_approval(&record).await.unwrap();
    }
    // The store counts by the rule of `QuotaAccount::new`.
    let account = |(user, is_verified, principal)| QuotaAccount::new(user, is_verified, principal);
    for caller in callers {
        let caller_account = account(caller);
        let same = |other: &QuotaAccount| *other == caller_account;
        let expected = callers.into_iter().map(account).filter(same).count();
        let open = store.count_open_approvals(&caller_account, at(9)).await;
        let counts = open.map(|open| (open.total, open.account_total)).unwrap();
        assert_eq!(counts, (8, expected as u64), "{caller:?}");
    }
    for (only_verified, expected) in [(true, &["2", "1"][..]), (false, &["7", "6", "3", "2", "1"])]
    {
        let filter = ApprovalFilter {
            user: Some("alice".to_owned()),
            only_verified,
            ..ApprovalFilter::default()
        };
        assert_eq!(found(&*store, &filter).await, expected);
    }
}
