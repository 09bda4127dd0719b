//! Handles the requests of revision 2026-07-28, independent of the transport.

use std::sync::Arc;

use axum::body::Bytes;
use pillion_mcp_client::{
    CLIENT_CAPABILITIES, Feature, ProtocolVersion, RpcError, SubscriptionFilter,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::outbox::Outbox;
use super::running::{Event, Running};
use super::source::{MessageListener, Source};
use super::suspended::{self, Resumed};
use super::{Caller, Owner, subscriptions};
use crate::McpServer;
use pillion_gateway::Gateway;
use pillion_gateway::calling_client::capabilities;
use pillion_gateway::calling_client::link::{LogThreshold, Question, Requester};
use pillion_gateway::calling_client::message::{
    self, LOG_LEVEL, Members, PROTOCOL_VERSION, Request, SUBSCRIPTION_ID, error_with,
    invalid_params, parse_log_level,
};

pub(super) const UNSUPPORTED_VERSION: i64 = -32022;

/// The headers that repeat members of a request.
pub(super) const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Maximum number of resources in one subscription.
const MAX_RESOURCES: usize = 1_000;

/// Reads the requester from the request's `_meta`.
///
/// `repeated` checks a value in the message against the HTTP header with the given name.
///
/// # Errors
/// Required members are missing, differ from their headers, or name an unsupported revision.
pub(super) fn requester(
    gateway: &Gateway,
    request: &Request,
    can_stream: bool,
    repeated: impl Fn(&'static str, &str) -> Result<(), RpcError>,
) -> Result<Requester, RpcError> {
    let meta = request.meta();
    let version: String = field(&meta, PROTOCOL_VERSION)?;
    let capabilities: Map<String, Value> = field(&meta, CLIENT_CAPABILITIES)?;
    repeated(VERSION, &version)?;
    let parsed = version.parse::<ProtocolVersion>().ok();
    let supported = parsed.filter(|version| version.supports(Feature::RequestMetadata));
    let protocol_version = supported.ok_or_else(|| {
        let data = json!({"supported": [ProtocolVersion::LATEST], "requested": version});
        error_with(UNSUPPORTED_VERSION, "Unsupported protocol version", &data)
    })?;
    repeated(METHOD, &request.method)?;
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    };
    if let Some(name) = name {
        repeated(NAME, &request.text(name)?)?;
    }
    if let Some(level) = meta.get(LOG_LEVEL) {
        gateway
            .upstreams()
            .request_log_level(parse_log_level(level)?);
    }
    Ok(Requester {
        owner: Uuid::new_v4(),
        version: protocol_version,
        capabilities: capabilities::limit_size(capabilities),
        log_level: LogThreshold::new(None),
        param_headers: None,
        can_stream,
    })
}

fn field<T: serde::de::DeserializeOwned>(meta: &Members, key: &str) -> Result<T, RpcError> {
    meta.get(key)
        .and_then(|value| serde_json::from_str(value.get()).ok())
        .ok_or_else(|| invalid_params(format!("'_meta' must have '{key}'")))
}

/// A running request of a client without a session, or a question that waits for its response.
pub(super) struct Answering {
    running: Option<Running>,
    /// The question that the client has not answered in this round.
    unanswered: Option<Question>,
    mcp: McpServer,
    owner: Owner,
    request: Arc<Request>,
}

pub(super) enum RoundStep {
    Notice(Bytes),
    Done(Result<Box<RawValue>, RpcError>),
}

impl Answering {
    /// Starts a request, or resumes a request that waited for the client.
    pub(super) fn start(
        caller: &Caller,
        request: &Arc<Request>,
        requester: Requester,
    ) -> Result<Self, RpcError> {
        let owner = caller.owner();
        let resumed = caller.mcp.state.suspended.resume(request, &owner)?;
        let start = || Running::start(caller, Arc::clone(request), requester);
        let mut answering = Self {
            running: None,
            unanswered: None,
            mcp: caller.mcp.clone(),
            owner,
            request: Arc::clone(request),
        };
        match resumed {
            None => answering.running = Some(start()),
            Some(Resumed::Running(running)) => answering.running = Some(running),
            Some(Resumed::Unanswered(running, question)) => {
                answering.running = Some(running);
                answering.unanswered = Some(question);
            }
        }
        Ok(answering)
    }

    /// Suspends the request until the client has answered the question.
    fn hold(&mut self, question: Question) -> Result<Box<RawValue>, RpcError> {
        let running = self.running.take().ok_or_else(cancelled)?;
        let accounts = &self.mcp.gateway.process().detached;
        let suspended = &self.mcp.state.suspended;
        let held = suspended.hold(accounts, running, question, &self.request, &self.owner)?;
        suspended::expire_later(&self.mcp.state);
        Ok(held)
    }

    /// Waits for the next message or the result.
    pub(super) async fn step(&mut self) -> RoundStep {
        if let Some(question) = self.unanswered.take() {
            return RoundStep::Done(self.hold(question));
        }
        let Some(running) = &mut self.running else {
            return RoundStep::Done(Err(cancelled()));
        };
        match running.next().await {
            Event::Notice(notice) => RoundStep::Notice(notice),
            Event::Done(outcome) => {
                self.running = None;
                RoundStep::Done(outcome)
            }
            Event::Cancelled => {
                self.running = None;
                RoundStep::Done(Err(cancelled()))
            }
            Event::Question(question) => RoundStep::Done(self.hold(question)),
        }
    }
}

impl Source for Answering {
    async fn next(&mut self) -> Option<Bytes> {
        self.running.as_ref()?;
        Some(match self.step().await {
            RoundStep::Notice(notice) => notice,
            RoundStep::Done(outcome) => {
                self.running = None;
                message::response(Some(&self.request.id), &outcome)
            }
        })
    }
}

fn cancelled() -> RpcError {
    RpcError::new(message::INTERNAL_ERROR, "The request was cancelled")
}

/// Handles `subscriptions/listen`. Returns the first message, and the source of all further
/// messages.
pub(super) async fn listen(
    caller: &Caller,
    request: &Request,
) -> Result<(Bytes, MessageListener), RpcError> {
    let requested: SubscriptionFilter = match request.params.get("notifications") {
        None => SubscriptionFilter::default(),
        Some(requested) => serde_json::from_str(requested.get())
            .map_err(|_| invalid_params("'notifications' must be a subscription filter"))?,
    };
    if requested.resources.len() > MAX_RESOURCES {
        let reason = format!("A client can subscribe to at most {MAX_RESOURCES} resources at once");
        return Err(invalid_params(reason));
    }
    let changes = caller
        .mcp
        .state
        .listening
        .listen(&caller.mcp.gateway, &caller.visibility);
    let (outbox, messages) = Outbox::for_notifications();
    let mut subscriptions = Vec::new();
    for uri in &requested.resources {
        let (outbox, id) = (outbox.clone(), request.id.clone());
        let notify = move |method: &str, params: &RawValue| {
            outbox.notify(tagged(method, Some(params), &id));
        };
        subscriptions.push(subscriptions::subscribe(caller, uri, notify).await?);
    }
    let params = json!({
        "notifications": &requested,
        "_meta": {SUBSCRIPTION_ID: &request.id},
    });
    let method = "notifications/subscriptions/acknowledged";
    let acknowledged = message::outgoing(None, method, &params);
    let id = request.id.clone();
    let to_message = move |change: &'static str| {
        let is_selected = match change {
            "notifications/tools/list_changed" => requested.tools_list_changed,
            "notifications/prompts/list_changed" => requested.prompts_list_changed,
            _ => requested.resources_list_changed,
        };
        is_selected.then(|| tagged(change, None, &id))
    };
    let ended = message::raw(&json!({
        "resultType": "complete",
        "_meta": {SUBSCRIPTION_ID: &request.id},
    }));
    let listener = MessageListener {
        messages,
        changes,
        to_message: Box::new(to_message),
        stopped: Box::pin(caller.mcp.state.stopped()),
        last_message: Some(message::response(Some(&request.id), &ended)),
        subscriptions,
        _open: Some(outbox),
        is_finished: false,
    };
    Ok((acknowledged, listener))
}

/// Creates a notification that contains the id of its subscription.
fn tagged(method: &str, params: Option<&RawValue>, id: &RawValue) -> Bytes {
    let mut members: Members = params
        .and_then(|params| serde_json::from_str(params.get()).ok())
        .unwrap_or_default();
    let mut meta: Members = members
        .get("_meta")
        .and_then(|meta| serde_json::from_str(meta.get()).ok())
        .unwrap_or_default();
    meta.insert(SUBSCRIPTION_ID.to_owned(), id.to_owned());
    if let Ok(meta) = message::raw(&meta) {
        members.insert("_meta".to_owned(), meta);
    }
    message::outgoing(None, method, &members)
}
