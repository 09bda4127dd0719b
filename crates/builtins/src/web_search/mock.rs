use std::time::Duration;

use super::{Hit, Hits};

/// The approximate response time of a real service.
const RESPONSE_DELAY: Duration = Duration::from_millis(100);

/// Returns `max_results` invented results, after the delay of a real provider.
pub(super) async fn search(query: &str, max_results: u8) -> Hits {
    tokio::time::sleep(RESPONSE_DELAY).await;
    let hit = |rank: u8| {
        Hit::read(
            &format!("Result {rank} for '{query}'"),
            &format!("This is what result {rank} says about {query}."),
            &format!("https://example.com/result{rank}"),
        )
    };
    Hits {
        source: "mock",
        hits: (1..=max_results).filter_map(hit).collect(),
        total: Some(u64::from(max_results)),
    }
}
