use std::sync::Arc;
use std::time::Duration;

use indexmap::{IndexMap, IndexSet};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::RequestOptions;
use super::delivery::Delivery;
use super::request_sender::{
    InputRequest, InputResponses, MAX_INPUT_REQUESTS, MAX_ROUNDS, RequestSender,
    collect_input_responses, unexpected_result,
};
use crate::callbacks::ProgressNotification;
use crate::on_drop::{OnDrop, run_in_background};
use crate::{McpErrorKind, RpcError};

const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum duration of one `tasks/get` request; after a timeout, the request is sent again.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after the first failed `tasks/get`; doubles with each further failure.
const MIN_BACKOFF_INTERVAL: Duration = Duration::from_millis(100);
const MAX_BACKOFF_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of consecutive JSON-RPC errors in response to requests about a task; then polling
/// ends. Only errors that concern the server as a whole count.
const MAX_SERVER_ERRORS: u32 = 5;

const INTERNAL_ERROR: i64 = -32603;

/// The state of a long-running request (extension `io.modelcontextprotocol/tasks`). Optional
/// members of an unexpected type count as absent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
    status: String,
    #[serde(default, deserialize_with = "deserialize_if_valid")]
    status_message: Option<String>,
    #[serde(default, deserialize_with = "deserialize_if_valid")]
    poll_interval_ms: Option<f64>,
    result: Option<Box<RawValue>>,
    error: Option<RpcError>,
    input_requests: Option<IndexMap<String, InputRequest>>,
}

impl Task {
    /// Returns how long to wait before the next `tasks/get`.
    fn poll_interval(&self) -> Duration {
        let Some(milliseconds) = self.poll_interval_ms else {
            return DEFAULT_POLL_INTERVAL;
        };
        let seconds = milliseconds.max(0.0) / 1000.0;
        let interval = Duration::try_from_secs_f64(seconds).unwrap_or(MAX_POLL_INTERVAL);
        interval.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
    }

    /// Takes the outcome of the task; `None` if the task has not finished.
    fn take_outcome(&mut self) -> Option<Result<Box<RawValue>, McpErrorKind>> {
        match self.status.as_str() {
            "completed" => {
                let missing = || unexpected_result(serde::de::Error::missing_field("result"));
                Some(self.result.take().ok_or_else(missing))
            }
            "failed" => {
                let message = self.status_message.take().unwrap_or_default();
                let task_error = self.error.take();
                let error = task_error.unwrap_or_else(|| RpcError::new(INTERNAL_ERROR, message));
                Some(Err(McpErrorKind::Rpc(error)))
            }
            "cancelled" => {
                let message = self.status_message.take();
                Some(Err(McpErrorKind::TaskCancelled { message }))
            }
            _ => None,
        }
    }
}

/// Polls a task until the result is available.
struct TaskPoller<'a> {
    sender: &'a RequestSender,
    /// Keys of those input requests of the task to which the client has responded or is responding.
    answered_keys: IndexSet<String>,
    /// The client's responses that may not have reached the server, by the keys of their input
    /// requests.
    unsent_responses: InputResponses,
    /// The number of consecutive failed `tasks/get` and `tasks/update` requests.
    failure_count: u32,
    /// The number of consecutive JSON-RPC errors that concern the server as a whole, not the task.
    server_error_count: u32,
    /// The pause that the server requested with `Retry-After`, before the client's next request.
    retry_after: Duration,
}

/// Polls a task until it has finished. Continues while the server is unreachable; the caller
/// enforces the deadline.
pub(super) async fn follow_task(
    sender: &Arc<RequestSender>,
    create_result: &RawValue,
    options: &RequestOptions,
    delivery: &Delivery,
) -> Result<Box<RawValue>, McpErrorKind> {
    delivery.record_start();
    let mut task: Task = serde_json::from_str(create_result.get()).map_err(unexpected_result)?;
    let id = task.task_id.clone();
    let guard = OnDrop::new(|| cancel_task(sender, &id));
    let mut poller = TaskPoller {
        sender,
        answered_keys: IndexSet::new(),
        unsent_responses: InputResponses::new(),
        failure_count: 0,
        server_error_count: 0,
        retry_after: Duration::ZERO,
    };
    let mut message_count = 0.0;
    loop {
        if let Some(outcome) = task.take_outcome() {
            guard.disarm();
            delivery.record_response();
            return outcome;
        }
        if let (Some(notify), Some(message)) = (&options.on_progress, task.status_message.take()) {
            message_count += 1.0;
            notify(ProgressNotification::from_message(message_count, message));
        }
        let requests = task.input_requests.take().unwrap_or_default();
        poller.respond(&id, requests).await?;
        let poll_interval = task.poll_interval();
        task = loop {
            let pause_timer = tokio::time::sleep(poll_interval.max(poller.backoff()));
            let close_signal = &sender.connections.close_signal;
            close_signal.run_until_closed(pause_timer).await?;
            if let Some(task) = poller.request_state(&id).await? {
                break task;
            }
        };
    }
}

impl TaskPoller<'_> {
    /// Responds to the task's new input requests, and resends responses that may have been lost.
    async fn respond(
        &mut self,
        id: &str,
        mut requests: IndexMap<String, InputRequest>,
    ) -> Result<(), McpErrorKind> {
        let mut responses = std::mem::take(&mut self.unsent_responses);
        responses.retain(|key, _| requests.contains_key(key));
        requests.retain(|key, _| !self.answered_keys.contains(key));
        let limit = MAX_INPUT_REQUESTS * MAX_ROUNDS as usize;
        if self.answered_keys.len() + requests.len() > limit {
            return Err(McpErrorKind::TooManyInputRequests { limit });
        }
        if !requests.is_empty() {
            let keys: Vec<String> = requests.keys().cloned().collect();
            responses.extend(collect_input_responses(self.sender, requests).await?);
            self.answered_keys.extend(keys);
        }
        if responses.is_empty() {
            return Ok(());
        }
        let params = json!({"taskId": id, "inputResponses": responses});
        match self.send("tasks/update", &params).await {
            Ok(_) => Ok(()),
            Err(error) if self.tolerate_error(&error) => {
                self.unsent_responses = responses;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Requests the state of the task; returns `None` if the request failed with a transient error.
    async fn request_state(&mut self, id: &str) -> Result<Option<Task>, McpErrorKind> {
        match self.send("tasks/get", &json!({"taskId": id})).await {
            Ok(state) => {
                (self.failure_count, self.server_error_count) = (0, 0);
                self.retry_after = Duration::ZERO;
                let task = serde_json::from_str(state.get()).map_err(unexpected_result)?;
                Ok(Some(task))
            }
            Err(error) if self.tolerate_error(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends one request about the task, with a timeout.
    async fn send(&self, method: &str, params: &Value) -> Result<Box<RawValue>, McpErrorKind> {
        let request = self.sender.send(method, params);
        let outcome = pillion_deadline::timeout(POLL_TIMEOUT, request).await;
        outcome.unwrap_or(Err(McpErrorKind::timeout(POLL_TIMEOUT)))
    }

    /// Counts an error of a request about the task, and returns whether polling continues. Polling
    /// continues after a transient error, and after fewer than [`MAX_SERVER_ERRORS`] consecutive
    /// errors that concern the server as a whole.
    fn tolerate_error(&mut self, error: &McpErrorKind) -> bool {
        let is_server_error =
            matches!(error, McpErrorKind::Rpc(error) if is_server_error_code(error.code));
        self.server_error_count += u32::from(is_server_error);
        let is_tolerated =
            is_transient(error) || (is_server_error && self.server_error_count < MAX_SERVER_ERRORS);
        if is_tolerated {
            tracing::debug!(%error, "A request about a task failed; polling continues");
            self.failure_count = self.failure_count.saturating_add(1);
            self.retry_after = match error {
                McpErrorKind::HttpStatus { retry_after, .. } => retry_after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
        }
        is_tolerated
    }

    /// Returns the backoff before the next `tasks/get`, which grows with the number of failed
    /// requests.
    fn backoff(&self) -> Duration {
        let Some(doubling_count) = self.failure_count.checked_sub(1) else {
            return Duration::ZERO;
        };
        let backoff = MIN_BACKOFF_INTERVAL * 2_u32.saturating_pow(doubling_count.min(10));
        backoff
            .min(MAX_BACKOFF_INTERVAL)
            .max(self.retry_after)
            .min(MAX_POLL_INTERVAL)
    }
}

/// Returns whether an error code concerns the server as a whole rather than the request.
fn is_server_error_code(code: i64) -> bool {
    code == INTERNAL_ERROR || (matches!(code, -32019..=-32000) && code != -32002)
}

/// Returns whether an error may be temporary, such as a broken connection, a timeout or HTTP 503.
fn is_transient(error: &McpErrorKind) -> bool {
    match error {
        McpErrorKind::ConnectionFailed(_)
        | McpErrorKind::ConnectionBroken(_)
        | McpErrorKind::StreamClosed
        | McpErrorKind::ResponseLost(_)
        | McpErrorKind::NoResponse
        | McpErrorKind::ProcessEnded { .. }
        | McpErrorKind::SessionExpired
        | McpErrorKind::KnownDown { .. }
        | McpErrorKind::Timeout { .. } => true,
        McpErrorKind::HttpStatus { status, .. } => matches!(status, 408 | 429 | 500..),
        _ => false,
    }
}

/// Deserializes an optional member; `None` if the value has another type.
fn deserialize_if_valid<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let member = Option::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(member.and_then(|member| serde_json::from_str(member.get()).ok()))
}

/// Cancels a task on the server, after the caller has given up.
fn cancel_task(sender: &Arc<RequestSender>, id: &str) {
    let (sender, params) = (Arc::clone(sender), json!({"taskId": id}));
    run_in_background(async move {
        if let Err(error) = sender.send("tasks/cancel", &params).await {
            tracing::debug!(%error, "The server did not cancel the task");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_poll_interval_of_a_server_is_clamped() {
        for (written, interval) in [
            ("250.5", Duration::from_micros(250_500)),
            ("0", MIN_POLL_INTERVAL),
            ("-3", MIN_POLL_INTERVAL),
            ("-1e300", MIN_POLL_INTERVAL),
            ("1e300", MAX_POLL_INTERVAL),
            ("18446744073709551616", MAX_POLL_INTERVAL),
            ("1e400", DEFAULT_POLL_INTERVAL),
            ("null", DEFAULT_POLL_INTERVAL),
            ("\"soon\"", DEFAULT_POLL_INTERVAL),
            ("{}", DEFAULT_POLL_INTERVAL),
        ] {
            let task = format!(
                r#"{{"taskId":"t","status":"working","statusMessage":7,"inputRequests":null,"pollIntervalMs":{written}}}"#
            );
            let task: Task = serde_json::from_str(&task).unwrap();
            assert_eq!(task.poll_interval(), interval, "{written}");
            assert!(task.status_message.is_none() && task.input_requests.is_none());
        }
    }
}
