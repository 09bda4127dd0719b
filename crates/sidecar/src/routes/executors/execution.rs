use std::collections::HashMap;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use pillion_core::executor::{ApprovalRequest, Decision, Executor, ReadyCall};
use pillion_core::job_channel::{
    CallNotification, HandledJobs, JobChannel, JobOutcome, JobPeer, PeerCall, PeerGone, ToolRun,
};
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{CallContext, JsonObject, ToolFailure, ToolName, ToolOutput, ToolResult};
use pillion_gateway::access::Peer;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::message::{Callbacks, ExecuteParams, PhpCall, PhpResponse};
use super::php_process::{BusyGuard, PhpProcess};
use crate::current_app::CurrentApp;
use crate::routes::tools::executor_call::ExecutorCall;
use pillion_config::HttpSection;
use pillion_gateway::rpc_connection;

/// The handler of a tool of a PHP registry.
#[derive(Clone)]
pub(super) enum Handler {
    /// The PHP process runs the tool with this `ToolEntry::number`.
    Php(u64),
    /// The sidecar runs its own tool with this name, as it does for requests to the REST API.
    Sidecar(ToolName),
}

/// A request `tools/execute` whose calls are running.
pub(super) struct Execution {
    id: u64,
    php: Arc<PhpProcess>,
    current_app: CurrentApp,
    peer: Peer,
    callbacks: Callbacks,
    /// The headers for calls of the sidecar's own tools, or why the headers are invalid.
    headers: Result<HeaderMap, ToolFailure>,
    /// The number of requests to which the PHP process has not responded.
    unanswered_requests: Arc<watch::Sender<usize>>,
}

impl JobPeer for Execution {
    type Tool = Handler;

    const NAME: &'static str = "PHP process";

    fn handled_jobs(&self) -> HandledJobs {
        HandledJobs {
            approvals: self.callbacks.approve,
            gate: self.callbacks.before,
            notifications: true,
        }
    }

    async fn run_tool(&self, run: ToolRun<Handler>) -> JobOutcome<ToolOutput> {
        let number = match run.tool {
            Handler::Php(number) => number,
            Handler::Sidecar(name) => return Ok(self.run_in_sidecar(name, run.arguments).await),
        };
        let params = json!({
            "name": run.name, "tool": number, "callId": run.call_id, "arguments": run.arguments,
        });
        let response = self.request("tools/call", params).await?;
        Ok(response.and_then(|response| {
            response.into_output().unwrap_or_else(|| {
                let message = format!("Tool '{}' returned no result", run.name);
                Err(ToolFailure::internal(message))
            })
        }))
    }

    async fn approve(&self, request: Box<ApprovalRequest>) -> JobOutcome<Decision> {
        let mut params = build_params(&request.tool, &request.arguments, &request.context);
        params["approvalId"] = json!(request.id);
        let response = self.request("approve", params).await?;
        Ok(response.and_then(|mut response| {
            let (decision, edited_arguments) = (response.decision, response.arguments.take());
            if let Some(Err(failure)) = response.into_output() {
                return Err(failure);
            }
            Ok(match decision {
                Some(true) => edited_arguments.map_or(Decision::Approved, Decision::Edited),
                Some(false) => Decision::Denied,
                None => Decision::Undecided,
            })
        }))
    }

    async fn enter(&self, call: Box<ReadyCall>) -> JobOutcome<Option<ToolOutput>> {
        let mut params = build_params(&call.tool, &call.arguments, &call.context);
        if let Some(approval) = &call.approval {
            params["approvalId"] = json!(approval);
        }
        let response = self.request("before", params).await?;
        Ok(response.and_then(|response| response.into_output().transpose()))
    }

    /// Sends a notification without waiting for room in the outbox. The outbox stays bounded: each
    /// call sends two notifications, neither larger than the call's part of the request, and the
    /// size of a request is limited.
    fn notify(&self, notification: CallNotification) {
        let mut params = json!({
            "execution": self.id,
            "name": notification.tool,
            "callId": notification.call_id,
            "server": notification.server,
        });
        let method = match notification.end {
            None => "notifications/call_started",
            Some(end) => {
                params["errorCode"] = json!(end.error_code);
                params["seconds"] = json!(end.elapsed.as_secs_f64());
                "notifications/call_finished"
            }
        };
        self.php
            .send_now(rpc_connection::notification(method, &params));
    }

    async fn wait_until_idle(&self) {
        let mut unanswered_requests = self.unanswered_requests.subscribe();
        // Waiting fails only if the sender is dropped, but `self` owns the sender.
        drop(unanswered_requests.wait_for(|count| *count == 0).await);
    }
}

impl Execution {
    pub(super) fn new(
        id: u64,
        php: Arc<PhpProcess>,
        current_app: CurrentApp,
        peer: Peer,
        params: &mut ExecuteParams,
    ) -> Self {
        let failure = params.header_failure.take();
        let headers = match failure.map(ToolResult::into_output) {
            Some(Err(failure)) => Err(failure),
            _ => read_headers(
                std::mem::take(&mut params.headers),
                current_app.app().http(),
            ),
        };
        Self {
            id,
            php,
            current_app,
            peer,
            callbacks: params.callbacks,
            headers,
            unanswered_requests: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Runs one of the sidecar's own tools.
    async fn run_in_sidecar(
        &self,
        name: ToolName,
        arguments: JsonObject,
    ) -> Result<ToolOutput, ToolFailure> {
        let call = ExecutorCall {
            name,
            arguments,
            headers: self.headers.clone()?,
            peer: self.peer,
        };
        call.run(&self.current_app.app()).await
    }

    /// Sends a request about a call to the PHP process and waits for the response.
    async fn request(&self, method: &str, mut params: Value) -> JobOutcome<PhpResponse> {
        params["execution"] = json!(self.id);
        let busy_guard = BusyGuard::new(&self.unanswered_requests);
        match self.php.request(method, &params, busy_guard).await {
            Ok(response) => response.await.map_err(|_| PeerGone),
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Runs the calls. Sends each result when its call has ended, and then the response. PHP has
    /// one thread, so PHP tools run one after the other; the sidecar's own tools run concurrently
    /// with PHP tools.
    pub(super) async fn run(self, mut executor: Executor, params: ExecuteParams) {
        if params.nested {
            // Nested calls get separate permits, because the PHP tool that makes the calls holds
            // its own permit until the calls have finished.
            executor = executor.with_separate_permits();
        }
        let context = CallContext {
            user: params.user,
            channel: params.channel,
            approved: params.approved,
            approved_arguments: params.approved_arguments,
            denied: params.denied,
            ..CallContext::default()
        };
        let to_peer_call = |PhpCall { call, in_php }| PeerCall {
            call,
            is_by_peer: in_php || !params.parallel,
        };
        let peer_calls = params.calls.into_iter().map(to_peer_call);
        let channel = JobChannel::new(self);
        let Self { id, php, .. } = channel.peer();
        let send_result = |index: usize, result: ToolResult| async move {
            let params = json!({"execution": id, "index": index, "result": result});
            let line = rpc_connection::notification("notifications/result", &params);
            php.send(line).await;
        };
        let calls = peer_calls.collect();
        channel.run(&executor, calls, &context, send_result).await;
        php.send(rpc_connection::empty_response(&json!(id))).await;
    }
}

fn build_params(tool: &RegisteredTool, arguments: &JsonObject, context: &CallContext) -> Value {
    json!({"name": tool.name(), "callId": context.call_id, "arguments": arguments})
}

/// Reads the headers for calls of the sidecar's own tools, with the limits of requests to the REST
/// API.
///
/// # Errors
/// `invalid_input` if there are too many headers, or one of them is invalid.
fn read_headers(
    headers: HashMap<String, String>,
    limits: &HttpSection,
) -> Result<HeaderMap, ToolFailure> {
    let too_many_headers = |limit: &str| {
        let message = format!("The context has more headers than {limit} allows");
        ToolFailure::invalid_input(message)
    };
    let bytes = headers.iter().map(|(name, value)| name.len() + value.len());
    if headers.len() > limits.max_headers.get() {
        return Err(too_many_headers("http.max_headers"));
    }
    if bytes.sum::<usize>() > limits.max_header_bytes {
        return Err(too_many_headers("http.max_header_bytes"));
    }
    let mut header_map = HeaderMap::new();
    for (name, value) in headers {
        let parsed_name = HeaderName::try_from(&name).ok();
        let header = parsed_name.zip(HeaderValue::try_from(value).ok());
        let (header_name, header_value) = header.ok_or_else(|| {
            ToolFailure::invalid_input(format!(
                "The value of the header {name} has characters that are not allowed in a header"
            ))
        })?;
        header_map
            .try_insert(header_name, header_value)
            .map_err(|_| too_many_headers("HTTP"))?;
    }
    Ok(header_map)
}
