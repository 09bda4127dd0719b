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

/// Maximum size of a body that is not charged, in bytes. Nor is a body with at most `FREE_VALUES`
/// values. Ordinary requests therefore take no lock and are never rejected.
const FREE_BYTES: usize = 4 * 1024;
const FREE_VALUES: usize = 1_000;

route_error! {
    /// The running requests of the principal use all the memory that it may use.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "The running requests of this caller have too many JSON values together: try again later, or \
         send smaller requests"
    )]
    pub(super) struct TooManyRunningValues => RATE_LIMITED
}

/// The charge of a request for its body. The gate adds it to requests with long bodies.
#[derive(Clone)]
pub(super) struct RequestMemory(Arc<Account>);

struct Account {
    accounts: Arc<PrincipalAccounts>,
    principal: Option<String>,
    charge: Mutex<Option<Charge>>,
}

impl RequestMemory {
    /// Returns the account of a request for its body, or `None` if the body is not charged.
    /// `max_bytes` is the maximum size of the body, if known.
    pub(super) fn for_body(
        max_bytes: Option<u64>,
        app: &App,
        grant: Option<&AccessGrant>,
    ) -> Option<Self> {
        if max_bytes.is_some_and(|max| max <= FREE_BYTES as u64) {
            return None;
        }
        Some(Self(Arc::new(Account {
            accounts: Arc::clone(&app.process().request_values),
            principal: grant.map(AccessGrant::principal),
            charge: Mutex::default(),
        })))
    }

    /// Charges the memory of the body's values to the principal. The values of a long body are
    /// counted on another thread.
    ///
    /// # Errors
    /// [`TooManyRunningValues`].
    pub(super) async fn charge(&self, body: &Bytes) -> Result<(), TooManyRunningValues> {
        if count_with_strings(body) <= FREE_VALUES {
            return Ok(());
        }
        let account = self.0.principal.as_deref().unwrap_or_default();
        let counted = body.clone();
        let count = move || count_with_texts(&counted);
        let values = compute::run(account, body.len(), count).await;
        if values <= FREE_VALUES {
            return Ok(());
        }
        // At most `MAX_VALUES` values are parsed at once, so that a single request always fits.
        let bytes = values_memory(values.min(MAX_VALUES));
        let principal = self.0.principal.as_deref();
        let charged = self.0.accounts.charge(principal, Usage::one(bytes));
        *self.0.charge.lock() = Some(charged.ok_or(TooManyRunningValues)?);
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

/// The body of the response to a request with a charge.
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
