use std::time::Duration;

use rand::RngExt;

/// However little a server asks for: a stream that closes at once is not to be a storm.
const SHORTEST: Duration = Duration::from_millis(100);

/// The longest pause that a server can ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// How long to wait before a stream that ended is asked for again. The pauses grow as long
/// as nothing comes of it.
#[derive(Debug)]
pub(super) struct Pauses {
    /// How far they grow; a server may ask for longer ones.
    longest: Duration,
    in_vain: u32,
}

impl Pauses {
    pub(super) fn up_to(longest: Duration) -> Self {
        Self {
            longest,
            in_vain: 0,
        }
    }

    /// Something came: the next pause is as short as the first.
    pub(super) fn begin_again(&mut self) {
        self.in_vain = 0;
    }

    /// The next pause, where the server asks for one of this length. Not shorter than that,
    /// and between half and all of what it has grown to, so that clients come one by one.
    pub(super) fn next(&mut self, asked: Duration) -> Duration {
        let asked = asked.clamp(SHORTEST, LONGEST_ASKED);
        let grown = asked.saturating_mul(2_u32.saturating_pow(self.in_vain));
        self.in_vain = self.in_vain.saturating_add(1);
        let jitter = rand::rng().random_range(0.5..=1.0);
        grown.min(self.longest).mul_f64(jitter).max(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_something_comes_and_are_never_shorter_than_asked() {
        let longest = Duration::from_secs(3);
        let mut pauses = Pauses::up_to(longest);
        assert_eq!(pauses.next(Duration::ZERO), SHORTEST);
        for nth in 1..50_u32 {
            let pause = pauses.next(Duration::ZERO);
            let grown = SHORTEST.saturating_mul(2_u32.saturating_pow(nth));
            let grown = grown.min(longest);
            assert!(pause >= grown.mul_f64(0.49) && pause <= grown, "{pause:?}");
        }
        pauses.begin_again();
        assert_eq!(pauses.next(Duration::ZERO), SHORTEST);
        let asked = Duration::from_secs(10);
        assert_eq!(pauses.next(asked), asked);
        assert_eq!(pauses.next(Duration::MAX), LONGEST_ASKED);
    }
}
