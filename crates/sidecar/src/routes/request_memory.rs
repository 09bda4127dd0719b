//! The memory of the JSON values of requests whose clients wait for the response.
//!
//! A body with many small values needs many times its size once it is parsed, so the limits of
//! bodies and connections alone do not limit the memory.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use pillion_core::compute;
use pillion_core::json_values::{MAX_VALUES, count_with_strings, count_with_texts};

use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::accounts::{AccountReservation, PrincipalAccounts, Usage, values_memory};
use pillion_management::error::{RATE_LIMITED, route_error};

/// Maximum size of a body for which no memory is reserved, in bytes. Ordinary requests are smaller,
/// so they take no lock and are never rejected.
const MAX_UNRESERVED_BYTES: usize = 4 * 1024;
/// Maximum number of values of a body for which no memory is reserved.
const MAX_UNRESERVED_VALUES: usize = 1_000;

route_error! {
    /// The running requests of the principal use all the memory that the principal may use.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "The running requests of this caller have too many JSON values together: try again later, or \
         send smaller requests"
    )]
    pub(super) struct TooManyRunningValues => RATE_LIMITED
}

/// The memory that is reserved for the body of a request. `authenticate` adds a `RequestMemory` to
/// requests with long bodies.
#[derive(Clone)]
pub(super) struct RequestMemory(Arc<RequestAccount>);

struct RequestAccount {
    accounts: Arc<PrincipalAccounts>,
    principal: Option<String>,
    reservation: Mutex<Option<AccountReservation>>,
}

impl RequestMemory {
    /// Creates the `RequestMemory` of a request, without reserved memory. Returns `None` if the
    /// body is too short to need a reservation. `max_bytes` is the maximum size of the body, if
    /// known.
    pub(super) fn for_body(
        max_bytes: Option<u64>,
        app: &App,
        grant: Option<&AccessGrant>,
    ) -> Option<Self> {
        if max_bytes.is_some_and(|max_bytes| max_bytes <= MAX_UNRESERVED_BYTES as u64) {
            return None;
        }
        Some(Self(Arc::new(RequestAccount {
            accounts: Arc::clone(&app.process().request_values),
            principal: grant.map(AccessGrant::principal),
            reservation: Mutex::default(),
        })))
    }

    /// Reserves memory for the body's values in the account of the principal. The values of a long
    /// body are counted on another thread.
    ///
    /// # Errors
    /// [`TooManyRunningValues`] if the running requests of the principal have too many values
    /// together.
    pub(super) async fn try_reserve(&self, body: &Bytes) -> Result<(), TooManyRunningValues> {
        if count_with_strings(body) <= MAX_UNRESERVED_VALUES {
            return Ok(());
        }
        let account = self.0.principal.as_deref().unwrap_or_default();
        let counted_body = body.clone();
        let count_values = move || count_with_texts(&counted_body);
        let value_count = compute::run(account, body.len(), count_values).await;
        if value_count <= MAX_UNRESERVED_VALUES {
            return Ok(());
        }
        // Memory is reserved for at most `MAX_VALUES` values, the maximum number that is parsed at
        // once. A single request therefore always fits into its principal's limit.
        let bytes = values_memory(value_count.min(MAX_VALUES));
        let principal = self.0.principal.as_deref();
        let new_reservation = self
            .0
            .accounts
            .try_reserve(principal, Usage::for_request(bytes));
        *self.0.reservation.lock() = Some(new_reservation.ok_or(TooManyRunningValues)?);
        Ok(())
    }

    /// Keeps the memory reserved until the response has been sent, because a stream may use the
    /// request to its end.
    pub(super) fn hold(self, response: Response) -> Response {
        match self.0.reservation.lock().take() {
            Some(reservation) => response.map(|body| {
                Body::new(ReservedBody {
                    body,
                    _reservation: reservation,
                })
            }),
            None => response,
        }
    }
}

/// A response body that keeps the request's memory reserved until the body is dropped.
struct ReservedBody {
    body: Body,
    _reservation: AccountReservation,
}

impl HttpBody for ReservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
