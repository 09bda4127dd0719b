use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// How many times the free bytes one principal may have. Alone, it may have 6/7 of the limit,
/// so there is room for others at any time ("dynamic thresholds", Choudhury and Hahne, 1998).
const MAX_SHARE: u64 = 6;

/// Who has how many bytes, and which claims wait for room.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) limit: u64,
    total: u64,
    principals: HashMap<Arc<str>, u64>,
    next_ticket: u64,
    /// The claims that wait, in order of arrival.
    claims: BTreeMap<u64, WaitingClaim>,
    /// The connections whose clients read nothing, by number.
    stalled: BTreeMap<u64, Stalled>,
}

pub(super) enum Claim {
    Granted,
    /// The ticket of the claim, and its grant.
    Waiting(u64, oneshot::Receiver<()>),
}

struct WaitingClaim {
    principal: Arc<str>,
    bytes: u64,
    granted: oneshot::Sender<()>,
}

struct Stalled {
    principal: Arc<str>,
    since: Instant,
    bytes: u64,
    /// Whether the connection is about to close.
    closes: bool,
}

/// Why there is no room for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// The principal has its share.
    Share,
    /// All principals together have too many bytes.
    Total,
}

impl Ledger {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Counts bytes even if there is no room.
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
        if let Some(own) = self.principals.get_mut(principal) {
            *own -= bytes;
            if *own == 0 {
                self.principals.remove(principal);
            }
        }
        self.grant();
    }

    pub(super) fn claim(&mut self, principal: &Arc<str>, bytes: u64) -> Claim {
        let (granted, grant) = oneshot::channel();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let claim = WaitingClaim {
            principal: Arc::clone(principal),
            bytes,
            granted,
        };
        self.claims.insert(ticket, claim);
        self.grant();
        if self.claims.contains_key(&ticket) {
            Claim::Waiting(ticket, grant)
        } else {
            Claim::Granted
        }
    }

    /// Withdraws a claim; if it was granted, releases its bytes.
    pub(super) fn withdraw(&mut self, ticket: u64, principal: &Arc<str>, bytes: u64) {
        match self.claims.remove(&ticket) {
            Some(_) => self.grant(),
            None => self.subtract(principal, bytes),
        }
    }

    /// Grants the claims that fit, in order of arrival. A claim that waits for its principal's share
    /// does not hold up other principals.
    fn grant(&mut self) {
        let mut blocked: Vec<Arc<str>> = Vec::new();
        let mut fitting = Vec::new();
        let tickets: Vec<u64> = self.claims.keys().copied().collect();
        for ticket in tickets {
            let Some(claim) = self.claims.get(&ticket) else {
                continue;
            };
            if blocked.contains(&claim.principal) {
                continue;
            }
            let (principal, bytes) = (Arc::clone(&claim.principal), claim.bytes);
            match self.obstacle(&principal, bytes) {
                None => {
                    self.add(&principal, bytes);
                    fitting.extend(self.claims.remove(&ticket));
                }
                Some(Obstacle::Share) => blocked.push(principal),
                Some(Obstacle::Total) => break,
            }
        }
        for claim in fitting {
            // Without a receiver, the claim is granted at once or withdrawn.
            let _ = claim.granted.send(());
        }
    }

    /// Returns why there is no room for further `bytes` of a principal. A response that is larger
    /// than half of the limit counts as half of it, so that it can be delivered at all.
    fn obstacle(&self, principal: &str, bytes: u64) -> Option<Obstacle> {
        let bytes = bytes.min(self.limit / 2);
        let total = self.total + bytes;
        if total > self.limit {
            return Some(Obstacle::Total);
        }
        let own = self.principals.get(principal).copied().unwrap_or(0);
        let is_within_share = own == 0 || own + bytes <= MAX_SHARE * (self.limit - total);
        (!is_within_share).then_some(Obstacle::Share)
    }

    /// Records that the client of a connection has read nothing since `since`. Returns whether the
    /// connection is to be closed.
    pub(super) fn stalled(
        &mut self,
        number: u64,
        principal: &Arc<str>,
        bytes: u64,
        since: Instant,
    ) -> bool {
        if self.stalled.values().any(|stalled| stalled.closes) {
            return false;
        }
        let stalled = Stalled {
            principal: Arc::clone(principal),
            since,
            bytes,
            closes: false,
        };
        self.stalled.insert(number, stalled);
        let closes = self.next_to_close() == Some(number);
        if let Some(stalled) = self.stalled.get_mut(&number) {
            stalled.closes = closes;
        }
        closes
    }

    pub(super) fn clear_stall(&mut self, number: u64) {
        self.stalled.remove(&number);
    }

    /// Returns the connection to close so that a claim that waits gets room: of the principal whose
    /// share is used up, or else of the principal with the most bytes, the connection that has
    /// stalled for the longest time.
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
        // Events are counted even if there is no room.
        let is_over = self.total > self.limit;
        is_over.then(|| self.longest_stalled_of_largest()).flatten()
    }

    fn longest_stalled_of_largest(&self) -> Option<u64> {
        let holding = self.stalled.values().filter(|it| it.bytes > 0);
        let principals = holding.map(|it| &it.principal);
        let largest = principals.max_by_key(|principal| self.principals.get(*principal))?;
        self.longest_stalled(largest)
    }

    fn longest_stalled(&self, principal: &str) -> Option<u64> {
        let holding = self.stalled.iter().filter(|(_, it)| it.bytes > 0);
        let own = holding.filter(|(_, it)| &*it.principal == principal);
        own.min_by_key(|(number, it)| (it.since, **number))
            .map(|(number, _)| *number)
    }
}
