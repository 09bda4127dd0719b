use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// Maximum bytes of one principal, as a multiple of the free bytes. A principal alone may have 6/7
/// of the limit, so there is room for others at any time ("dynamic thresholds", Choudhury and
/// Hahne, 1998).
const MAX_SHARE: u64 = 6;

/// The response bytes of each principal, and the claims that wait for free bytes.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) limit: u64,
    total: u64,
    principals: HashMap<Arc<str>, u64>,
    next_claim_id: u64,
    /// The claims that wait, in order of arrival.
    claims: BTreeMap<u64, QueuedClaim>,
    /// The connections whose clients read nothing, by connection number.
    stalled: BTreeMap<u64, StalledConnection>,
}

pub(super) enum Claim {
    Granted,
    /// The id of the claim, and the receiver of the message that the claim is granted.
    Waiting(u64, oneshot::Receiver<()>),
}

struct QueuedClaim {
    principal: Arc<str>,
    bytes: u64,
    granted: oneshot::Sender<()>,
}

struct StalledConnection {
    principal: Arc<str>,
    since: Instant,
    bytes: u64,
    /// Whether the connection is about to close.
    is_closing: bool,
}

/// Why a claim does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// The principal has used up its share.
    Share,
    /// The responses of all principals together have too many bytes.
    Total,
}

impl Ledger {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Counts bytes, even above the limit.
    pub(super) fn add(&mut self, principal: &Arc<str>, bytes: u64) {
        if bytes > 0 {
            self.total += bytes;
            *self.principals.entry(Arc::clone(principal)).or_default() += bytes;
        }
    }

    /// Releases bytes, and grants claims that fit now.
    pub(super) fn subtract(&mut self, principal: &Arc<str>, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.total -= bytes;
        if let Some(held) = self.principals.get_mut(principal) {
            *held -= bytes;
            if *held == 0 {
                self.principals.remove(principal);
            }
        }
        self.grant();
    }

    pub(super) fn claim(&mut self, principal: &Arc<str>, bytes: u64) -> Claim {
        let (granted, grant) = oneshot::channel();
        let claim_id = self.next_claim_id;
        self.next_claim_id += 1;
        let claim = QueuedClaim {
            principal: Arc::clone(principal),
            bytes,
            granted,
        };
        self.claims.insert(claim_id, claim);
        self.grant();
        if self.claims.contains_key(&claim_id) {
            Claim::Waiting(claim_id, grant)
        } else {
            Claim::Granted
        }
    }

    /// Grants a claim only if it fits now and no other claim of the principal waits.
    pub(super) fn try_claim(&mut self, principal: &Arc<str>, bytes: u64) -> bool {
        let is_granted = !self.has_claims(principal) && self.obstacle(principal, bytes).is_none();
        if is_granted {
            self.add(principal, bytes);
        }
        is_granted
    }

    /// Returns whether a principal has bytes, or claims that wait.
    pub(super) fn is_used_by(&self, principal: &str) -> bool {
        self.principals.contains_key(principal) || self.has_claims(principal)
    }

    fn has_claims(&self, principal: &str) -> bool {
        let mut claims = self.claims.values();
        claims.any(|claim| *claim.principal == *principal)
    }

    /// Withdraws a claim; if it was granted, releases its bytes.
    pub(super) fn withdraw(&mut self, claim_id: u64, principal: &Arc<str>, bytes: u64) {
        match self.claims.remove(&claim_id) {
            Some(_) => self.grant(),
            None => self.subtract(principal, bytes),
        }
    }

    /// Grants the claims that fit, in order of arrival. A claim that does not fit delays only the
    /// later claims of its own principal: otherwise two principals could block all others.
    fn grant(&mut self) {
        let mut blocked: Vec<Arc<str>> = Vec::new();
        let mut fitting = Vec::new();
        let claim_ids: Vec<u64> = self.claims.keys().copied().collect();
        for claim_id in claim_ids {
            let Some(claim) = self.claims.get(&claim_id) else {
                continue;
            };
            if blocked.contains(&claim.principal) {
                continue;
            }
            let (principal, bytes) = (Arc::clone(&claim.principal), claim.bytes);
            match self.obstacle(&principal, bytes) {
                None => {
                    self.add(&principal, bytes);
                    fitting.extend(self.claims.remove(&claim_id));
                }
                Some(_) => blocked.push(principal),
            }
        }
        for claim in fitting {
            // Without a receiver, the claim is granted at once or withdrawn.
            let _ = claim.granted.send(());
        }
    }

    /// Returns why `bytes` more bytes of a principal do not fit, if so. A response that is larger
    /// than half of the limit counts as half of the limit, so that it can be delivered at all.
    fn obstacle(&self, principal: &str, bytes: u64) -> Option<Obstacle> {
        let bytes = bytes.min(self.limit / 2);
        let total = self.total + bytes;
        let held = self.principals.get(principal).copied().unwrap_or(0);
        // Checked first, because a principal that has used up its share waits for its own
        // responses.
        if held > 0 && held + bytes > MAX_SHARE * self.limit.saturating_sub(total) {
            return Some(Obstacle::Share);
        }
        (total > self.limit).then_some(Obstacle::Total)
    }

    /// Records that the client of a connection has read nothing since `since`. Returns whether the
    /// connection must be closed.
    pub(super) fn note_stall(
        &mut self,
        number: u64,
        principal: &Arc<str>,
        bytes: u64,
        since: Instant,
    ) -> bool {
        if self.stalled.values().any(|stalled| stalled.is_closing) {
            return false;
        }
        let stalled = StalledConnection {
            principal: Arc::clone(principal),
            since,
            bytes,
            is_closing: false,
        };
        self.stalled.insert(number, stalled);
        let is_closing = self.next_to_close() == Some(number);
        if let Some(stalled) = self.stalled.get_mut(&number) {
            stalled.is_closing = is_closing;
        }
        is_closing
    }

    pub(super) fn clear_stall(&mut self, number: u64) {
        self.stalled.remove(&number);
    }

    /// Returns the connection to close so that a waiting claim fits: the connection that has
    /// stalled for the longest time, of the principal whose share is used up, or else of the
    /// principal with the most bytes.
    fn next_to_close(&self) -> Option<u64> {
        let mut blocked: Vec<&str> = Vec::new();
        for claim in self.claims.values() {
            if blocked.contains(&&*claim.principal) {
                continue;
            }
            let victim = match self.obstacle(&claim.principal, claim.bytes) {
                None => None,
                Some(Obstacle::Share) => self.longest_stalled(&claim.principal),
                Some(Obstacle::Total) => return self.longest_stalled_of_largest(),
            };
            if victim.is_some() {
                return victim;
            }
            blocked.push(&claim.principal);
        }
        // The total may exceed the limit, because `Ledger::add` has no limit.
        let is_over = self.total > self.limit;
        is_over.then(|| self.longest_stalled_of_largest()).flatten()
    }

    fn longest_stalled_of_largest(&self) -> Option<u64> {
        let holding = self
            .stalled
            .values()
            .filter(|connection| connection.bytes > 0);
        let principals = holding.map(|connection| &connection.principal);
        let largest = principals.max_by_key(|principal| self.principals.get(*principal))?;
        self.longest_stalled(largest)
    }

    fn longest_stalled(&self, principal: &str) -> Option<u64> {
        let holding = self
            .stalled
            .iter()
            .filter(|(_, connection)| connection.bytes > 0);
        let held = holding.filter(|(_, connection)| &*connection.principal == principal);
        held.min_by_key(|(number, connection)| (connection.since, **number))
            .map(|(number, _)| *number)
    }

    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        self.total == self.principals.values().sum::<u64>()
    }

    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.principals.is_empty() && self.claims.is_empty() && self.stalled.is_empty()
    }
}
