use std::sync::Arc;

use pillion_core::store::{LogBounds, LogEntry, Store, StoreErrorKind};
use tokio::task::JoinSet;

use super::{assert_fails, at};

/// Appends an entry to a log without limits.
async fn append(store: &dyn Store, pack: &str, log: &str, json: &str, time: i64) -> LogEntry {
    let bounds = LogBounds::default();
    let appended = store.append_entry(pack, log, json, at(time), bounds).await;
    appended.unwrap()
}

pub async fn documents_of_packs_are_separate(store: Arc<dyn Store>) {
    assert_eq!(store.find_document("a", "x/1").await.unwrap(), None);
    assert!(store.put_document("a", "x/1", "1", None).await.unwrap());
    assert!(store.put_document("b", "x/1", "2", None).await.unwrap());
    assert!(!store.put_document("a", "x/1", "[3]", None).await.unwrap());
    let document = store.find_document("a", "x/1").await.unwrap();
    assert_eq!(document.as_deref(), Some("[3]"));
    for name in ["X/1", "x/2", "x_1", "x/\u{e4}", "y"] {
        store.put_document("a", name, "null", None).await.unwrap();
    }
    let names = async |prefix: &str, after: Option<&str>, limit| {
        let documents = store.documents("a", prefix, after, limit).await.unwrap();
        let names = documents.into_iter().map(|(name, _)| name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("x/", None, 9).await, ["x/1", "x/2", "x/\u{e4}"]);
    assert_eq!(names("x/", Some("x/1"), 1).await, ["x/2"]);
    assert_eq!(names("x/\u{e4}", None, 9).await, ["x/\u{e4}"]);
    assert_eq!(names("", None, 9).await.len(), 6);
    assert!(names("x%", None, 9).await.is_empty());
    assert!(store.remove_document("a", "x/1").await.unwrap());
    assert!(!store.remove_document("a", "x/1").await.unwrap());
    assert_eq!(store.find_document("a", "x/1").await.unwrap(), None);
    assert!(store.find_document("b", "x/1").await.unwrap().is_some());
    let long = "x".repeat(513);
    let put = store.put_document("a", &long, "1", None).await;
    assert_fails(put, StoreErrorKind::Invalid);
}

pub async fn k1_a_log_of_a_pack_returns_its_last_entries(store: Arc<dyn Store>) {
    let last = async |before, limit| {
        let entries = store.last_entries("a", "l", before, limit).await.unwrap();
        let numbers = entries.into_iter().map(|entry| entry.number);
        numbers.collect::<Vec<_>>()
    };
    assert!(last(None, 5).await.is_empty());
    let mut appends = JoinSet::new();
    for number in 0..20 {
        let store = Arc::clone(&store);
        appends.spawn(async move {
            let json = number.to_string();
            append(&*store, "a", "l", &json, number).await.number
        });
    }
    let mut numbers = appends.join_all().await;
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    append(&*store, "b", "l", "0", 1).await;
    assert_eq!(last(None, 3).await, [18, 19, 20]);
    assert_eq!(last(Some(18), 2).await, [16, 17]);
    assert_eq!(last(Some(2), 5).await, [1]);
    assert!(last(Some(1), 5).await.is_empty());
    let text = "{\"text\":\"\u{1f3b2} d20\"}";
    let added = append(&*store, "a", "l", text, 77).await;
    let newest = store.last_entries("a", "l", None, 1).await.unwrap();
    assert_eq!(newest, [added]);
    assert!(store.remove_log("a", "l").await.unwrap());
    assert!(!store.remove_log("a", "l").await.unwrap());
    assert!(last(None, 5).await.is_empty());
    assert_eq!(append(&*store, "a", "l", "1", 1).await.number, 1);
    let others = store.last_entries("b", "l", None, 5).await.unwrap();
    assert_eq!(others.len(), 1);
}

pub async fn k1_logs_are_listed_with_their_latest_entries(store: Arc<dyn Store>) {
    for (log, json, time) in [
        ("s/1", "\"a\"", 10),
        ("s/2", "\"b\"", 20),
        ("t/1", "\"c\"", 40),
        ("s/1", "\"d\"", 30),
    ] {
        append(&*store, "p", log, json, time).await;
    }
    append(&*store, "q", "s/9", "1", 9).await;
    let logs = async |prefix: &str, limit| {
        let logs = store.logs("p", prefix, limit).await.unwrap();
        let entries = logs.into_iter().map(|log| (log.log, log.latest));
        let shown = entries.map(|(log, latest)| (log, latest.number, latest.json));
        shown.collect::<Vec<_>>()
    };
    let log = |name: &str, number, json: &str| (name.to_owned(), number, json.to_owned());
    let scenes = [log("s/1", 2, "\"d\""), log("s/2", 1, "\"b\"")];
    assert_eq!(logs("s/", 9).await, scenes);
    assert_eq!(logs("", 1).await, [log("t/1", 1, "\"c\"")]);
}

pub async fn the_documents_of_packs_are_limited(store: Arc<dyn Store>) {
    for name in ["a", "b"] {
        let put = store.put_document("p", name, "1", Some(2)).await;
        assert!(put.unwrap());
    }
    let third = store.put_document("p", "c", "1", Some(2)).await;
    assert_fails(third, StoreErrorKind::Full);
    assert_eq!(store.find_document("p", "c").await.unwrap(), None);
    assert!(!store.put_document("p", "a", "2", Some(2)).await.unwrap());
    // The documents of another pack do not count toward the limit.
    assert!(store.put_document("q", "c", "1", Some(1)).await.unwrap());

    let bounds = LogBounds {
        max_entries: Some(3),
        max_logs: Some(1),
    };
    for number in 1..=5 {
        let added = store.append_entry("p", "l", "1", at(number), bounds).await;
        assert_eq!(added.unwrap().number, number.unsigned_abs());
    }
    let retained = store.last_entries("p", "l", None, 9).await.unwrap();
    let numbers: Vec<_> = retained.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [3, 4, 5]);
    let second = store.append_entry("p", "m", "1", at(9), bounds).await;
    assert_fails(second, StoreErrorKind::Full);
    assert_eq!(store.logs("p", "", 9).await.unwrap().len(), 1);
    store.remove_log("p", "l").await.unwrap();
    let added = store.append_entry("p", "m", "1", at(9), bounds).await;
    assert_eq!(added.unwrap().number, 1);
}

pub async fn the_documents_of_packs_are_limited_under_concurrency(store: Arc<dyn Store>) {
    for round in 0..5 {
        let pack = format!("p{round}");
        let (mut logs, mut documents) = (JoinSet::new(), JoinSet::new());
        for number in 0..8 {
            let name = number.to_string();
            let bounds = LogBounds {
                max_entries: None,
                max_logs: Some(3),
            };
            let (appending, pack_name, log) = (Arc::clone(&store), pack.clone(), name.clone());
            logs.spawn(async move {
                let appended = appending.append_entry(&pack_name, &log, "1", at(1), bounds);
                appended.await.map(drop)
            });
            let (putting, pack_name) = (Arc::clone(&store), pack.clone());
            documents.spawn(async move {
                let put = putting.put_document(&pack_name, &name, "1", Some(3));
                put.await.map(drop)
            });
        }
        for outcomes in [logs.join_all().await, documents.join_all().await] {
            let rejections: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
            assert_eq!(rejections.len(), 5, "{rejections:?}");
            assert!(rejections.iter().all(|it| it.is_full()), "{rejections:?}");
        }
        assert_eq!(store.count_logs(&pack, "").await.unwrap(), 3);
        assert_eq!(store.count_documents(&pack, "").await.unwrap(), 3);
    }
}

pub async fn documents_and_logs_of_packs_are_counted_and_listed_by_name(store: Arc<dyn Store>) {
    for (pack, name) in [
        ("p", "s/b"),
        ("p", "s/a"),
        ("p", "s/c"),
        ("p", "t/a"),
        ("q", "s/d"),
    ] {
        append(&*store, pack, name, "1", 1).await;
        store.put_document(pack, name, "1", None).await.unwrap();
    }
    let newest = append(&*store, "p", "s/a", "2", 9).await;
    for (prefix, number) in [("s/", 3), ("", 4), ("S/", 0)] {
        assert_eq!(store.count_logs("p", prefix).await.unwrap(), number);
        assert_eq!(store.count_documents("p", prefix).await.unwrap(), number);
    }
    let names = async |after: Option<&str>, limit| {
        let logs = store.logs_by_name("p", "s/", after, limit).await.unwrap();
        logs.into_iter().map(|log| log.log).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 9).await, ["s/a", "s/b", "s/c"]);
    assert_eq!(names(None, 2).await, ["s/a", "s/b"]);
    // `after` may name a log that was removed.
    store.remove_log("p", "s/b").await.unwrap();
    assert_eq!(names(Some("s/b"), 2).await, ["s/c"]);
    assert!(names(Some("s/c"), 2).await.is_empty());
    let first = store.logs_by_name("p", "", None, 1).await.unwrap();
    assert_eq!(first[0].latest, newest);
    assert_eq!(store.count_logs("p", "s/").await.unwrap(), 2);
}

/// Number of times that each of two concurrent tasks repeats its operation.
const OFTEN: i64 = 40;

pub async fn a_log_removed_during_an_append_is_complete_or_gone(store: Arc<dyn Store>) {
    let growing = Arc::clone(&store);
    let growth = tokio::spawn(async move {
        let mut beginnings = 0;
        for number in 0..OFTEN {
            let added = append(&*growing, "p", "l", "1", number).await;
            beginnings += u64::from(added.number == 1);
        }
        beginnings
    });
    let removing = Arc::clone(&store);
    let removals = tokio::spawn(async move {
        let mut endings = 0;
        for _ in 0..OFTEN {
            endings += u64::from(removing.remove_log("p", "l").await.unwrap());
        }
        endings
    });
    let (beginnings, endings) = (growth.await.unwrap(), removals.await.unwrap());
    let is_there = store.count_logs("p", "").await.unwrap();
    // Every removed log had begun, and no log was removed partially.
    assert_eq!(beginnings, endings + is_there);
    let newest = append(&*store, "p", "l", "2", 99).await.number;
    let retained = store.last_entries("p", "l", None, 999).await.unwrap();
    let numbers: Vec<_> = retained.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, (1..=newest).collect::<Vec<_>>());
    assert_eq!(newest == 1, is_there == 0);
}

pub async fn a_document_removed_during_a_write_is_complete_or_gone(store: Arc<dyn Store>) {
    let putting = Arc::clone(&store);
    let growth = tokio::spawn(async move {
        let mut beginnings = 0;
        for _ in 0..OFTEN {
            let put = putting.put_document("p", "d", "1", Some(1)).await;
            beginnings += u64::from(put.unwrap());
        }
        beginnings
    });
    let removing = Arc::clone(&store);
    let removals = tokio::spawn(async move {
        let mut endings = 0;
        for _ in 0..OFTEN {
            endings += u64::from(removing.remove_document("p", "d").await.unwrap());
        }
        endings
    });
    let (beginnings, endings) = (growth.await.unwrap(), removals.await.unwrap());
    let is_there = store.count_documents("p", "").await.unwrap();
    // Every reported document was stored.
    assert_eq!(beginnings, endings + is_there);
}
