use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// Maximum number of bytes that one principal may hold, as a multiple of the bytes that no
/// principal holds. A single active principal can hold at most 6/7 of the memory limit, so that
/// memory always remains for others ("dynamic thresholds", Choudhury and Hahne, 1998).
const MAX_SHARE_FACTOR: u64 = 6;

/// The response bytes of each principal, and the claims that wait for memory.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) limit: u64,
    total: u64,
    principals: HashMap<Arc<str>, u64>,
    next_claim_id: u64,
    /// The claims that wait, in order of arrival.
    claims: BTreeMap<u64, QueuedClaim>,
    /// The connections whose clients read nothing, by connection number.
    stalled_connections: BTreeMap<u64, StalledConnection>,
}

pub(super) enum ClaimOutcome {
    Granted,
    /// The claim waits. Contains its ID, and a receiver that is notified when the claim is granted.
    Waiting(u64, oneshot::Receiver<()>),
}

struct QueuedClaim {
    principal: Arc<str>,
    bytes: u64,
    grant_sender: oneshot::Sender<()>,
}

struct StalledConnection {
    principal: Arc<str>,
    stalled_since: Instant,
    bytes: u64,
    /// Whether the connection is about to close.
    is_closing: bool,
}

/// Why the bytes of a claim do not fit into the memory limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimObstacle {
    /// The principal has used up its share of the memory limit.
    PrincipalShare,
    /// The claim would exceed the limit for the responses of all principals together.
    TotalLimit,
}

impl Ledger {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Counts response bytes of a principal, even above the memory limit.
    pub(super) fn add(&mut self, principal: &Arc<str>, bytes: u64) {
        if bytes > 0 {
            self.total += bytes;
            *self.principals.entry(Arc::clone(principal)).or_default() += bytes;
        }
    }

    /// Releases counted bytes of a principal, and grants waiting claims that now fit into the
    /// memory limits.
    pub(super) fn subtract(&mut self, principal: &Arc<str>, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.total -= bytes;
        if let Some(held_bytes) = self.principals.get_mut(principal) {
            *held_bytes -= bytes;
            if *held_bytes == 0 {
                self.principals.remove(principal);
            }
        }
        self.grant_claims();
    }

    pub(super) fn claim(&mut self, principal: &Arc<str>, bytes: u64) -> ClaimOutcome {
        let (grant_sender, grant_receiver) = oneshot::channel();
        let claim_id = self.next_claim_id;
        self.next_claim_id += 1;
        let claim = QueuedClaim {
            principal: Arc::clone(principal),
            bytes,
            grant_sender,
        };
        self.claims.insert(claim_id, claim);
        self.grant_claims();
        if self.claims.contains_key(&claim_id) {
            ClaimOutcome::Waiting(claim_id, grant_receiver)
        } else {
            ClaimOutcome::Granted
        }
    }

    /// Grants a claim if the claim fits into the memory limits now and no other claim of the
    /// principal waits. Returns whether the claim was granted.
    pub(super) fn try_claim(&mut self, principal: &Arc<str>, bytes: u64) -> bool {
        let is_granted = !self.has_claims(principal) && self.obstacle(principal, bytes).is_none();
        if is_granted {
            self.add(principal, bytes);
        }
        is_granted
    }

    /// Returns whether a principal has counted bytes or waiting claims.
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
            Some(_) => self.grant_claims(),
            None => self.subtract(principal, bytes),
        }
    }

    /// Grants the claims that fit into the memory limits, in order of arrival. A claim that does
    /// not fit delays only the later claims of its own principal, because otherwise two principals
    /// could block all others.
    fn grant_claims(&mut self) {
        let mut blocked_principals: Vec<Arc<str>> = Vec::new();
        let mut granted_claims = Vec::new();
        let claim_ids: Vec<u64> = self.claims.keys().copied().collect();
        for claim_id in claim_ids {
            let Some(claim) = self.claims.get(&claim_id) else {
                continue;
            };
            if blocked_principals.contains(&claim.principal) {
                continue;
            }
            let (principal, bytes) = (Arc::clone(&claim.principal), claim.bytes);
            match self.obstacle(&principal, bytes) {
                None => {
                    self.add(&principal, bytes);
                    granted_claims.extend(self.claims.remove(&claim_id));
                }
                Some(_) => blocked_principals.push(principal),
            }
        }
        for claim in granted_claims {
            // A send error means that the receiver was dropped; dropping the receiver withdraws the
            // claim.
            let _ = claim.grant_sender.send(());
        }
    }

    /// Returns why `bytes` more bytes of a principal do not fit into the memory limits, or `None`
    /// if the bytes fit. A response that is larger than half of the total limit counts as half of
    /// the total limit, so that the response can be delivered at all.
    fn obstacle(&self, principal: &str, bytes: u64) -> Option<ClaimObstacle> {
        let bytes = bytes.min(self.limit / 2);
        let total = self.total + bytes;
        let held_bytes = self.principals.get(principal).copied().unwrap_or(0);
        // The share is checked first, because a principal that has used up its share waits for its
        // own responses.
        let max_share = MAX_SHARE_FACTOR * self.limit.saturating_sub(total);
        if held_bytes > 0 && held_bytes + bytes > max_share {
            return Some(ClaimObstacle::PrincipalShare);
        }
        (total > self.limit).then_some(ClaimObstacle::TotalLimit)
    }

    /// Records that the client of a connection has read nothing since `stalled_since`. Returns
    /// whether the connection must be closed.
    pub(super) fn record_stall(
        &mut self,
        number: u64,
        principal: &Arc<str>,
        bytes: u64,
        stalled_since: Instant,
    ) -> bool {
        let mut connections = self.stalled_connections.values();
        if connections.any(|connection| connection.is_closing) {
            return false;
        }
        let connection = StalledConnection {
            principal: Arc::clone(principal),
            stalled_since,
            bytes,
            is_closing: false,
        };
        self.stalled_connections.insert(number, connection);
        let is_closing = self.next_to_close() == Some(number);
        if let Some(connection) = self.stalled_connections.get_mut(&number) {
            connection.is_closing = is_closing;
        }
        is_closing
    }

    pub(super) fn clear_stall(&mut self, number: u64) {
        self.stalled_connections.remove(&number);
    }

    /// Returns the connection to close so that a waiting claim fits: the connection that has
    /// stalled for the longest time. If the share of the claim's principal is used up, considers
    /// only the principal's own connections, otherwise only the connections of the principal with
    /// the most bytes.
    fn next_to_close(&self) -> Option<u64> {
        let mut blocked_principals: Vec<&str> = Vec::new();
        for claim in self.claims.values() {
            if blocked_principals.contains(&&*claim.principal) {
                continue;
            }
            let connection_number = match self.obstacle(&claim.principal, claim.bytes) {
                None => None,
                Some(ClaimObstacle::PrincipalShare) => self.find_longest_stalled(&claim.principal),
                Some(ClaimObstacle::TotalLimit) => return self.longest_stalled_of_largest(),
            };
            if connection_number.is_some() {
                return connection_number;
            }
            blocked_principals.push(&claim.principal);
        }
        // The total may exceed the limit, because `Ledger::add` has no limit.
        (self.total > self.limit).then(|| self.longest_stalled_of_largest())?
    }

    fn longest_stalled_of_largest(&self) -> Option<u64> {
        let holding_connections = self
            .stalled_connections
            .values()
            .filter(|connection| connection.bytes > 0);
        let principals = holding_connections.map(|connection| &connection.principal);
        let largest = principals.max_by_key(|principal| self.principals.get(*principal))?;
        self.find_longest_stalled(largest)
    }

    fn find_longest_stalled(&self, principal: &str) -> Option<u64> {
        let holding_connections = self
            .stalled_connections
            .iter()
            .filter(|(_, connection)| connection.bytes > 0);
        let own_connections =
            holding_connections.filter(|(_, connection)| &*connection.principal == principal);
        own_connections
            .min_by_key(|(number, connection)| (connection.stalled_since, **number))
            .map(|(number, _)| *number)
    }

    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        self.total == self.principals.values().sum::<u64>()
    }

    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.principals.is_empty() && self.claims.is_empty() && self.stalled_connections.is_empty()
    }
}
