use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// Maximum number of bytes that one principal may hold, as a multiple of the bytes that no
/// principal holds. A single active principal can hold at most 6/7 of the memory limit, so that
/// memory always remains for others ("dynamic thresholds", Choudhury and Hahne, 1998).
const MAX_SHARE_FACTOR: u64 = 6;

/// The response bytes of each principal, and the reservations that wait for memory.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) limit: u64,
    total: u64,
    bytes_by_principal: HashMap<Arc<str>, u64>,
    next_reservation_id: u64,
    /// The reservations that wait, in order of arrival.
    reservations: BTreeMap<u64, QueuedReservation>,
    /// The connections whose clients read nothing, by the ID of the connection.
    stalled_connections: BTreeMap<u64, StalledConnection>,
}

pub(super) enum ReservationOutcome {
    Granted,
    /// The reservation waits. Contains its ID, and a receiver that is notified when the reservation
    /// is granted.
    Waiting(u64, oneshot::Receiver<()>),
}

struct QueuedReservation {
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

/// Why the bytes of a reservation do not fit into the memory limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReservationObstacle {
    /// The principal has used up its share of the memory limit.
    PrincipalShare,
    /// The reservation would exceed the limit for the responses of all principals together.
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
            *self
                .bytes_by_principal
                .entry(Arc::clone(principal))
                .or_default() += bytes;
        }
    }

    /// Releases counted bytes of a principal, and grants waiting reservations that now fit into
    /// the memory limits.
    pub(super) fn subtract(&mut self, principal: &Arc<str>, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.total -= bytes;
        if let Some(held_bytes) = self.bytes_by_principal.get_mut(principal) {
            *held_bytes -= bytes;
            if *held_bytes == 0 {
                self.bytes_by_principal.remove(principal);
            }
        }
        self.grant_reservations();
    }

    pub(super) fn reserve(&mut self, principal: &Arc<str>, bytes: u64) -> ReservationOutcome {
        let (grant_sender, grant_receiver) = oneshot::channel();
        let reservation_id = self.next_reservation_id;
        self.next_reservation_id += 1;
        let reservation = QueuedReservation {
            principal: Arc::clone(principal),
            bytes,
            grant_sender,
        };
        self.reservations.insert(reservation_id, reservation);
        self.grant_reservations();
        if self.reservations.contains_key(&reservation_id) {
            ReservationOutcome::Waiting(reservation_id, grant_receiver)
        } else {
            ReservationOutcome::Granted
        }
    }

    /// Grants a reservation if the reservation fits into the memory limits now and no other
    /// reservation of the principal waits. Returns whether the reservation was granted.
    pub(super) fn try_reserve(&mut self, principal: &Arc<str>, bytes: u64) -> bool {
        let is_granted =
            !self.has_reservations(principal) && self.obstacle(principal, bytes).is_none();
        if is_granted {
            self.add(principal, bytes);
        }
        is_granted
    }

    /// Returns whether a principal has counted bytes or waiting reservations.
    pub(super) fn is_used_by(&self, principal: &str) -> bool {
        self.bytes_by_principal.contains_key(principal) || self.has_reservations(principal)
    }

    fn has_reservations(&self, principal: &str) -> bool {
        let mut reservations = self.reservations.values();
        reservations.any(|reservation| *reservation.principal == *principal)
    }

    /// Withdraws a waiting reservation, or releases the `bytes` of a granted one.
    pub(super) fn withdraw(&mut self, reservation_id: u64, principal: &Arc<str>, bytes: u64) {
        match self.reservations.remove(&reservation_id) {
            Some(_) => self.grant_reservations(),
            None => self.subtract(principal, bytes),
        }
    }

    /// Grants the reservations that fit into the memory limits, in order of arrival. A reservation
    /// that does not fit delays only the later reservations of its own principal, because otherwise
    /// two principals could block all others.
    fn grant_reservations(&mut self) {
        let mut blocked_principals: Vec<Arc<str>> = Vec::new();
        let mut granted_reservations = Vec::new();
        let reservation_ids: Vec<u64> = self.reservations.keys().copied().collect();
        for reservation_id in reservation_ids {
            let Some(reservation) = self.reservations.get(&reservation_id) else {
                continue;
            };
            if blocked_principals.contains(&reservation.principal) {
                continue;
            }
            let (principal, bytes) = (Arc::clone(&reservation.principal), reservation.bytes);
            match self.obstacle(&principal, bytes) {
                None => {
                    self.add(&principal, bytes);
                    granted_reservations.extend(self.reservations.remove(&reservation_id));
                }
                Some(_) => blocked_principals.push(principal),
            }
        }
        for reservation in granted_reservations {
            // A send error means that the receiver was dropped; dropping the receiver withdraws the
            // reservation.
            let _ = reservation.grant_sender.send(());
        }
    }

    /// Returns why `bytes` more bytes of a principal do not fit into the memory limits, or `None`
    /// if the bytes fit. A response that is larger than half of the total limit counts as half of
    /// the total limit, so that the response can be delivered at all.
    fn obstacle(&self, principal: &str, bytes: u64) -> Option<ReservationObstacle> {
        let bytes = bytes.min(self.limit / 2);
        let total = self.total + bytes;
        let held_bytes = self.bytes_by_principal.get(principal).copied().unwrap_or(0);
        // The share is checked before the total limit, because the obstacle decides which clients
        // are disconnected: a principal that has used up its share must not displace others.
        let max_share = MAX_SHARE_FACTOR * self.limit.saturating_sub(total);
        if held_bytes > 0 && held_bytes + bytes > max_share {
            return Some(ReservationObstacle::PrincipalShare);
        }
        (total > self.limit).then_some(ReservationObstacle::TotalLimit)
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

    /// Returns the connection to close so that a waiting reservation fits. Among the connections of
    /// one principal, this is the connection that has stalled for the longest time. The principal
    /// is that of the reservation if its share is used up, otherwise the one with the most bytes.
    fn next_to_close(&self) -> Option<u64> {
        let mut blocked_principals: Vec<&str> = Vec::new();
        for reservation in self.reservations.values() {
            if blocked_principals.contains(&&*reservation.principal) {
                continue;
            }
            let connection_number = match self.obstacle(&reservation.principal, reservation.bytes) {
                None => None,
                Some(ReservationObstacle::PrincipalShare) => {
                    self.find_longest_stalled(&reservation.principal)
                }
                Some(ReservationObstacle::TotalLimit) => return self.longest_stalled_of_largest(),
            };
            if connection_number.is_some() {
                return connection_number;
            }
            blocked_principals.push(&reservation.principal);
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
        let largest = principals.max_by_key(|principal| self.bytes_by_principal.get(*principal))?;
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
        self.total == self.bytes_by_principal.values().sum::<u64>()
    }

    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.bytes_by_principal.is_empty()
            && self.reservations.is_empty()
            && self.stalled_connections.is_empty()
    }
}
