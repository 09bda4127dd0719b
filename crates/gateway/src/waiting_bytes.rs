//! Limits the memory of responses that wait until their clients read them, over all interfaces
//! together.
//!
//! A large response counts toward the memory limit until its buffer is freed, which may be after
//! the operating system has taken its bytes. Memory can be reserved before the response is built. A
//! response that would exceed the memory limit waits; meanwhile, clients that read nothing are
//! disconnected.

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
use ledger::{Ledger, ReservationOutcome};

/// Minimum size of a response or event that is counted, in bytes. The number of connections limits
/// the memory of smaller responses.
const MIN_COUNTED_BYTES: u64 = 16 * 1024;

/// Maximum time that a response without a memory reservation waits for memory to become available.
const FREE_BYTES_TIMEOUT: Duration = Duration::from_secs(10);

/// Counts the bytes of responses that wait until their clients read them, over all connections.
/// Cheap to clone.
#[derive(Clone, Default)]
pub struct WaitingBytes(Arc<SharedLedger>);

#[derive(Default)]
struct SharedLedger {
    ledger: Mutex<Ledger>,
    /// The total number of bytes that the ledger counts, which can be read without the ledger's
    /// lock.
    total: AtomicU64,
    limit: AtomicU64,
    /// The bytes of complete responses that wait for memory to become available. The ledger does
    /// not count them.
    unadmitted_bytes: AtomicU64,
    next_connection: AtomicU64,
}

/// Counts the response bytes that wait for the client of one connection. Cheap to clone; clones
/// share one count.
#[derive(Clone)]
pub struct ConnectionBytes(Arc<ConnectionCount>);

struct ConnectionCount {
    waiting_bytes: WaitingBytes,
    number: u64,
    /// The principal that reads the response, and to which the reserved bytes belong. Changes only
    /// under the lock of the ledger. All connections of a principal share one part of the memory
    /// limit.
    principal: Mutex<Arc<str>>,
    /// Reserved bytes that no response uses yet.
    reserved_bytes: AtomicU64,
    /// All counted bytes of the connection, including reserved bytes. Changes only under the lock
    /// of the ledger.
    bytes: AtomicU64,
    is_stalled: AtomicBool,
}

/// Counts bytes of a response toward the memory limit until the value is dropped.
struct CountedHold {
    connection: ConnectionBytes,
    principal: Arc<str>,
    bytes: u64,
}

impl WaitingBytes {
    /// Adds a connection, and returns the counter of its response bytes. Also sets the limit for
    /// all connections together, in bytes.
    pub fn add_connection(&self, limit: u64) -> ConnectionBytes {
        self.0.limit.store(limit, Ordering::Relaxed);
        ConnectionBytes(Arc::new(ConnectionCount {
            waiting_bytes: self.clone(),
            number: self.0.next_connection.fetch_add(1, Ordering::Relaxed),
            principal: Mutex::new("".into()),
            reserved_bytes: AtomicU64::new(0),
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
        let shared_ledger = &*self.0;
        let mut ledger = shared_ledger.ledger.lock();
        ledger.limit = shared_ledger.limit.load(Ordering::Relaxed);
        let outcome = change(&mut ledger);
        shared_ledger.total.store(ledger.total(), Ordering::Relaxed);
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
        self.0.waiting_bytes.with_ledger(|ledger| {
            self.0.release_in_ledger(ledger, u64::MAX);
            *self.0.principal.lock() = principal.into();
        });
    }

    fn principal(&self) -> Arc<str> {
        Arc::clone(&self.0.principal.lock())
    }

    /// Records the start of a request. Releases the bytes that the previous request reserved and
    /// did not use.
    pub fn begin_request(&self) {
        if self.0.reserved_bytes.load(Ordering::Relaxed) > 0 {
            self.0.release_reserved(u64::MAX);
        }
    }

    /// Counts a response toward the memory limit. Without a reservation, a large response waits
    /// until its bytes fit into the limit.
    ///
    /// If the bytes do not fit within 10 seconds, the response is replaced by status 503. A
    /// response whose request may have changed something is replaced only if all counted responses
    /// together would be larger than twice the memory limit.
    pub async fn admit(&self, method: &Method, response: Response) -> Response {
        let exact_bytes = response.body().size_hint().exact();
        let reserved_bytes = self.0.reserved_bytes.load(Ordering::Relaxed);
        match exact_bytes {
            Some(bytes) if bytes < MIN_COUNTED_BYTES && reserved_bytes == 0 => response,
            Some(bytes) => {
                let has_room = reserved_bytes > 0
                    || self.try_reserve_bytes(bytes)
                    || self.wait_for_room(bytes).await;
                if !has_room && (method.is_safe() || self.would_exceed_twice_limit(bytes)) {
                    return overloaded_response(method.is_safe(), response.headers());
                }
                let hold = Arc::new(self.hold(bytes));
                response.map(|body| CountedBody::for_whole(body, hold).into_body())
            }
            None => response.map(|body| CountedBody::for_parts(body, self.clone()).into_body()),
        }
    }

    /// Reserves `bytes` for a complete response, and waits up to 10 seconds if necessary. Returns
    /// whether the bytes are reserved. Does not wait if the waiting responses, including this one,
    /// would exceed the memory limit.
    async fn wait_for_room(&self, bytes: u64) -> bool {
        let waiting_bytes = &self.0.waiting_bytes;
        let total = &waiting_bytes.0.unadmitted_bytes;
        let earlier_bytes = total.fetch_add(bytes, Ordering::Relaxed);
        let _unadmitted_guard = UnadmittedBytes { total, bytes };
        if earlier_bytes > 0 && earlier_bytes + bytes > waiting_bytes.limit() {
            return false;
        }
        match self.reserve_bytes(bytes) {
            None => true,
            Some(grant) => pillion_deadline::timeout(FREE_BYTES_TIMEOUT, grant)
                .await
                .is_ok(),
        }
    }

    /// Returns whether `bytes` more bytes would make all counted responses together larger than
    /// twice the memory limit.
    fn would_exceed_twice_limit(&self, bytes: u64) -> bool {
        self.0.waiting_bytes.total() + bytes > 2 * self.0.waiting_bytes.limit()
    }

    /// Reserves `bytes` bytes for a response if they are available now. Returns whether the bytes
    /// are reserved.
    fn try_reserve_bytes(&self, bytes: u64) -> bool {
        self.0.waiting_bytes.with_ledger(|ledger| {
            let is_granted = ledger.try_reserve(&self.principal(), bytes);
            if is_granted {
                self.0.add(bytes);
            }
            is_granted
        })
    }

    /// Reserves `bytes` bytes for a response. Returns `None` if the bytes are available now,
    /// otherwise a future that resolves when the bytes are reserved.
    fn reserve_bytes(&self, bytes: u64) -> Option<ReserveFuture> {
        let connection = &self.0;
        let (outcome, principal) = connection.waiting_bytes.with_ledger(|ledger| {
            let principal = self.principal();
            let outcome = ledger.reserve(&principal, bytes);
            if matches!(outcome, ReservationOutcome::Granted) {
                connection.add(bytes);
            }
            (outcome, principal)
        });
        let ReservationOutcome::Waiting(reservation_id, grant_receiver) = outcome else {
            return None;
        };
        let mut pending_reservation = PendingReservation {
            connection: self.clone(),
            principal,
            reservation_id: Some(reservation_id),
            bytes,
        };
        Some(Box::pin(async move {
            // Receiving never fails, because the sender is dropped only with the ledger.
            drop(grant_receiver.await);
            pending_reservation.finish();
        }))
    }

    /// Counts a response of `bytes` bytes, even above the memory limit, and releases all reserved
    /// bytes of the connection.
    fn hold(&self, bytes: u64) -> CountedHold {
        self.replace_reserved(u64::MAX, bytes)
    }

    /// Counts a part of a response toward the memory limit. The part uses the connection's reserved
    /// bytes first, if it has any.
    fn hold_part(&self, bytes: u64) -> CountedHold {
        self.replace_reserved(bytes, bytes)
    }

    /// Counts `bytes` bytes of a response, and releases at most `max_bytes` reserved bytes of the
    /// connection.
    fn replace_reserved(&self, max_bytes: u64, bytes: u64) -> CountedHold {
        let connection = &*self.0;
        let principal = connection.waiting_bytes.with_ledger(|ledger| {
            let principal = self.principal();
            let (reserved_bytes, counted_bytes) = (&connection.reserved_bytes, &connection.bytes);
            let released_bytes = reserved_bytes.load(Ordering::Relaxed).min(max_bytes);
            reserved_bytes.fetch_sub(released_bytes, Ordering::Relaxed);
            // Only the difference between the response and the reserved bytes is counted. If the
            // reserved bytes were released first, the ledger could grant them to other
            // reservations.
            let retained_bytes = released_bytes.min(bytes);
            counted_bytes.fetch_add(bytes - retained_bytes, Ordering::Relaxed);
            counted_bytes.fetch_sub(released_bytes - retained_bytes, Ordering::Relaxed);
            ledger.add(&principal, bytes - retained_bytes);
            ledger.subtract(&principal, released_bytes - retained_bytes);
            principal
        });
        CountedHold {
            connection: self.clone(),
            principal,
            bytes,
        }
    }

    /// Records that the client has read nothing since `stalled_since`. Returns whether the
    /// connection must be closed, because other responses need the memory.
    pub fn record_stall(&self, stalled_since: Instant) -> bool {
        let principal = self.principal();
        self.0.is_stalled.store(true, Ordering::Relaxed);
        self.0.waiting_bytes.with_ledger(|ledger| {
            let bytes = self.0.bytes.load(Ordering::Relaxed);
            ledger.record_stall(self.0.number, &principal, bytes, stalled_since)
        })
    }

    /// Records that the client reads again, or that the connection is closed.
    pub fn clear_stall(&self) {
        if self.0.is_stalled.swap(false, Ordering::Relaxed) {
            let waiting_bytes = &self.0.waiting_bytes;
            waiting_bytes.with_ledger(|ledger| ledger.clear_stall(self.0.number));
        }
    }
}

impl ReserveMemory for ConnectionBytes {
    fn reserve(&self, bytes: usize) -> Option<ReserveFuture> {
        self.reserve_bytes(bytes as u64)
    }

    fn try_reserve(&self, bytes: usize) -> bool {
        self.try_reserve_bytes(bytes as u64)
    }

    fn release(&self, bytes: usize) {
        self.0.release_reserved(bytes as u64);
    }

    fn is_in_use(&self) -> bool {
        let principal = self.principal();
        let waiting_bytes = &self.0.waiting_bytes;
        waiting_bytes.with_ledger(|ledger| ledger.is_used_by(&principal))
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
    /// Adds bytes, which the ledger has already counted, to the reserved bytes of the connection.
    fn add(&self, bytes: u64) {
        self.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases at most `bytes` of the reserved bytes. Fewer bytes can be reserved, because the end
    /// of a request releases its unused bytes even if one of its calls continues.
    fn release_reserved(&self, bytes: u64) {
        self.waiting_bytes
            .with_ledger(|ledger| self.release_in_ledger(ledger, bytes));
    }

    fn release_in_ledger(&self, ledger: &mut Ledger, bytes: u64) {
        let released_bytes = self.reserved_bytes.load(Ordering::Relaxed).min(bytes);
        self.reserved_bytes
            .fetch_sub(released_bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(released_bytes, Ordering::Relaxed);
        ledger.subtract(&self.principal.lock(), released_bytes);
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        // Only reserved bytes are still counted: every `CountedHold` has a reference to this
        // connection, so all of them are already dropped.
        if self.reserved_bytes.load(Ordering::Relaxed) > 0 {
            self.release_reserved(u64::MAX);
        }
        if self.is_stalled.load(Ordering::Relaxed) {
            self.waiting_bytes
                .with_ledger(|ledger| ledger.clear_stall(self.number));
        }
    }
}

impl Drop for CountedHold {
    fn drop(&mut self) {
        let connection = &*self.connection.0;
        connection.waiting_bytes.with_ledger(|ledger| {
            connection.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
            ledger.subtract(&self.principal, self.bytes);
        });
    }
}

/// A reservation that waits for memory. If dropped, the reservation is withdrawn.
struct PendingReservation {
    connection: ConnectionBytes,
    principal: Arc<str>,
    reservation_id: Option<u64>,
    bytes: u64,
}

impl PendingReservation {
    /// Adds the granted bytes to the reserved bytes, unless the connection now serves another
    /// principal.
    fn finish(&mut self) {
        if self.reservation_id.take().is_some() {
            let connection = &*self.connection.0;
            connection.waiting_bytes.with_ledger(|ledger| {
                if *connection.principal.lock() == self.principal {
                    connection.add(self.bytes);
                } else {
                    ledger.subtract(&self.principal, self.bytes);
                }
            });
        }
    }
}

impl Drop for PendingReservation {
    fn drop(&mut self) {
        if let Some(reservation_id) = self.reservation_id.take() {
            let waiting_bytes = &self.connection.0.waiting_bytes;
            waiting_bytes
                .with_ledger(|ledger| ledger.withdraw(reservation_id, &self.principal, self.bytes));
        }
    }
}

/// The bytes of a complete response that waits for memory.
struct UnadmittedBytes<'a> {
    total: &'a AtomicU64,
    bytes: u64,
}

impl Drop for UnadmittedBytes<'_> {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Response bytes that count toward the memory limit until the last reference to them is dropped.
struct CountedBytes {
    bytes: Bytes,
    _hold: Arc<CountedHold>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the error response that replaces a response with the headers `replaced_headers`. Copies
/// the CORS headers, `Vary` and `X-Request-Id`, so that a web page can read the error as well.
fn overloaded_response(is_safe: bool, replaced_headers: &HeaderMap) -> Response {
    let advice = if is_safe {
        "Retry after 1 second."
    } else {
        "The request may have had an effect."
    };
    let message = format!(
        "Too many bytes of responses wait for clients that read slowly \
         (http.max_waiting_bytes). {advice}"
    );
    let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable);
    let problem = Problem::new(status, code, message);
    let mut response = problem.with_openai_code("overloaded").into_response();
    if is_safe {
        let retry_after = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, retry_after);
    }
    let is_retained = |name: &HeaderName| {
        let name = name.as_str();
        name.starts_with("access-control-") || matches!(name, "vary" | "x-request-id")
    };
    for (name, value) in replaced_headers
        .iter()
        .filter(|(name, _)| is_retained(name))
    {
        response.headers_mut().append(name.clone(), value.clone());
    }
    response
}

#[cfg(test)]
mod tests;
