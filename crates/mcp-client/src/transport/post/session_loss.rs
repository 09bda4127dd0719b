//! Handles the loss of a session over POST. [`session_loss`](crate::session_loss) defines which
//! responses mean that the session is lost.

use std::sync::Arc;

use super::PostConnection;
use crate::http::{Rejection, RejectionResponse};
use crate::message::{self, MirroredHeaders, RpcOutcome, RpcRequestId};
use crate::repeat::RepeatSafety;
use crate::session_loss::{ResponseForm, ResponseTopic, SessionLoss, session_loss};
use crate::transport::{PING_TIMEOUT, knows_session};
use crate::{Feature, McpErrorKind};

impl PostConnection {
    /// Converts an HTTP status that means an unknown session to [`McpErrorKind::SessionExpired`].
    /// Used for messages that have no JSON-RPC response, and for streams.
    pub(super) fn check_session<T>(
        &self,
        outcome: Result<T, McpErrorKind>,
    ) -> Result<T, McpErrorKind> {
        let Err(McpErrorKind::HttpStatus {
            status, rpc_error, ..
        }) = &outcome
        else {
            return outcome;
        };
        let (form, topic) = match rpc_error {
            Some(error) => (
                ResponseForm::Error(error.code),
                ResponseTopic::from_text(&error.message),
            ),
            None => (ResponseForm::Other, ResponseTopic::Other),
        };
        if session_loss(*status, form, topic, self.session_id.get().is_some())
            == SessionLoss::Certain
        {
            return Err(McpErrorKind::SessionExpired);
        }
        outcome
    }

    /// Reads an HTTP error, and returns the JSON-RPC response to the request if the body contains
    /// one.
    ///
    /// # Errors
    /// [`McpErrorKind::SessionExpired`] if the server no longer knows the session, so that sending
    /// the request again cannot repeat an effect.
    pub(super) async fn receive_rejection(
        self: &Arc<Self>,
        response: reqwest::Response,
        id: &RpcRequestId,
        opens_session: bool,
        is_harmless: bool,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let rejection = Rejection::read(response, Some(id)).await;
        let has_session = self.session_id.get().is_some();
        let is_not_found = matches!(
            rejection.error,
            McpErrorKind::HttpStatus { status: 404, .. }
        );
        match rejection.response {
            // A JSON-RPC response is not checked here, because `Session` checks the JSON-RPC
            // responses of all transports for an unknown session.
            RejectionResponse::Response(_) => rejection.into_outcome(opens_session),
            RejectionResponse::Missing => {
                let is_lost = match rejection.session_loss(has_session) {
                    SessionLoss::Certain => true,
                    SessionLoss::IfPingConfirms
                        if !opens_session && self.has_feature(Feature::Handshake) =>
                    {
                        Box::pin(self.has_session()).await == Some(false)
                    }
                    _ => false,
                };
                if !is_lost {
                    return Err(rejection.error);
                }
                // Only a rejected request ends the session; a rejected notification does not,
                // because some servers respond to notifications with 404 but work anyway.
                self.mark_closed();
                Err(McpErrorKind::SessionExpired)
            }
            // The server may have processed the request, so it must not be sent again.
            RejectionResponse::Unknown
                if !is_harmless
                    && !opens_session
                    && matches!(
                        rejection.error,
                        McpErrorKind::HttpStatus {
                            status: 400 | 404 | 405,
                            ..
                        }
                    ) =>
            {
                if has_session && is_not_found {
                    self.mark_closed();
                }
                Err(McpErrorKind::ResponseLost(Box::new(rejection.error)))
            }
            RejectionResponse::Unknown if has_session && is_not_found => {
                self.mark_closed();
                Err(McpErrorKind::SessionExpired)
            }
            RejectionResponse::Unknown => rejection.into_outcome(opens_session),
        }
    }

    /// Returns whether the server knows the session, according to a `ping`; `None` if the server
    /// does not respond quickly.
    pub(super) async fn has_session(self: &Arc<Self>) -> Option<bool> {
        pillion_deadline::timeout(PING_TIMEOUT, self.ping())
            .await
            .ok()?
    }

    /// Sends a `ping`, and returns whether the server knows the session; `None` if unknown.
    pub(super) async fn ping(self: &Arc<Self>) -> Option<bool> {
        let (id, message) = message::encode_ping();
        let send_operation = self.send(message, MirroredHeaders::new(), RepeatSafety::Harmless);
        let response = send_operation.await.ok()?;
        if !response.status().is_success() {
            let rejection = Rejection::read(response, Some(&id)).await;
            return rejection.knows_session(self.session_id.get().is_some());
        }
        let ping_outcome = self.receive(response, &id, false).await;
        knows_session(&ping_outcome.ok()?)
    }
}
