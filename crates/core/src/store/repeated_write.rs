use std::time::Duration;

use super::StoreError;

/// Maximum number of attempts of [`write_once_available`].
const MAX_ATTEMPTS: u32 = 64;

/// Minimum and maximum pause between two attempts: each pause is twice as long as the previous
/// pause, up to the maximum.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(200);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Repeats a write while the store is unavailable, with at most 64 attempts over at least two
/// minutes. Intended for records of past events, for which no caller waits.
///
/// # Errors
/// The error of the last attempt, or an error other than `unavailable`.
pub async fn write_once_available<F>(write: impl Fn() -> F) -> Result<(), StoreError>
where
    F: Future<Output = Result<(), StoreError>>,
{
    let mut pause = MIN_RETRY_INTERVAL;
    for _ in 1..MAX_ATTEMPTS {
        match write().await {
            Err(error) if error.is_unavailable() => tokio::time::sleep(pause).await,
            outcome => return outcome,
        }
        pause = (pause * 2).min(MAX_RETRY_INTERVAL);
    }
    write().await
}
