use std::os::unix::fs::PermissionsExt;

use futures_util::StreamExt;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::ToolOutput;

use super::*;
use crate::test_support::tool;

fn results(path: &Path, ttl: Duration, max_bytes: u64) -> Results {
    let directory = ResultDirectory {
        path: Arc::new(path.join("results")),
        write_lock: Arc::default(),
        health: Arc::default(),
    };
    let section = ResultsSection {
        directory: None,
        ttl,
        max_bytes,
    };
    directory.with_section(&section)
}

async fn put(results: &Results, text: &str) -> Result<StoredResult, ToolFailure> {
    let result = OversizedResult {
        tool: Arc::new(RegisteredTool::new(tool("long", "Returns a long text.")).unwrap()),
        context: CallContext::for_user("alice"),
        output: ToolOutput::text(text),
    };
    results.put(result).await
}

async fn read(found: OpenedResult, range: std::ops::Range<u64>) -> Vec<u8> {
    let stream = found.read(range).await.unwrap();
    let pieces: Vec<_> = stream.map(|piece| piece.unwrap()).collect().await;
    pieces.concat()
}

async fn text(results: &Results, id: &str) -> Option<String> {
    let found = results.find(id).await.unwrap()?;
    let all = 0..found.bytes;
    Some(String::from_utf8(read(found, all).await).unwrap())
}

#[tokio::test]
async fn h6_a_stored_result_is_read_in_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let results = results(directory.path(), HOUR, 1_000_000);
    let long: String = ('a'..='z').cycle().take(300_000).collect();
    let stored = put(&results, &long).await.unwrap();
    for range in [
        0..300_000,
        0..1,
        65_535..65_537,
        1..299_999,
        299_999..300_000,
    ] {
        let found = results.find(&stored.id).await.unwrap().unwrap();
        let stream = found.read(range.clone()).await.unwrap();
        let pieces: Vec<_> = stream.map(|piece| piece.unwrap()).collect().await;
        assert!(pieces.iter().all(|piece| piece.len() <= 65_536));
        let expected =
            &long[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
        assert!(pieces.concat() == expected.as_bytes(), "{range:?}");
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn l1_a_stored_result_has_mode_0600_and_only_its_owner_can_read_it() {
    let directory = tempfile::tempdir().unwrap();
    let results = results(directory.path(), HOUR, 10_000);
    assert!(results.find("0").await.unwrap().is_none());
    let stored = put(&results, "first\nsecond").await.unwrap();
    assert_eq!(stored.bytes, 12);
    assert_eq!(stored.url, format!("/api/v1/results/{}", stored.id));
    assert_eq!(text(&results, &stored.id).await.unwrap(), "first\nsecond");
    let found = results.find(&stored.id).await.unwrap().unwrap();
    assert!(found.header.belongs_to(&CallContext::for_user("alice")));
    assert!(!found.header.belongs_to(&CallContext::for_user("bob")));
    assert!(!found.header.belongs_to(&CallContext {
        principal: Some("token:ci".to_owned()),
        ..CallContext::for_user("alice")
    }));
    assert_eq!(read(found, 6..9).await, b"sec");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let path = directory.path().join("results");
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join(&stored.id)), 0o600);
    for odd in ["../results", "..", "", "/etc/passwd"] {
        assert!(results.find(odd).await.unwrap().is_none(), "{odd}");
    }
}

#[tokio::test]
async fn old_and_excess_results_are_removed_and_other_files_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let results_for = |ttl| results(directory.path(), ttl, 3_000);
    let stored = results_for(HOUR);
    let other = directory.path().join("results/mine.txt");
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(put(&stored, &"x".repeat(1_200)).await.unwrap().id);
        fs::write(&other, "mine").unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(text(&stored, &ids[0]).await.is_none());
    assert!(text(&stored, &ids[1]).await.is_some() && text(&stored, &ids[2]).await.is_some());
    assert!(put(&stored, &"x".repeat(3_001)).await.is_err());
    assert!(text(&stored, &ids[2]).await.is_some());

    let brief = results_for(Duration::from_millis(10));
    assert!(text(&brief, &ids[2]).await.is_none());
    let clean_up = brief.clean_up(SystemTime::now() - brief.ttl(), SystemTime::UNIX_EPOCH);
    clean_up.await;
    let files = fs::read_dir(directory.path().join("results")).unwrap();
    assert_eq!(files.count(), 1);
    assert!(other.exists());
}

#[tokio::test]
async fn c5_a_full_disk_is_a_clear_failure() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("results"), "in the way").unwrap();
    let results = results(directory.path(), HOUR, 3_000);
    let failure = put(&results, "text").await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_written_in_time_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let results = results(directory.path(), HOUR, 1_000_000);
    let writing = Arc::clone(&results.directory.write_lock);
    let is_locked = Arc::new(tokio::sync::Notify::new());
    let locked = Arc::clone(&is_locked);
    let (release, released) = std::sync::mpsc::sync_channel::<()>(1);
    let other = std::thread::spawn(move || {
        let _writing = writing.lock();
        locked.notify_one();
        let _ = released.recv();
    });
    is_locked.notified().await;
    let storing = tokio::spawn({
        let results = results.clone();
        async move { put(&results, "long").await }
    });
    tokio::task::yield_now().await;
    // The extra time of a process that was stopped meanwhile.
    tokio::time::advance(STORE_TIMEOUT + Duration::from_secs(2)).await;
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    let failure = storing.await.unwrap().unwrap_err();
    assert_eq!(failure.code, ErrorCode::Unavailable);
    drop(release);
    other.join().unwrap();
}
