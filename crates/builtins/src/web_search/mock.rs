use std::time::Duration;

use super::{Hit, Hits};

/// The delay of a mock response, which is about the response time of a real service.
const RESPONSE_DELAY: Duration = Duration::from_millis(100);

/// Returns `max_results` invented results after [`RESPONSE_DELAY`].
pub(super) async fn search(query: &str, max_results: u8) -> Hits {
    tokio::time::sleep(RESPONSE_DELAY).await;
    let create_hit = |rank: u8| {
        Hit::from_result(
            &format!("Result {rank} for '{query}'"),
            &format!("This is what result {rank} says about {query}."),
            &format!("https://example.com/result{rank}"),
        )
    };
    Hits {
        source: "mock",
        hits: (1..=max_results).filter_map(create_hit).collect(),
        total: Some(u64::from(max_results)),
    }
}
