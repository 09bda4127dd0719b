//! Limits the response bytes that wait for clients, with one account for all interfaces.
//!
//! A large response is counted from before it is built until its buffer is freed, not until the
//! operating system has taken its bytes. A response that exceeds the limit waits; meanwhile,
//! clients that read nothing are disconnected.

mod body;
mod ledger;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use pillion_core::tool::{ErrorCode, ReserveFuture, ReserveMemory};
use tokio::time::Instant;

use crate::problem::Problem;
use body::CountedBody;
use ledger::{Claim, Ledger};

/// Minimum size of a response or event that is counted, in bytes. The number of connections limits
/// the memory of smaller ones.
const MIN_COUNTED_BYTES: u64 = 16 * 1024;

/// Maximum time that a response waits for free bytes if no call reserved memory for it.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);

/// The response bytes that wait for clients, over all connections. Cheap to clone.
#[derive(Clone, Default)]
pub struct WaitingBytes(Arc<SharedLedger>);

#[derive(Default)]
struct SharedLedger {
    ledger: Mutex<Ledger>,
    /// The total of the ledger, which can be read without the lock.
    total: AtomicU64,
    limit: AtomicU64,
    /// Bytes of complete responses that wait for free bytes. The ledger does not count them.
    unadmitted: AtomicU64,
    next_connection: AtomicU64,
}

/// The bytes that wait for the client of one connection. Cheap to clone; clones share one count.
#[derive(Clone)]
pub struct ConnectionBytes(Arc<ConnectionCount>);

struct ConnectionCount {
    all: WaitingBytes,
    number: u64,
    /// The principal that reads the response, and to which the reserved bytes belong. Changes only
    /// under the lock of the ledger. All connections of a principal share one part of the limit.
    principal: Mutex<Arc<str>>,
    /// Reserved bytes that no response uses yet.
    reserved: AtomicU64,
    /// All counted bytes. Changes only under the lock of the ledger.
    bytes: AtomicU64,
    is_stalled: AtomicBool,
}

/// Counted bytes of a response, until dropped.
struct Hold {
    connection: ConnectionBytes,
    principal: Arc<str>,
    bytes: u64,
}

impl WaitingBytes {
    /// Returns the count of a new connection, and sets the limit for all connections.
    pub fn connection(&self, limit: u64) -> ConnectionBytes {
        self.0.limit.store(limit, Ordering::Relaxed);
        ConnectionBytes(Arc::new(ConnectionCount {
            all: self.clone(),
            number: self.0.next_connection.fetch_add(1, Ordering::Relaxed),
            principal: Mutex::new("".into()),
            reserved: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            is_stalled: AtomicBool::new(false),
        }))
    }

    /// Returns the number of response bytes that wait for clients.
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }

    fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Relaxed)
    }

    fn with_ledger<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let shared = &*self.0;
        let mut ledger = shared.ledger.lock();
        ledger.limit = shared.limit.load(Ordering::Relaxed);
        let outcome = change(&mut ledger);
        shared.total.store(ledger.total(), Ordering::Relaxed);
        outcome
    }
}

impl fmt::Debug for WaitingBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingBytes")
            .field("total", &self.total())
            .finish_non_exhaustive()
    }
}

impl ConnectionBytes {
    /// Sets the principal that reads the response to the current request.
    pub fn set_principal(&self, principal: &str) {
        if *self.principal() == *principal {
            return;
        }
        self.0.all.with_ledger(|ledger| {
            self.0.release_from(ledger, u64::MAX);
            *self.0.principal.lock() = principal.into();
        });
    }

    fn principal(&self) -> Arc<str> {
        Arc::clone(&self.0.principal.lock())
    }

    /// Starts a request: releases the bytes that the previous request reserved and did not use.
    pub fn begin_request(&self) {
        if self.0.reserved.load(Ordering::Relaxed) > 0 {
            self.0.release_reserved(u64::MAX);
        }
    }

    /// Counts a response. Without a reservation, a large response waits until its bytes fit into
    /// the limit.
    ///
    /// If the bytes do not fit within 10 seconds, the response is replaced by status 503. A
    /// response whose request may have changed something is replaced only if all responses together
    /// have more than twice the limit.
    pub async fn admit(&self, method: &Method, response: Response) -> Response {
        let length = response.body().size_hint().exact();
        let reserved = self.0.reserved.load(Ordering::Relaxed);
        match length {
            Some(bytes) if bytes < MIN_COUNTED_BYTES && reserved == 0 => response,
            Some(bytes) => {
                let has_room = reserved > 0 || self.try_claim(bytes) || self.wait(bytes).await;
                if !has_room && (method.is_safe() || self.exceeds_twice(bytes)) {
                    return no_room(method.is_safe(), response.headers());
                }
                let hold = Arc::new(self.hold(bytes));
                response.map(|body| CountedBody::whole(body, hold).into_body())
            }
            None => response.map(|body| CountedBody::parts(body, self.clone()).into_body()),
        }
    }

    /// Reserves `bytes` for a complete response, with a timeout. Returns whether the bytes are
    /// reserved; returns `false` at once if the complete responses that already wait, with this
    /// one, exceed the limit.
    async fn wait(&self, bytes: u64) -> bool {
        let all = &self.0.all;
        let unadmitted = all.0.unadmitted.fetch_add(bytes, Ordering::Relaxed);
        let _unadmitted = UnadmittedBytes { all, bytes };
        if unadmitted > 0 && unadmitted + bytes > all.limit() {
            return false;
        }
        match self.claim(bytes) {
            None => true,
            Some(room) => pillion_deadline::timeout(ROOM_TIMEOUT, room).await.is_ok(),
        }
    }

    /// Returns whether all responses, with `bytes` more bytes, have more than twice the limit.
    fn exceeds_twice(&self, bytes: u64) -> bool {
        self.0.all.total() + bytes > 2 * self.0.all.limit()
    }

    /// Claims memory if it is available now. Returns whether the memory is reserved.
    fn try_claim(&self, bytes: u64) -> bool {
        self.0.all.with_ledger(|ledger| {
            let is_granted = ledger.try_claim(&self.principal(), bytes);
            if is_granted {
                self.0.add(bytes);
            }
            is_granted
        })
    }

    /// Claims memory. Returns `None` if the memory is reserved, otherwise a future that resolves
    /// when the memory is reserved.
    fn claim(&self, bytes: u64) -> Option<ReserveFuture> {
        let connection = &self.0;
        let (claim, principal) = connection.all.with_ledger(|ledger| {
            let principal = self.principal();
            let claim = ledger.claim(&principal, bytes);
            if matches!(claim, Claim::Granted) {
                connection.add(bytes);
            }
            (claim, principal)
        });
        let Claim::Waiting(claim_id, granted) = claim else {
            return None;
        };
        let mut pending = PendingClaim {
            connection: self.clone(),
            principal,
            claim_id: Some(claim_id),
            bytes,
        };
        Some(Box::pin(async move {
            // An error is impossible: the sender is dropped only with the ledger.
            drop(granted.await);
            pending.take();
        }))
    }

    /// Counts a response of `bytes` bytes, even above the limit. It replaces all reserved bytes.
    fn hold(&self, bytes: u64) -> Hold {
        self.replace_reserved(u64::MAX, bytes)
    }

    /// Counts a part of a response, which replaces reserved bytes as far as there are any.
    fn hold_part(&self, bytes: u64) -> Hold {
        self.replace_reserved(bytes, bytes)
    }

    /// Counts `bytes` bytes of a response, which replace at most `max` reserved bytes.
    fn replace_reserved(&self, max: u64, bytes: u64) -> Hold {
        let connection = &*self.0;
        let principal = connection.all.with_ledger(|ledger| {
            let principal = self.principal();
            let released = connection.reserved.load(Ordering::Relaxed).min(max);
            connection.reserved.fetch_sub(released, Ordering::Relaxed);
            // Reserved bytes that stay in use are not booked again: freed bytes may grant claims.
            let stay = released.min(bytes);
            connection.bytes.fetch_add(bytes - stay, Ordering::Relaxed);
            connection
                .bytes
                .fetch_sub(released - stay, Ordering::Relaxed);
            ledger.add(&principal, bytes - stay);
            ledger.subtract(&principal, released - stay);
            principal
        });
        Hold {
            connection: self.clone(),
            principal,
            bytes,
        }
    }

    /// Records that the client has read nothing since `since`. Returns whether the connection must
    /// be closed, because other responses need the memory.
    pub fn note_stall(&self, since: Instant) -> bool {
        let principal = self.principal();
        self.0.is_stalled.store(true, Ordering::Relaxed);
        self.0.all.with_ledger(|ledger| {
            let bytes = self.0.bytes.load(Ordering::Relaxed);
            ledger.note_stall(self.0.number, &principal, bytes, since)
        })
    }

    /// Records that the client reads again, or that the connection is closed.
    pub fn clear_stall(&self) {
        if self.0.is_stalled.swap(false, Ordering::Relaxed) {
            let number = self.0.number;
            self.0.all.with_ledger(|ledger| ledger.clear_stall(number));
        }
    }
}

impl ReserveMemory for ConnectionBytes {
    fn reserve(&self, bytes: usize) -> Option<ReserveFuture> {
        self.claim(bytes as u64)
    }

    fn try_reserve(&self, bytes: usize) -> bool {
        self.try_claim(bytes as u64)
    }

    fn release(&self, bytes: usize) {
        self.0.release_reserved(bytes as u64);
    }

    fn is_in_use(&self) -> bool {
        let principal = self.principal();
        self.0
            .all
            .with_ledger(|ledger| ledger.is_used_by(&principal))
    }
}

impl fmt::Debug for ConnectionBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionBytes")
            .field("number", &self.0.number)
            .field("bytes", &self.0.bytes)
            .finish_non_exhaustive()
    }
}

impl ConnectionCount {
    /// Adds reserved bytes, which the ledger has counted.
    fn add(&self, bytes: u64) {
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases at most `bytes` reserved bytes. If a call outlives its request, less is reserved
    /// than the call has reserved.
    fn release_reserved(&self, bytes: u64) {
        self.all
            .with_ledger(|ledger| self.release_from(ledger, bytes));
    }

    fn release_from(&self, ledger: &mut Ledger, bytes: u64) {
        let released = self.reserved.load(Ordering::Relaxed).min(bytes);
        self.reserved.fetch_sub(released, Ordering::Relaxed);
        self.bytes.fetch_sub(released, Ordering::Relaxed);
        ledger.subtract(&self.principal.lock(), released);
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        // All holds are already dropped, because each has a reference to this connection.
        if self.reserved.load(Ordering::Relaxed) > 0 {
            self.release_reserved(u64::MAX);
        }
        if self.is_stalled.load(Ordering::Relaxed) {
            self.all
                .with_ledger(|ledger| ledger.clear_stall(self.number));
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let connection = &*self.connection.0;
        connection.all.with_ledger(|ledger| {
            connection.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
            ledger.subtract(&self.principal, self.bytes);
        });
    }
}

/// A claim that waits for memory. If dropped, the claim is withdrawn.
struct PendingClaim {
    connection: ConnectionBytes,
    principal: Arc<str>,
    claim_id: Option<u64>,
    bytes: u64,
}

impl PendingClaim {
    /// Adds the granted bytes to the reserved bytes, unless the connection now serves another
    /// principal.
    fn take(&mut self) {
        if self.claim_id.take().is_some() {
            let connection = &*self.connection.0;
            connection.all.with_ledger(|ledger| {
                if *connection.principal.lock() == self.principal {
                    connection.add(self.bytes);
                } else {
                    ledger.subtract(&self.principal, self.bytes);
                }
            });
        }
    }
}

impl Drop for PendingClaim {
    fn drop(&mut self) {
        if let Some(claim_id) = self.claim_id.take() {
            let all = &self.connection.0.all;
            all.with_ledger(|ledger| ledger.withdraw(claim_id, &self.principal, self.bytes));
        }
    }
}

/// The bytes of a complete response that waits for memory.
struct UnadmittedBytes<'a> {
    all: &'a WaitingBytes,
    bytes: u64,
}

impl Drop for UnadmittedBytes<'_> {
    fn drop(&mut self) {
        let unadmitted = &self.all.0.unadmitted;
        unadmitted.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Response bytes that stay counted until the last reference to them is dropped.
struct CountedBytes {
    bytes: Bytes,
    _hold: Arc<Hold>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the error response that replaces a response with the headers `replaced`. Headers about
/// the request and its sender are kept, so that a web page can read the error, too.
fn no_room(is_safe: bool, replaced: &HeaderMap) -> Response {
    let advice = if is_safe {
        "Retry after 1 second."
    } else {
        "The request may have had an effect."
    };
    let problem = Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Unavailable,
        format!(
            "Too many bytes of responses wait for clients that read slowly \
             (http.max_waiting_bytes). {advice}"
        ),
    );
    let mut response = problem.called("overloaded").into_response();
    if is_safe {
        let second = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, second);
    }
    let is_retained = |name: &HeaderName| {
        let name = name.as_str();
        name.starts_with("access-control-") || matches!(name, "vary" | "x-request-id")
    };
    for (name, value) in replaced.iter().filter(|(name, _)| is_retained(name)) {
        response.headers_mut().append(name.clone(), value.clone());
    }
    response
}

#[cfg(test)]
mod tests;
