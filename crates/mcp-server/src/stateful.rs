//! Handles the messages of a session in revisions up to 2025-11-25, independent of the transport.

use std::sync::Arc;

use axum::body::Bytes;
use pillion_mcp_client::{ProtocolVersion, RpcError};
use serde_json::value::RawValue;
use serde_json::{Map, json};
use tokio::task;

use super::request_task::{RequestEvent, RequestTask};
use super::sessions::{AwaitingClient, MAX_RESOURCES, Responses, Session};
use super::source::MessageSource;
use super::{Caller, subscriptions};
use pillion_gateway::Gateway;
use pillion_gateway::calling_client::message::{
    self, INVALID_REQUEST, Inbound, Members, Request, invalid_params, parse_log_level, raw,
};

/// The error code of a request that was aborted by the end of its session.
const SESSION_ENDED_CODE: i64 = -32000;

/// Handles `initialize`. Returns the new session and the result.
pub(super) fn initialize(
    caller: &Caller,
    request: &Request,
) -> Result<(Arc<Session>, Box<RawValue>), RpcError> {
    let requested_version = request.text("protocolVersion")?;
    let capabilities = match request.params.get("capabilities") {
        None => Map::new(),
        Some(capabilities) => serde_json::from_str(capabilities.get())
            .map_err(|_| invalid_params("'capabilities' must be an object"))?,
    };
    let version = requested_version
        .parse::<ProtocolVersion>()
        .ok()
        .filter(|version| *version <= ProtocolVersion::LATEST_WITH_HANDSHAKE)
        .unwrap_or(ProtocolVersion::LATEST_WITH_HANDSHAKE);
    let result = raw(&json!({
        "protocolVersion": version,
        "capabilities": super::create_capabilities(),
        "serverInfo": super::create_server_info(),
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
        // Ignores `notifications/initialized` and unknown notifications.
        Inbound::Notification { .. } | Inbound::Request(_) => {}
    }
}

/// Returns whether a request with this method changes the session: begins it, or sets its log level
/// or its subscriptions.
pub(super) fn concerns_session(method: &str) -> bool {
    matches!(
        method,
        "initialize" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
    )
}

/// Handles a request that [changes the session](concerns_session).
pub(super) async fn handle_session_request(
    caller: &Caller,
    session: &Arc<Session>,
    request: &Request,
) -> Result<Box<RawValue>, RpcError> {
    match request.method.as_str() {
        "logging/setLevel" => set_level(&caller.mcp.gateway, session, request)?,
        "resources/subscribe" => subscribe_to_resource(caller, session, request).await?,
        "resources/unsubscribe" => session.remove_subscription(&request.text("uri")?),
        _ => {
            let reason = "The session is already initialized";
            return Err(RpcError::new(INVALID_REQUEST, reason));
        }
    }
    raw(&json!({}))
}

fn set_level(gateway: &Gateway, session: &Session, request: &Request) -> Result<(), RpcError> {
    let level_json = request.params.get("level");
    let level = parse_log_level(level_json.map_or(RawValue::NULL, Box::as_ref))?;
    session.log_level().set(level);
    gateway.upstreams().request_log_level(level);
    Ok(())
}

async fn subscribe_to_resource(
    caller: &Caller,
    session: &Arc<Session>,
    request: &Request,
) -> Result<(), RpcError> {
    let uri = request.text("uri")?;
    let weak_session = Arc::downgrade(session);
    let notify = move |method: &str, params: &RawValue| {
        if let Some(session) = weak_session.upgrade() {
            let message = message::outgoing(None, method, &remove_subscription_id(params));
            session.push(message);
        }
    };
    let subscription = subscriptions::subscribe(caller, &uri, notify).await?;
    if !session.add_subscription(uri, subscription) {
        return Err(invalid_params(format!(
            "The session already has {MAX_RESOURCES} resource subscriptions, the maximum"
        )));
    }
    Ok(())
}

/// Returns the parameters of a notification without the ID of Pillion's own subscription.
fn remove_subscription_id(params: &RawValue) -> Members {
    let mut members: Members = serde_json::from_str(params.get()).unwrap_or_default();
    if let Some(meta) = members.get("_meta")
        && let Ok(mut meta) = serde_json::from_str::<Members>(meta.get())
    {
        meta.shift_remove(message::SUBSCRIPTION_ID_KEY);
        match message::raw(&meta) {
            Ok(meta) if meta.get() != "{}" => drop(members.insert("_meta".to_owned(), meta)),
            _ => drop(members.shift_remove("_meta")),
        }
    }
    members
}

/// A running request of a session.
pub(super) struct RunningSessionRequest {
    request_task: Option<RequestTask>,
    session: Arc<Session>,
    id: Box<RawValue>,
    /// The ID of the task that runs the request.
    task_id: task::Id,
    _client: Arc<AwaitingClient>,
}

impl RunningSessionRequest {
    /// Starts a request of a session.
    ///
    /// # Errors
    /// The same errors as [`Session::start_request`].
    pub(super) fn start(
        caller: &Caller,
        session: &Arc<Session>,
        request: Request,
        responses: Responses,
        can_stream: bool,
    ) -> Result<Self, RpcError> {
        let id = request.id.clone();
        let requester = session.requester(can_stream);
        // Starts a request that continues after a disconnect, because a disconnect does not cancel
        // a request in revisions with sessions.
        let start = || {
            let request = Arc::new(request);
            let request_task = RequestTask::start_detachable(caller, request, requester);
            let handle = request_task.abort_handle();
            (request_task, handle)
        };
        let client = Arc::default();
        let request_task = session.start_request(id.get(), responses, &client, start)?;
        Ok(Self {
            _client: client,
            task_id: request_task.abort_handle().id(),
            request_task: Some(request_task),
            session: Arc::clone(session),
            id,
        })
    }

    /// Returns whether the response was already returned, so that no further message follows.
    pub(super) fn is_finished(&self) -> bool {
        self.request_task.is_none()
    }
}

impl MessageSource for RunningSessionRequest {
    async fn next(&mut self) -> Option<Bytes> {
        match self.request_task.as_mut()?.next().await {
            RequestEvent::Notice(notice) => Some(notice),
            RequestEvent::Question(question) => Some(self.session.register_question(question)),
            RequestEvent::Done(outcome) => {
                self.request_task = None;
                Some(message::response(Some(&self.id), &outcome))
            }
            RequestEvent::Cancelled => {
                self.request_task = None;
                if !self.session.has_aborted(self.task_id) {
                    return None;
                }
                let reason = "The session ended before the request was answered; a tool that was \
                              called may have run anyway";
                let error = RpcError::new(SESSION_ENDED_CODE, reason);
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
        let remaining_params = serde_json::to_string(&remove_subscription_id(&tagged)).unwrap();
        assert_eq!(remaining_params, r#"{"uri":"a://b","_meta":{"n":1.0}}"#);
        let tagged = params(r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}"#);
        assert!(remove_subscription_id(&tagged).is_empty());
    }
}
