use std::sync::Arc;

use pillion_core::store::{
    ApprovalDecision, ApprovalFilter, ApprovalRecord, CallId, PageRequest, Store, Verdict,
};

use pillion_core::tool::QuotaAccount;

use super::at;

fn approval(id: &str, created_at: i64) -> ApprovalRecord {
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

fn decision(verdict: Verdict, by: &str, moment: i64) -> ApprovalDecision {
    ApprovalDecision {
        verdict,
        by: by.to_owned(),
        at: at(moment),
        reason: (verdict == Verdict::Denied).then(|| "not today".to_owned()),
        arguments: (verdict == Verdict::Approved).then(|| r#"{"dice":"2d6"}"#.to_owned()),
    }
}

pub async fn a_page_of_approvals_ends_at_its_size(store: Arc<dyn Store>) {
    for nth in 1..=6 {
        let mut asked = approval(&nth.to_string(), nth);
        let long = format!("\"{}\"", "\u{e9}".repeat(300));
        match nth {
            2 => asked.arguments = long,
            3 => asked.forwarded = Some(long),
            4 => {
                let mut edit = decision(Verdict::Approved, "bob", 10);
                edit.arguments = Some(long);
                asked.decision = Some(edit);
            }
            _ => {}
        }
        store.insert_approval(&asked).await.unwrap();
    }
    let (mut seen, mut page) = (Vec::new(), PageRequest::first(10));
    loop {
        page.max_bytes = 500;
        let found = store.approvals(&ApprovalFilter::default(), &page).await;
        let found = found.unwrap();
        seen.push(
            found
                .items
                .into_iter()
                .map(|it| it.id)
                .collect::<Vec<_>>()
                .join(" "),
        );
        let Some(next) = found.next else { break };
        page = PageRequest::after(next, 10);
    }
    assert_eq!(seen, ["6 5", "4", "3", "2", "1"]);
}

pub async fn g3_the_first_decision_counts(store: Arc<dyn Store>) {
    let mut asked = approval("a", 1);
    store.insert_approval(&asked).await.unwrap();
    let again = store.insert_approval(&asked).await.unwrap_err();
    assert!(again.is_conflict(), "{again:?}");
    assert_eq!(store.approval("a").await.unwrap().unwrap(), asked);

    let decide = |verdict, by: &'static str| {
        let store = Arc::clone(&store);
        async move { store.decide_approval("a", &decision(verdict, by, 10)).await }
    };
    let (bob, carol) = tokio::join!(
        decide(Verdict::Approved, "bob"),
        decide(Verdict::Denied, "carol")
    );
    assert!(bob.is_ok() != carol.is_ok());
    let lost = bob.as_ref().err().or(carol.as_ref().err());
    assert!(lost.unwrap().is_conflict());
    let stored = store.approval("a").await.unwrap().unwrap();
    asked.decision = Some(match bob {
        Ok(()) => decision(Verdict::Approved, "bob", 10),
        Err(_) => decision(Verdict::Denied, "carol", 10),
    });
    assert_eq!(stored, asked);
    let denied = decision(Verdict::Denied, "bob", 10);
    let missing = store.decide_approval("b", &denied).await.unwrap_err();
    assert!(missing.is_not_found());
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
    let stored = store.approval("approved").await.unwrap().unwrap();
    assert_eq!(stored.used_at, Some(at(20)));
    for (id, moment) in [
        ("approved", 21),
        ("denied", 20),
        ("open", 20),
        ("late", 1_000),
    ] {
        let refused = store.use_approval(id, at(moment)).await.unwrap_err();
        assert!(refused.is_conflict(), "{id}: {refused:?}");
    }
    let missing = store.use_approval("none", at(20)).await.unwrap_err();
    assert!(missing.is_not_found());
}

pub async fn approvals_are_listed_and_expire(store: Arc<dyn Store>) {
    for number in 1..=5 {
        // Two approvals have the same time.
        let id = format!("{number}");
        store
            .insert_approval(&approval(&id, number / 2))
            .await
            .unwrap();
    }
    let decided = decision(Verdict::Denied, "bob", 10);
    store.decide_approval("3", &decided).await.unwrap();
    let approved = decision(Verdict::Approved, "bob", 1_000);
    let late = store.decide_approval("4", &approved).await.unwrap_err();
    assert!(late.is_conflict());

    let (mut seen, mut page) = (Vec::new(), PageRequest::first(2));
    loop {
        let all = ApprovalFilter::default();
        let found = store.approvals(&all, &page).await.unwrap();
        seen.extend(found.items.into_iter().map(|approval| approval.id));
        let Some(next) = found.next else { break };
        page = PageRequest::after(next, 2);
    }
    assert_eq!(seen, ["5", "4", "3", "2", "1"]);
    let ids = async |filter: ApprovalFilter| {
        let found = store.approvals(&filter, &PageRequest::default()).await;
        let found = found.unwrap().items.into_iter();
        found.map(|approval| approval.id).collect::<Vec<_>>()
    };
    let open_at = |moment| ApprovalFilter {
        open_at: Some(at(moment)),
        ..ApprovalFilter::default()
    };
    assert_eq!(ids(open_at(999)).await, ["5", "4", "2", "1"]);
    assert!(ids(open_at(1_000)).await.is_empty());
    let open = async |user, moment| {
        let account = QuotaAccount::new(user, true, Some("token:a"));
        let open = store.count_open_approvals(&account, at(moment)).await;
        let open = open.unwrap();
        (open.all, open.of_account)
    };
    assert_eq!(open(None, 999).await, (4, 0));
    assert_eq!(open(Some("alice"), 999).await, (4, 4));
    assert_eq!(open(Some("alice"), 1_000).await, (0, 0));
    let expired = ApprovalFilter {
        expired_at: Some(at(1_000)),
        ..ApprovalFilter::default()
    };
    assert_eq!(ids(expired).await, ["5", "4", "2", "1"]);
    let denied = ApprovalFilter {
        verdict: Some(Verdict::Denied),
        tool: Some("roll".to_owned()),
        ..ApprovalFilter::default()
    };
    assert_eq!(ids(denied).await, ["3"]);
    let of_another_tool = ApprovalFilter {
        tool: Some("move".to_owned()),
        ..ApprovalFilter::default()
    };
    assert!(ids(of_another_tool).await.is_empty());
    let by_hash = ApprovalFilter {
        arguments_hash: Some("hash of 2".to_owned()),
        user: Some("alice".to_owned()),
        ..ApprovalFilter::default()
    };
    assert_eq!(ids(by_hash).await, ["2"]);
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
        let account_of_caller = account(caller);
        let expected = callers.into_iter().map(account);
        let expected = expected.filter(|account| *account == account_of_caller);
        let open = store.count_open_approvals(&account_of_caller, at(9)).await;
        let open = open.unwrap();
        assert_eq!(
            (open.all, open.of_account),
            (8, expected.count() as u64),
            "{caller:?}"
        );
    }
    let ids = async |only_verified| {
        let filter = ApprovalFilter {
            user: Some("alice".to_owned()),
            only_verified,
            ..ApprovalFilter::default()
        };
        let found = store.approvals(&filter, &PageRequest::default()).await;
        let found = found.unwrap().items.into_iter();
        found.map(|approval| approval.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(true).await, ["2", "1"]);
    assert_eq!(ids(false).await, ["7", "6", "3", "2", "1"]);
}
