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

use super::error::{RATE_LIMITED, route_error};
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::accounts::{Charge, PrincipalAccounts, Usage, values_memory};

/// Maximum size of a body that is not charged, in bytes. Ordinary requests therefore take no lock
/// and are never rejected.
const MAX_UNCHARGED_BYTES: usize = 4 * 1024;
/// Maximum number of values of a body that is not charged.
const MAX_UNCHARGED_VALUES: usize = 1_000;

route_error! {
    /// The running requests of the principal use all the memory that the principal may use.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "The running requests of this caller have too many JSON values together: try again later, or \
         send smaller requests"
    )]
    pub(super) struct TooManyRunningValues => RATE_LIMITED
}

/// The memory that a request is charged for its body. `authenticate` adds the charge to requests
/// with long bodies.
#[derive(Clone)]
pub(super) struct RequestMemory(Arc<RequestAccount>);

struct RequestAccount {
    accounts: Arc<PrincipalAccounts>,
    principal: Option<String>,
    charge: Mutex<Option<Charge>>,
}

impl RequestMemory {
    /// Creates the memory charge of a request's body, initially zero. Returns `None` if the body is
    /// too short to be charged. `max_bytes` is the maximum size of the body, if known.
    pub(super) fn for_body(
        max_bytes: Option<u64>,
        app: &App,
        grant: Option<&AccessGrant>,
    ) -> Option<Self> {
        if max_bytes.is_some_and(|max_bytes| max_bytes <= MAX_UNCHARGED_BYTES as u64) {
            return None;
        }
        Some(Self(Arc::new(RequestAccount {
            accounts: Arc::clone(&app.process().request_values),
            principal: grant.map(AccessGrant::principal),
            charge: Mutex::default(),
        })))
    }

    /// Charges the memory of the body's values to the principal. The values of a long body are
    /// counted on another thread.
    ///
    /// # Errors
    /// [`TooManyRunningValues`] if the running requests of the principal have too many values
    /// together.
    pub(super) async fn charge(&self, body: &Bytes) -> Result<(), TooManyRunningValues> {
        if count_with_strings(body) <= MAX_UNCHARGED_VALUES {
            return Ok(());
        }
        let account = self.0.principal.as_deref().unwrap_or_default();
        let counted_body = body.clone();
        let count_values = move || count_with_texts(&counted_body);
        let value_count = compute::run(account, body.len(), count_values).await;
        if value_count <= MAX_UNCHARGED_VALUES {
            return Ok(());
        }
        // At most `MAX_VALUES` values are charged, the maximum number that is parsed at once. A
        // single request therefore always fits into its principal's limit.
        let bytes = values_memory(value_count.min(MAX_VALUES));
        let principal = self.0.principal.as_deref();
        let new_charge = self.0.accounts.charge(principal, Usage::for_request(bytes));
        *self.0.charge.lock() = Some(new_charge.ok_or(TooManyRunningValues)?);
        Ok(())
    }

    /// Keeps the charge until the response has been sent, because a stream may use the request to
    /// its end.
    pub(super) fn hold(self, response: Response) -> Response {
        match self.0.charge.lock().take() {
            Some(charge) => response.map(|body| {
                Body::new(ChargedBody {
                    body,
                    _charge: charge,
                })
            }),
            None => response,
        }
    }
}

/// A response body that keeps the request's memory charge until the body is dropped.
struct ChargedBody {
    body: Body,
    _charge: Charge,
}

impl HttpBody for ChargedBody {
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
