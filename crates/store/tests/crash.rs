//! What was acknowledged is there, however the process ended.

use std::collections::HashMap;
use std::io::BufReader;
use std::time::Duration;

use pillion_core::store::{CallId, CallLog, CallStatus};
use pillion_store::{SqlStore, StoreOptions};

use crate::other_process;

#[tokio::test]
async fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let program = std::env::current_exe().unwrap();
    let mut acknowledged: HashMap<CallId, CallStatus> = HashMap::new();
    for round in 0..12_u64 {
        let mut child = other_process::command(&program, "write", &file)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = other_process::says(output);
        let first = lines.next().unwrap();
        // Another moment in each round.
        std::thread::sleep(Duration::from_millis((round * 37) % 120));
        child.kill().unwrap();
        for line in std::iter::once(first).chain(lines) {
            let (id, status) = line.split_once(' ').unwrap();
            let Some(status) = CallStatus::from_name(status) else {
                continue; // The kill cut this line.
            };
            acknowledged.insert(id.parse().unwrap(), status);
        }
        child.wait().unwrap();
    }
    assert!(acknowledged.len() > 12 * 8, "{}", acknowledged.len());
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    for (id, status) in acknowledged {
        let stored = store.call(id).await.unwrap();
        let stored = stored.unwrap_or_else(|| panic!("{id} is lost")).status;
        // A write may have come through whose acknowledgement did not.
        let further = status == CallStatus::Running && stored == CallStatus::Success;
        assert!(
            stored == status || further,
            "{id}: {stored:?}, {status:?} was acknowledged"
        );
    }
}
