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
use super::request_task::{RequestEvent, RequestTask};
use super::source::{MessageListener, MessageSource};
use super::suspended::{self, ResumedRequest};
use super::{Caller, Owner, subscriptions};
use crate::McpServer;
use pillion_gateway::Gateway;
use pillion_gateway::calling_client::capabilities;
use pillion_gateway::calling_client::link::{LogThreshold, Question, Requester};
use pillion_gateway::calling_client::message::{
    self, LOG_LEVEL_KEY, Members, PROTOCOL_VERSION_KEY, Request, SUBSCRIPTION_ID_KEY,
    error_with_data, invalid_params, parse_log_level,
};

pub(super) const UNSUPPORTED_VERSION_CODE: i64 = -32022;

/// The HTTP header that repeats the protocol version of a request.
pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";
const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";

/// Maximum number of resources in one subscription.
const MAX_RESOURCES: usize = 1_000;

/// Reads the properties of the client from the request's `_meta`.
///
/// `check_header` checks a value in the message against the HTTP header with the given name.
///
/// # Errors
/// Required members are missing, differ from their headers, or name an unsupported revision.
pub(super) fn parse_requester(
    gateway: &Gateway,
    request: &Request,
    can_stream: bool,
    check_header: impl Fn(&'static str, &str) -> Result<(), RpcError>,
) -> Result<Requester, RpcError> {
    let meta = request.meta();
    let version: String = read_meta_member(&meta, PROTOCOL_VERSION_KEY)?;
    let capabilities: Map<String, Value> = read_meta_member(&meta, CLIENT_CAPABILITIES)?;
    check_header(VERSION_HEADER, &version)?;
    let parsed_version = version.parse::<ProtocolVersion>().ok();
    let supported_version =
        parsed_version.filter(|version| version.supports(Feature::RequestMetadata));
    let protocol_version = supported_version.ok_or_else(|| {
        let data = json!({"supported": [ProtocolVersion::LATEST], "requested": version});
        let reason = "Unsupported protocol version";
        error_with_data(UNSUPPORTED_VERSION_CODE, reason, &data)
    })?;
    check_header(METHOD_HEADER, &request.method)?;
    let name_member = match request.method.as_str() {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    };
    if let Some(name_member) = name_member {
        check_header(NAME_HEADER, &request.text(name_member)?)?;
    }
    if let Some(level) = meta.get(LOG_LEVEL_KEY) {
        let log_level = parse_log_level(level)?;
        gateway.upstreams().request_log_level(log_level);
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

fn read_meta_member<T: serde::de::DeserializeOwned>(
    meta: &Members,
    key: &str,
) -> Result<T, RpcError> {
    meta.get(key)
        .and_then(|value| serde_json::from_str(value.get()).ok())
        .ok_or_else(|| invalid_params(format!("'_meta' must have a valid '{key}'")))
}

/// A request of a client without a session. The request is running, or it waits for the client's
/// response to an input request, such as an elicitation.
pub(super) struct RunningStatelessRequest {
    request_task: Option<RequestTask>,
    /// The input request to which the client's latest request contained no response.
    unanswered_question: Option<Question>,
    mcp: McpServer,
    owner: Owner,
    request: Arc<Request>,
}

pub(super) enum RoundStep {
    Notice(Bytes),
    Done(Result<Box<RawValue>, RpcError>),
}

impl RunningStatelessRequest {
    /// Starts a request, or resumes a suspended request that waited for the client's response.
    pub(super) fn start(
        caller: &Caller,
        request: &Arc<Request>,
        requester: Requester,
    ) -> Result<Self, RpcError> {
        let owner = caller.owner();
        let suspended_requests = &caller.mcp.state.suspended_requests;
        let resumed_request = suspended_requests.resume(request, &owner)?;
        let start = || RequestTask::start(caller, Arc::clone(request), requester);
        let mut running_request = Self {
            request_task: None,
            unanswered_question: None,
            mcp: caller.mcp.clone(),
            owner,
            request: Arc::clone(request),
        };
        match resumed_request {
            None => running_request.request_task = Some(start()),
            Some(ResumedRequest::Answered(task)) => running_request.request_task = Some(task),
            Some(ResumedRequest::Unanswered(task, question)) => {
                running_request.request_task = Some(task);
                running_request.unanswered_question = Some(question);
            }
        }
        Ok(running_request)
    }

    /// Suspends the request until the client has responded to the input request `question`.
    fn suspend(&mut self, question: Question) -> Result<Box<RawValue>, RpcError> {
        let task = self.request_task.take().ok_or_else(cancelled_error)?;
        let (request, owner) = (&self.request, &self.owner);
        let accounts = &self.mcp.gateway.process().detached_requests;
        let suspended_requests = &self.mcp.state.suspended_requests;
        let input_required =
            suspended_requests.suspend(accounts, task, question, request, owner)?;
        suspended::expire_later(&self.mcp.state);
        Ok(input_required)
    }

    /// Waits for the next message or the result.
    pub(super) async fn next_step(&mut self) -> RoundStep {
        if let Some(question) = self.unanswered_question.take() {
            return RoundStep::Done(self.suspend(question));
        }
        let Some(request_task) = &mut self.request_task else {
            return RoundStep::Done(Err(cancelled_error()));
        };
        match request_task.next().await {
            RequestEvent::Notice(notice) => RoundStep::Notice(notice),
            RequestEvent::Done(outcome) => {
                self.request_task = None;
                RoundStep::Done(outcome)
            }
            RequestEvent::Cancelled => {
                self.request_task = None;
                RoundStep::Done(Err(cancelled_error()))
            }
            RequestEvent::Question(question) => RoundStep::Done(self.suspend(question)),
        }
    }
}

impl MessageSource for RunningStatelessRequest {
    async fn next(&mut self) -> Option<Bytes> {
        self.request_task.as_ref()?;
        Some(match self.next_step().await {
            RoundStep::Notice(notice) => notice,
            RoundStep::Done(outcome) => {
                self.request_task = None;
                message::response(Some(&self.request.id), &outcome)
            }
        })
    }
}

fn cancelled_error() -> RpcError {
    RpcError::new(message::INTERNAL_ERROR, "The request was cancelled")
}

/// Handles `subscriptions/listen`. Returns the first message, and the source of all further
/// messages.
pub(super) async fn listen(
    caller: &Caller,
    request: &Request,
) -> Result<(Bytes, MessageListener), RpcError> {
    let filter: SubscriptionFilter = match request.params.get("notifications") {
        None => SubscriptionFilter::default(),
        Some(filter) => serde_json::from_str(filter.get())
            .map_err(|_| invalid_params("'notifications' must be a subscription filter"))?,
    };
    if filter.resources.len() > MAX_RESOURCES {
        let reason = format!("A client can subscribe to at most {MAX_RESOURCES} resources at once");
        return Err(invalid_params(reason));
    }
    let list_changes = &caller.mcp.state.list_changes;
    let changes = list_changes.listen(&caller.mcp.gateway, &caller.visibility);
    let (outbox, messages) = Outbox::for_notifications();
    let mut subscriptions = Vec::new();
    for uri in &filter.resources {
        let (outbox, id) = (outbox.clone(), request.id.clone());
        let notify = move |method: &str, params: &RawValue| {
            outbox.notify(format_subscription_notice(method, Some(params), &id));
        };
        subscriptions.push(subscriptions::subscribe(caller, uri, notify).await?);
    }
    let params = json!({
        "notifications": &filter,
        "_meta": {SUBSCRIPTION_ID_KEY: &request.id},
    });
    let method = "notifications/subscriptions/acknowledged";
    let acknowledgment = message::outgoing(None, method, &params);
    let id = request.id.clone();
    let to_message = move |change: &'static str| {
        let is_selected = match change {
            "notifications/tools/list_changed" => filter.tools_list_changed,
            "notifications/prompts/list_changed" => filter.prompts_list_changed,
            _ => filter.resources_list_changed,
        };
        is_selected.then(|| format_subscription_notice(change, None, &id))
    };
    let final_result = message::raw(&json!({
        "resultType": "complete",
        "_meta": {SUBSCRIPTION_ID_KEY: &request.id},
    }));
    let listener = MessageListener {
        messages,
        changes,
        to_message: Box::new(to_message),
        stop_future: Box::pin(caller.mcp.state.wait_until_stopped()),
        last_message: Some(message::response(Some(&request.id), &final_result)),
        subscriptions,
        _open_outbox: Some(outbox),
        is_finished: false,
    };
    Ok((acknowledgment, listener))
}

/// Creates a notification that contains the ID of its subscription.
fn format_subscription_notice(method: &str, params: Option<&RawValue>, id: &RawValue) -> Bytes {
    let mut members: Members = params
        .and_then(|params| serde_json::from_str(params.get()).ok())
        .unwrap_or_default();
    let mut meta: Members = members
        .get("_meta")
        .and_then(|meta| serde_json::from_str(meta.get()).ok())
        .unwrap_or_default();
    meta.insert(SUBSCRIPTION_ID_KEY.to_owned(), id.to_owned());
    if let Ok(meta) = message::raw(&meta) {
        members.insert("_meta".to_owned(), meta);
    }
    message::outgoing(None, method, &members)
}
