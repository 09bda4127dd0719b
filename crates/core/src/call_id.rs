use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::{NoContext, Uuid};

use crate::timestamp::Timestamp;

/// Maximum time by which the system clock may be set back without affecting the order of new IDs.
/// After a larger step, new IDs contain the time of the changed clock.
const MAX_CLOCK_STEP_BACK: Duration = Duration::from_secs(10);

/// The ID of a recorded call: a UUID version 7. The ID begins with its creation time, so IDs sort
/// in the order in which the calls arrived, and a time range corresponds to a range of IDs.
///
/// ```
/// use pillion_core::store::CallId;
/// let (first, second) = (CallId::new(), CallId::new());
/// assert!(first < second);
/// assert_eq!(first.to_string().parse(), Ok(first));
/// assert!("b3a7d1f0-0000-4000-8000-000000000000".parse::<CallId>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId([u8; 16]);

impl CallId {
    /// Creates an ID that is greater than every earlier ID of this process. Exception: while the
    /// system clock is more than ten seconds behind the time of an earlier ID, new IDs are smaller
    /// than that ID, and IDs of the same millisecond are in no order.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "each call returns a different ID, unlike most `default` functions"
    )]
    pub fn new() -> Self {
        Self::clamp_time(Self(Uuid::now_v7().into_bytes()), SystemTime::now())
    }

    /// Returns `id`, or an ID with the time `now` if the time of `id` is too far in the future.
    /// After the system clock was set back, the `uuid` crate reuses its latest time until the clock
    /// has caught up. Without this function, all calls could seem to arrive at one future time for
    /// hours.
    fn clamp_time(id: Self, now: SystemTime) -> Self {
        if id.creation_time() <= Timestamp::from(now).plus(MAX_CLOCK_STEP_BACK) {
            return id;
        }
        let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = uuid::Timestamp::from_unix(
            NoContext,
            since_epoch.as_secs(),
            since_epoch.subsec_nanos(),
        );
        Self(Uuid::new_v7(time).into_bytes())
    }

    /// Returns the smallest ID for this time: calls at or after this time have this ID or a greater
    /// one.
    #[must_use]
    pub fn min_at(time: Timestamp) -> Self {
        let max_milliseconds = (1_u64 << 48) - 1;
        let milliseconds = u64::try_from(time.as_millis())
            .unwrap_or(0)
            .min(max_milliseconds);
        let mut id = [0; 16];
        id[..6].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
        id[6] = 0x70;
        id[8] = 0x80;
        Self(id)
    }

    /// Returns this ID plus `offset`, with the same time, so that the IDs of many calls can be
    /// computed from the first ID. The returned ID is as unlikely to collide as a new ID.
    #[must_use]
    pub fn nth(self, offset: u64) -> Self {
        // The random bits of the ID. The other bits are the time, the version and the variant.
        const RANDOM_BITS: u128 = (1 << 62) - 1;
        let id = u128::from_be_bytes(self.0);
        let random_bits = (id & RANDOM_BITS).wrapping_add(u128::from(offset)) & RANDOM_BITS;
        Self(((id & !RANDOM_BITS) | random_bits).to_be_bytes())
    }

    /// Returns the time in the ID, to the millisecond.
    #[must_use]
    pub fn creation_time(self) -> Timestamp {
        let mut milliseconds = [0; 8];
        milliseconds[2..].copy_from_slice(&self.0[..6]);
        Timestamp::from_millis(i64::from_be_bytes(milliseconds))
    }

    /// Returns the 16 bytes of the ID.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl TryFrom<&[u8]> for CallId {
    type Error = CallIdError;

    fn try_from(bytes: &[u8]) -> Result<Self, CallIdError> {
        let id = Uuid::from_slice(bytes).map_err(|_| CallIdError)?;
        if id.get_version_num() == 7 {
            Ok(Self(id.into_bytes()))
        } else {
            Err(CallIdError)
        }
    }
}

impl FromStr for CallId {
    type Err = CallIdError;

    fn from_str(text: &str) -> Result<Self, CallIdError> {
        let id = Uuid::parse_str(text).map_err(|_| CallIdError)?;
        Self::try_from(&id.as_bytes()[..])
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Uuid::from_bytes(self.0), f)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error for a text or bytes that are not a UUID of version 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid call ID: expected a UUID of version 7")]
pub struct CallIdError;

#[cfg(test)]
mod tests {
    #[test]
    fn ids_increase_after_the_clock_was_set_back() {
        let id = CallId::new();
        let little = SystemTime::now() - Duration::from_secs(5);
        assert_eq!(CallId::clamp_time(id, little), id);
        let much = SystemTime::now() - Duration::from_secs(5 * 3600);
        let behind = CallId::clamp_time(id, much);
        assert_eq!(behind.creation_time(), Timestamp::from(much));
        assert_eq!(behind.to_string().parse(), Ok(behind));
        // A clock before 1970 still gives a valid ID.
        let first = CallId::clamp_time(id, UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(first.creation_time(), Timestamp::from_millis(0));
    }

    use super::*;

    #[test]
    fn consecutive_ids_have_the_same_creation_time() {
        let first = CallId::new();
        assert_eq!(first.nth(0), first);
        let ids: Vec<_> = (0..100).map(|offset| first.nth(offset)).collect();
        for (offset, id) in ids.iter().enumerate() {
            assert!(!ids[..offset].contains(id));
            assert_eq!(id.creation_time(), first.creation_time());
            assert_eq!(id.to_string().parse(), Ok(*id));
        }
        let last_id: CallId = "01a1ffe6-6261-728a-bfff-ffffffffffff".parse().unwrap();
        assert_eq!(
            last_id.nth(1).to_string(),
            "01a1ffe6-6261-728a-8000-000000000000"
        );
    }

    #[test]
    fn an_id_contains_its_creation_time() {
        let time = Timestamp::from_millis(1_764_000_000_123);
        let first = CallId::min_at(time);
        assert_eq!(first.creation_time(), time);
        assert_eq!(first.to_string().parse(), Ok(first));
        let before = Timestamp::now();
        assert!(CallId::new() >= CallId::min_at(before));
        assert!(CallId::min_at(Timestamp::from_millis(-1)) < first);
        assert!(CallId::min_at(Timestamp::from_millis(i64::MAX)) > CallId::new());
    }
}
