use std::time::Duration;

use rand::RngExt;

/// Minimum pause between two streams, even if the server requests less, so that streams that close
/// at once do not cause a flood of requests.
const MIN_STREAM_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum pause that a server can request.
const MAX_REQUESTED_INTERVAL: Duration = Duration::from_secs(60);

/// Computes the pause between the end of a stream and the request for the next one. The backoff
/// grows while streams deliver no messages.
#[derive(Debug)]
pub(super) struct Pauses {
    /// Maximum backoff; the server may request a longer pause.
    max_pause: Duration,
    empty_stream_count: u32,
}

impl Pauses {
    pub(super) fn with_max(max_pause: Duration) -> Self {
        Self {
            max_pause,
            empty_stream_count: 0,
        }
    }

    /// Resets the backoff after a stream that delivered a message.
    pub(super) fn reset(&mut self) {
        self.empty_stream_count = 0;
    }

    /// Returns the next pause, which is the current backoff, but at least the pause that the server
    /// requested. The backoff is randomly reduced by up to half, so that many clients do not
    /// reconnect at the same time.
    pub(super) fn next_pause(&mut self, requested_pause: Duration) -> Duration {
        let min_pause = requested_pause.clamp(MIN_STREAM_INTERVAL, MAX_REQUESTED_INTERVAL);
        let backoff = min_pause.saturating_mul(2_u32.saturating_pow(self.empty_stream_count));
        self.empty_stream_count = self.empty_stream_count.saturating_add(1);
        let jitter = rand::rng().random_range(0.5..=1.0);
        backoff.min(self.max_pause).mul_f64(jitter).max(min_pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_data_arrives_and_are_at_least_the_requested_time() {
        let max_pause = Duration::from_secs(3);
        let mut pauses = Pauses::with_max(max_pause);
        assert_eq!(pauses.next_pause(Duration::ZERO), MIN_STREAM_INTERVAL);
        for nth in 1..50_u32 {
            let pause = pauses.next_pause(Duration::ZERO);
            let grown = MIN_STREAM_INTERVAL
                .saturating_mul(2_u32.saturating_pow(nth))
                .min(max_pause);
            assert!(pause >= grown.mul_f64(0.49) && pause <= grown, "{pause:?}");
        }
        pauses.reset();
        assert_eq!(pauses.next_pause(Duration::ZERO), MIN_STREAM_INTERVAL);
        let requested_pause = Duration::from_secs(10);
        assert_eq!(pauses.next_pause(requested_pause), requested_pause);
        assert_eq!(pauses.next_pause(Duration::MAX), MAX_REQUESTED_INTERVAL);
    }
}
