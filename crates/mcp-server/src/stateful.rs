//! Handles the messages of a session in revisions up to 2025-11-25, independent of the transport.

use std::sync::Arc;

use axum::body::Bytes;
use pillion_mcp_client::{ProtocolVersion, RpcError};
use serde_json::value::RawValue;
use serde_json::{Map, json};
use tokio::task;

use super::running::{Event, Running};
use super::sessions::{AwaitingClient, Responses, Session};
use super::source::Source;
use super::{Caller, subscriptions};
use pillion_gateway::Gateway;
use pillion_gateway::calling_client::message::{
    self, INVALID_REQUEST, Inbound, Members, Request, invalid_params, parse_log_level, raw,
};

/// The error code of a request that was aborted by the end of its session.
const SESSION_ENDED: i64 = -32000;

/// Handles `initialize`. Returns the new session and the result.
pub(super) fn initialize(
    caller: &Caller,
    request: &Request,
) -> Result<(Arc<Session>, Box<RawValue>), RpcError> {
    let offered = request.text("protocolVersion")?;
    let capabilities = match request.params.get("capabilities") {
        None => Map::new(),
        Some(capabilities) => serde_json::from_str(capabilities.get())
            .map_err(|_| invalid_params("'capabilities' must be an object"))?,
    };
    let version = offered
        .parse::<ProtocolVersion>()
        .ok()
        .filter(|version| *version <= ProtocolVersion::LATEST_WITH_HANDSHAKE)
        .unwrap_or(ProtocolVersion::LATEST_WITH_HANDSHAKE);
    let result = raw(&json!({
        "protocolVersion": version,
        "capabilities": super::capabilities(),
        "serverInfo": super::server_info(),
    }))?;
    let session = Session::new(version, capabilities, caller.owner());
    Ok((Arc::new(session), result))
}

/// Handles a message that needs no response.
pub(super) fn handle_message(session: &Session, inbound: Inbound) {
    match inbound {
        Inbound::Notification { method, params } if method == "notifications/cancelled" => {
            if let Some(id) = params.get("requestId") {
                session.cancel(id.get());
            }
        }
        Inbound::Response { id, outcome } => session.deliver_response(id.get(), outcome),
        // `notifications/initialized` and unknown notifications.
        Inbound::Notification { .. } | Inbound::Request(_) => {}
    }
}

/// Returns whether a request with this method concerns the session itself.
pub(super) fn concerns_session(method: &str) -> bool {
    matches!(
        method,
        "initialize" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
    )
}

/// Handles a request that [concerns the session itself](concerns_session).
pub(super) async fn handle_session_request(
    caller: &Caller,
    session: &Arc<Session>,
    request: &Request,
) -> Result<Box<RawValue>, RpcError> {
    match request.method.as_str() {
        "logging/setLevel" => set_level(&caller.mcp.gateway, session, request)?,
        "resources/subscribe" => watch(caller, session, request).await?,
        "resources/unsubscribe" => session.unwatch(&request.text("uri")?),
        _ => {
            let reason = "The session is already initialized";
            return Err(RpcError::new(INVALID_REQUEST, reason));
        }
    }
    raw(&json!({}))
}

fn set_level(gateway: &Gateway, session: &Session, request: &Request) -> Result<(), RpcError> {
    let level = parse_log_level(
        request
            .params
            .get("level")
            .map_or(RawValue::NULL, Box::as_ref),
    )?;
    session.log_level().set(level);
    gateway.upstreams().request_log_level(level);
    Ok(())
}

async fn watch(caller: &Caller, session: &Arc<Session>, request: &Request) -> Result<(), RpcError> {
    let uri = request.text("uri")?;
    let weak = Arc::downgrade(session);
    let notify = move |method: &str, params: &RawValue| {
        if let Some(session) = weak.upgrade() {
            let message = message::outgoing(None, method, &untagged(params));
            session.push(message);
        }
    };
    let subscribed = subscriptions::subscribe(caller, &uri, notify).await?;
    if !session.watch(uri, subscribed) {
        return Err(invalid_params(
            "The session has too many resource subscriptions",
        ));
    }
    Ok(())
}

/// Returns the parameters of a notification without the id of Pillion's own subscription.
fn untagged(params: &RawValue) -> Members {
    let mut members: Members = serde_json::from_str(params.get()).unwrap_or_default();
    if let Some(meta) = members.get("_meta")
        && let Ok(mut meta) = serde_json::from_str::<Members>(meta.get())
    {
        meta.shift_remove(message::SUBSCRIPTION_ID);
        match message::raw(&meta) {
            Ok(meta) if meta.get() != "{}" => drop(members.insert("_meta".to_owned(), meta)),
            _ => drop(members.shift_remove("_meta")),
        }
    }
    members
}

/// A running request of a session.
pub(super) struct Answering {
    running: Option<Running>,
    session: Arc<Session>,
    id: Box<RawValue>,
    /// The id of the task that runs the request.
    task: task::Id,
    _client: Arc<AwaitingClient>,
}

impl Answering {
    /// Starts a request of a session.
    ///
    /// # Errors
    /// As for [`Session::begin`].
    pub(super) fn start(
        caller: &Caller,
        session: &Arc<Session>,
        request: Request,
        responses: Responses,
        can_stream: bool,
    ) -> Result<Self, RpcError> {
        let id = request.id.clone();
        let requester = session.requester(can_stream);
        // In revisions with sessions, a disconnect does not cancel a request.
        let start = || {
            let request = Arc::new(request);
            let running = Running::start_detachable(caller, request, requester);
            let handle = running.abort_handle();
            (running, handle)
        };
        let client = Arc::default();
        let running = session.begin(id.get(), responses, &client, start)?;
        Ok(Self {
            _client: client,
            task: running.abort_handle().id(),
            running: Some(running),
            session: Arc::clone(session),
            id,
        })
    }

    /// Returns whether the response was taken, so that no further message follows.
    pub(super) fn is_finished(&self) -> bool {
        self.running.is_none()
    }
}

impl Source for Answering {
    async fn next(&mut self) -> Option<Bytes> {
        match self.running.as_mut()?.next().await {
            Event::Notice(notice) => Some(notice),
            Event::Question(question) => Some(self.session.ask(question)),
            Event::Done(outcome) => {
                self.running = None;
                Some(message::response(Some(&self.id), &outcome))
            }
            Event::Cancelled => {
                self.running = None;
                if !self.session.has_aborted(self.task) {
                    return None;
                }
                let reason = "The session ended before the request was answered; a tool that was \
                              called may have run anyway";
                let error = RpcError::new(SESSION_ENDED, reason);
                Some(message::response(Some(&self.id), &Err(error)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_the_internal_subscription_is_not_forwarded() {
        let params = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let tagged = params(
            r#"{"uri":"a://b","_meta":{"io.modelcontextprotocol/subscriptionId":"x","n":1.0}}"#,
        );
        let untagged_again = serde_json::to_string(&untagged(&tagged)).unwrap();
        assert_eq!(untagged_again, r#"{"uri":"a://b","_meta":{"n":1.0}}"#);
        let tagged = params(r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}"#);
        assert!(untagged(&tagged).is_empty());
    }
}
