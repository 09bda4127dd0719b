//! Limits, for each principal, the memory that the limit on connections does not bound:
//!
//! - the memory of requests that continue after their clients have disconnected, or that wait for
//!   their clients' next requests;
//! - the memory of the JSON values of parsed requests.
//!
//! A request whose client waits for the response is *attached*. The maximum number of connections
//! and the maximum size of bodies already bound the text of attached requests. Only their JSON
//! values, which need many times the memory of the text, count toward the principal's limits. A
//! *detached* request, whose client no longer waits, counts toward its principal's limits until the
//! request ends.

mod attachment;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pillion_core::json_values::{MAX_VALUES, count_with_texts};
use serde_json::Value;

pub use attachment::{Attachment, CommittedAttachment, RunGuard};

/// Estimated number of copies of a request's text that the request's task holds, such as the
/// request, the parameters for an upstream server, and the arguments of the call.
const TEXT_COPIES: u64 = 4;

/// Estimated memory of each JSON value, in bytes. This is twice the value's size, because lists
/// grow by doubling.
const VALUE_BYTES: u64 = 2 * size_of::<Value>() as u64;

/// Limits the memory of the JSON values in requests whose clients wait for the response. The
/// requests of one principal may together contain as many values as a single JSON text may contain.
pub const REQUEST_VALUE_LIMITS: AccountLimits = AccountLimits {
    principal: Usage {
        count: usize::MAX,
        bytes: MAX_VALUES as u64 * VALUE_BYTES,
    },
    total: Usage {
        count: usize::MAX,
        bytes: 2 * MAX_VALUES as u64 * VALUE_BYTES,
    },
};

/// A number of requests and their memory: the usage of an account, or a limit on the usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of requests.
    pub count: usize,
    /// The memory of the requests, in bytes.
    pub bytes: u64,
}

impl Usage {
    /// Returns the usage of one request with `bytes` bytes.
    #[must_use]
    pub fn for_request(bytes: u64) -> Self {
        Self { count: 1, bytes }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_sub(other.count),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn is_within(self, limit: Self) -> bool {
        self.count <= limit.count && self.bytes <= limit.bytes
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), Self::plus)
    }
}

/// Limits on the usage of each principal's account and on the usage of all accounts together.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccountLimits {
    /// Maximum usage of each principal.
    pub principal: Usage,
    /// Maximum usage of all principals together. A principal may use at most as much as remains
    /// free for others, so that no group of principals uses up the total.
    pub total: Usage,
}

/// Counts the requests of each principal and their memory, and enforces the limits.
#[derive(Debug, Default)]
pub struct PrincipalAccounts(Mutex<Accounts>);

#[derive(Debug, Default)]
struct Accounts {
    limits: AccountLimits,
    total: Usage,
    usages: HashMap<Option<String>, Usage>,
}

/// A reservation of requests and memory in a principal's account. Dropping the value releases the
/// reservation.
#[derive(Debug)]
pub struct AccountReservation {
    accounts: Arc<PrincipalAccounts>,
    principal: Option<String>,
    usage: Usage,
}

impl PrincipalAccounts {
    /// Creates accounts with the limits `limits`.
    #[must_use]
    pub fn new(limits: AccountLimits) -> Self {
        let accounts = Self::default();
        accounts.set_limits(limits);
        accounts
    }

    /// Changes the limits. Existing reservations stay valid, even above the new limits.
    pub fn set_limits(&self, limits: AccountLimits) {
        self.0.lock().limits = limits;
    }

    /// Reserves `usage` in the account of `principal`. Returns `None` if the usage would exceed a
    /// limit.
    pub fn try_reserve(
        self: &Arc<Self>,
        principal: Option<&str>,
        usage: Usage,
    ) -> Option<AccountReservation> {
        let mut accounts = self.0.lock();
        let principal_usage = accounts.usage_of_principal(principal);
        let is_within_limits = accounts.admits(principal_usage, usage);
        is_within_limits.then(|| self.add(&mut accounts, principal, usage))
    }

    /// Reserves `usage` in the account of `principal`, even above the limits, for a request that
    /// cannot be cancelled.
    fn reserve_above_limits(
        self: &Arc<Self>,
        principal: Option<&str>,
        usage: Usage,
    ) -> AccountReservation {
        self.add(&mut self.0.lock(), principal, usage)
    }

    fn add(
        self: &Arc<Self>,
        accounts: &mut Accounts,
        principal: Option<&str>,
        usage: Usage,
    ) -> AccountReservation {
        let principal = principal.map(str::to_owned);
        let principal_usage = accounts.usages.entry(principal.clone()).or_default();
        *principal_usage = principal_usage.plus(usage);
        accounts.total = accounts.total.plus(usage);
        AccountReservation {
            accounts: Arc::clone(self),
            principal,
            usage,
        }
    }

    /// Returns whether [`try_reserve`](Self::try_reserve) would accept `usage` after the release of
    /// `freed_usage`, a part of the principal's current usage.
    pub fn would_fit(&self, principal: Option<&str>, usage: Usage, freed_usage: Usage) -> bool {
        let mut accounts = self.0.lock();
        let remaining_usage = accounts.usage_of_principal(principal).minus(freed_usage);
        let total = accounts.total;
        accounts.total = total.minus(freed_usage);
        let is_within_limits = accounts.admits(remaining_usage, usage);
        accounts.total = total;
        is_within_limits
    }

    /// Returns whether the account of `principal` has reached a limit.
    pub fn is_full(&self, principal: Option<&str>) -> bool {
        let accounts = self.0.lock();
        let usage = accounts.usage_of_principal(principal);
        !accounts.admits(usage, Usage::for_request(1))
    }

    /// Returns the total usage of all principals.
    pub fn total(&self) -> Usage {
        self.0.lock().total
    }
}

impl Accounts {
    fn usage_of_principal(&self, principal: Option<&str>) -> Usage {
        // The search is linear, because a lookup would need a copy of the name. Only principals
        // with reservations have entries.
        let mut usages = self.usages.iter();
        let own_usage = usages.find(|(name, _)| name.as_deref() == principal);
        own_usage.map_or_else(Usage::default, |(_, usage)| *usage)
    }

    fn admits(&self, principal_usage: Usage, added_usage: Usage) -> bool {
        let new_usage = principal_usage.plus(added_usage);
        let total = self.total.plus(added_usage);
        total.is_within(self.limits.total)
            && new_usage.is_within(self.limits.principal)
            && new_usage.is_within(self.limits.total.minus(total))
    }
}

impl Drop for AccountReservation {
    fn drop(&mut self) {
        let mut accounts = self.accounts.0.lock();
        accounts.total = accounts.total.minus(self.usage);
        if let Some(principal_usage) = accounts.usages.get_mut(&self.principal) {
            *principal_usage = principal_usage.minus(self.usage);
            if *principal_usage == Usage::default() {
                accounts.usages.remove(&self.principal);
            }
        }
    }
}

impl AccountReservation {
    /// Returns the reserved usage.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }
}

/// Returns the approximate memory of a request with this JSON text, in bytes.
#[must_use]
pub fn json_memory(text: &str) -> u64 {
    let text_bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    // The outermost value is not counted, because the estimate for the text includes its memory.
    let value_count = count_with_texts(text.as_bytes()) - 1;
    text_bytes
        .saturating_mul(TEXT_COPIES)
        .saturating_add(values_memory(value_count))
}

/// Returns the approximate memory of `value_count` JSON values, in bytes.
#[must_use]
pub fn values_memory(value_count: usize) -> u64 {
    let value_count = u64::try_from(value_count).unwrap_or(u64::MAX);
    value_count.saturating_mul(VALUE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(count: usize, bytes: u64) -> Usage {
        Usage { count, bytes }
    }

    fn accounts(principal: Usage, total: Usage) -> Arc<PrincipalAccounts> {
        Arc::new(PrincipalAccounts::new(AccountLimits { principal, total }))
    }

    #[test]
    fn a_principal_is_limited_in_number_and_bytes_and_leaves_room_for_others() {
        let accounts = accounts(usage(3, 100), usage(8, 160));
        let (eve, ann) = (Some("token:eve"), Some("token:ann"));
        assert!(accounts.try_reserve(eve, usage(1, 101)).is_none());
        // A principal may use at most as much as stays free for others: 80 of 160.
        assert!(accounts.try_reserve(eve, usage(1, 81)).is_none());
        let first = accounts.try_reserve(eve, usage(1, 80)).unwrap();
        assert!(accounts.is_full(eve) && !accounts.is_full(ann));
        assert!(accounts.try_reserve(ann, usage(1, 41)).is_none());
        let second = accounts.try_reserve(ann, usage(1, 40)).unwrap();
        assert!(accounts.try_reserve(None, usage(1, 20)).is_some());
        drop(first);
        let reservations = (0..3).map_while(|_| accounts.try_reserve(eve, usage(1, 1)));
        let more: Vec<_> = reservations.collect();
        assert_eq!(more.len(), 3);
        assert!(accounts.is_full(eve), "three requests");
        assert!(accounts.try_reserve(eve, usage(1, 0)).is_none());
        // `would_fit` subtracts the usage that is released first.
        assert!(!accounts.would_fit(eve, usage(1, 50), Usage::default()));
        assert!(accounts.would_fit(eve, usage(1, 50), more[0].usage()));
        drop((second, more));
        assert_eq!(accounts.total(), Usage::default());
        assert!(accounts.0.lock().usages.is_empty());
    }

    #[test]
    fn many_principals_together_stay_within_the_total() {
        let accounts = accounts(usage(1_000, 1_000), usage(1_000, 1_000));
        let mut reservations = Vec::new();
        for name in 0..100 {
            let name = format!("token:{name}");
            while let Some(reservation) = accounts.try_reserve(Some(&name), usage(1, 1)) {
                reservations.push(reservation);
            }
        }
        let total = accounts.total();
        assert!(total.count <= 1_000 && total.bytes <= 1_000, "{total:?}");
        assert!(reservations.len() > 900, "{}", reservations.len());
        // Memory is reserved for work that cannot be cancelled, too.
        reservations.push(accounts.reserve_above_limits(None, usage(1, 5_000)));
        assert!(accounts.is_full(Some("token:new")));
        drop(reservations);
        assert_eq!(accounts.total(), Usage::default());
    }

    #[test]
    fn many_small_values_count_more_than_their_text() {
        let numbers = "[0,0,0,0]";
        let text = "\"000000000\"";
        assert!(json_memory(numbers) > 10 * json_memory(text) / 2);
        assert!(json_memory(&"[".repeat(1_000)) >= 1_000 * VALUE_BYTES);
    }
}
