//! Measures the cost of a search among the 100,000 memories of one channel (docs/adr/0029).
//!
//! `cargo bench -p pillion-store --bench memories`

use std::error::Error;

use criterion::Criterion;
use pillion_core::store::{Memory, MemoryCategory, MemorySearch, MemoryStore, Timestamp};
use pillion_store::{SqlStore, StoreOptions};
use tokio::runtime::Builder;

const MEMORIES: usize = 100_000;

/// Returns meaningless words that are the same in every run.
fn text(nth: usize) -> String {
    let word = |index: usize| {
        let mut seed = (nth * 20 + index).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let letters = (0..6).map(|_| {
            let letter = b'a' + u8::try_from(seed % 26).unwrap_or(0);
            seed /= 26;
            char::from(letter)
        });
        letters.collect::<String>()
    };
    (0..20).map(word).collect::<Vec<_>>().join(" ")
}

async fn fill(store: &SqlStore) -> Result<(), Box<dyn Error>> {
    let now = Timestamp::now();
    for nth in 0..MEMORIES {
        // The channel has 5,000 shared memories, 10,000 memories of one user, and several hundred
        // memories of each other user.
        let user = match nth % 100 {
            0..5 => None,
            5..15 => Some("talkative".to_owned()),
            other => Some(format!("user {other} {}", nth % 3)),
        };
        let memory = Memory {
            id: nth.to_string(),
            channel: "table".to_owned(),
            user,
            category: MemoryCategory::Fact,
            content: text(nth),
            importance: 1,
            created_at: now,
            last_accessed_at: now,
        };
        store.insert_memory(&memory, u32::MAX).await?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let directory = tempfile::tempdir()?;
    let options = StoreOptions::at_file(directory.path().join("pillion.db"));
    let store = runtime.block_on(SqlStore::open(&options))?;
    runtime.block_on(fill(&store))?;
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    let mut group = criterion.benchmark_group("search_memories");
    for (name, user) in [("few", "user 50 0"), ("many", "talkative")] {
        let search = MemorySearch {
            channel: "table".to_owned(),
            user: Some(user.to_owned()),
            query: "nosuchword".to_owned(),
            limit: 5,
        };
        group.bench_function(name, |bencher| {
            bencher.iter(|| runtime.block_on(store.search_memories(&search, Timestamp::now())));
        });
    }
    group.finish();
    criterion.final_summary();
    runtime.block_on(store.close());
    Ok(())
}
