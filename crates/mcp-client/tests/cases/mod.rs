//! Runs tests with many cases concurrently.

use futures_util::StreamExt;
use futures_util::stream::iter;

/// Plays all cases, at most `concurrency` at a time. Panics if `play` returns a description of what
/// went wrong in a case.
pub async fn play_all<Case, F>(cases: Vec<Case>, concurrency: usize, play: impl Fn(Case) -> F)
where
    F: Future<Output = Option<String>> + Send + 'static,
{
    let count = cases.len();
    let wrong: Vec<String> = iter(cases)
        .map(|case| tokio::spawn(play(case)))
        .buffer_unordered(concurrency)
        .filter_map(|played| std::future::ready(played.unwrap()))
        .collect()
        .await;
    let listed = wrong[..wrong.len().min(40)].join("\n");
    assert!(
        wrong.is_empty(),
        "{} of {count} cases:\n{listed}",
        wrong.len()
    );
}
