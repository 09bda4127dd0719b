//! Detects that the server no longer knows the session.
//!
//! The specification requires status 404 for that; many servers, including the official examples,
//! send 400 and `No valid session ID provided` after a restart. Such a rejection is not about the
//! request, so it has no id or another one. A JSON-RPC response with the id of the request is the
//! answer to the request, whatever the status: a tool may have run and may report a session of its
//! own as missing.

use std::sync::Arc;
use std::time::Duration;

use super::PostConnection;
use crate::http::{Rejection, RejectionAnswer};
use crate::jsonrpc::{RpcOutcome, RpcRequestId};
use crate::{McpErrorKind, RpcError};

/// The code of servers for an unknown session.
const SESSION_NOT_FOUND: i64 = -32001;

/// How long the response to a request waits for the check of its session.
const CHECK_TIMEOUT: Duration = Duration::from_millis(300);

impl PostConnection {
    /// Converts the status for an unknown session to [`McpErrorKind::SessionExpired`]. For messages
    /// that have no JSON-RPC response, and for streams.
    pub(super) fn check_session<T>(
        &self,
        outcome: Result<T, McpErrorKind>,
    ) -> Result<T, McpErrorKind> {
        let Err(McpErrorKind::HttpStatus { status, rpc, .. }) = &outcome else {
            return outcome;
        };
        let is_lost = *status == 404 || *status == 400 && rpc.as_deref().is_some_and(is_about_it);
        if is_lost && self.session.get().is_some() {
            return Err(McpErrorKind::SessionExpired);
        }
        outcome
    }

    /// Returns the response to a request from an HTTP response that is not a success.
    ///
    /// # Errors
    /// [`McpErrorKind::SessionExpired`] if the server no longer knows the session, and sending the
    /// request again cannot repeat an effect.
    pub(super) async fn receive_rejection(
        self: &Arc<Self>,
        response: reqwest::Response,
        id: &RpcRequestId,
        opens: bool,
        is_harmless: bool,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let rejection = Rejection::read(response, Some(id)).await;
        let McpErrorKind::HttpStatus { status, rpc, .. } = &rejection.error else {
            return rejection.into_outcome(opens);
        };
        let (status, has_session) = (*status, self.session.get().is_some());
        let is_about_session = rpc
            .as_deref()
            .is_some_and(|error| error.code == SESSION_NOT_FOUND || is_about_it(error));
        let may_be_lost = has_session && matches!(status, 400 | 404);
        match &rejection.answer {
            RejectionAnswer::Missing => {
                let checked = self.check_session(Err(rejection.error));
                if matches!(checked, Err(McpErrorKind::SessionExpired)) {
                    // Not for notifications: some servers reject those with 404 but work anyway.
                    self.end_session();
                }
                checked
            }
            // The request may have been answered, so it must not be sent again.
            RejectionAnswer::Unknown
                if !is_harmless && !opens && matches!(status, 400 | 404 | 405) =>
            {
                if has_session && status == 404 {
                    self.end_session();
                }
                Err(McpErrorKind::ResponseLost(Box::new(rejection.error)))
            }
            RejectionAnswer::Unknown if has_session && status == 404 => {
                self.end_session();
                Err(McpErrorKind::SessionExpired)
            }
            RejectionAnswer::Response(Err(_)) if may_be_lost && is_about_session => {
                if is_harmless {
                    self.end_session();
                    return Err(McpErrorKind::SessionExpired);
                }
                self.probe_session().await;
                rejection.into_outcome(opens)
            }
            RejectionAnswer::Unknown | RejectionAnswer::Response(_) => {
                rejection.into_outcome(opens)
            }
        }
    }

    /// Asks the server whether the session exists, so that the next request opens another session
    /// if it does not. Waits only for a quick answer.
    async fn probe_session(self: &Arc<Self>) {
        let connection = Arc::clone(self);
        let probe = tokio::spawn(async move { connection.has_session().await });
        drop(tokio::time::timeout(CHECK_TIMEOUT, probe).await);
    }
}

/// Returns whether an error is about the session, unlike an error about the parameters of a request.
fn is_about_it(error: &RpcError) -> bool {
    matches!(error.code, -32600 | -32099..=-32000 | -1)
        && error.message.to_ascii_lowercase().contains("session")
}
