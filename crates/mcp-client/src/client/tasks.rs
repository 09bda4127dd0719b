use std::sync::Arc;
use std::time::Duration;

use indexmap::{IndexMap, IndexSet};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::RequestOptions;
use super::delivery::Delivery;
use super::request_sender::RequestSender;
use super::rounds::{self, InputResponses, MAX_QUESTIONS, MAX_ROUNDS, Question, raw, unexpected};
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

/// Maximum number of consecutive JSON-RPC errors by which the server cannot tell the state of a
/// task.
const MAX_STATE_ERRORS: u32 = 5;

const INTERNAL_ERROR: i64 = -32603;

/// The state of a long-running request (extension `io.modelcontextprotocol/tasks`). Optional
/// members of an unexpected type count as absent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
    status: String,
    #[serde(default, deserialize_with = "if_valid")]
    status_message: Option<String>,
    #[serde(default, deserialize_with = "if_valid")]
    poll_interval_ms: Option<f64>,
    result: Option<Box<RawValue>>,
    error: Option<RpcError>,
    input_requests: Option<IndexMap<String, Question>>,
}

impl Task {
    /// Returns how long to wait before the next `tasks/get`.
    fn poll(&self) -> Duration {
        let Some(poll) = self.poll_interval_ms else {
            return DEFAULT_POLL_INTERVAL;
        };
        let seconds = poll.max(0.0) / 1000.0;
        let poll = Duration::try_from_secs_f64(seconds).unwrap_or(MAX_POLL_INTERVAL);
        poll.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
    }

    /// Returns the outcome of the task; `None` if the task has not finished.
    fn outcome(&mut self) -> Option<Result<Box<RawValue>, McpErrorKind>> {
        match self.status.as_str() {
            "completed" => {
                let missing = || unexpected(serde::de::Error::missing_field("result"));
                Some(self.result.take().ok_or_else(missing))
            }
            "failed" => {
                let message = self.status_message.take().unwrap_or_default();
                let reported = self.error.take();
                let error = reported.unwrap_or_else(|| RpcError::new(INTERNAL_ERROR, message));
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
    /// Keys of the task's input requests that were answered, or are being answered.
    answered: IndexSet<String>,
    /// Responses to input requests that may not have reached the server.
    unsent: InputResponses,
    failures: u32,
    state_errors: u32,
    /// The pause that the server requested with `Retry-After`.
    retry_after: Duration,
}

/// Polls a task until it has finished. Continues while the server is unreachable; the caller
/// enforces the deadline.
pub(super) async fn follow_task(
    sender: &Arc<RequestSender>,
    created: &RawValue,
    options: &RequestOptions,
    delivery: &Delivery,
) -> Result<Box<RawValue>, McpErrorKind> {
    delivery.note_start();
    let mut task: Task = serde_json::from_str(created.get()).map_err(unexpected)?;
    let id = task.task_id.clone();
    let guard = OnDrop::new(|| cancel_task(sender, &id));
    let mut poller = TaskPoller {
        sender,
        answered: IndexSet::new(),
        unsent: InputResponses::new(),
        failures: 0,
        state_errors: 0,
        retry_after: Duration::ZERO,
    };
    let mut polls = 0.0;
    loop {
        if let Some(outcome) = task.outcome() {
            guard.disarm();
            delivery.note_response();
            return outcome;
        }
        if let (Some(callback), Some(message)) = (&options.on_progress, task.status_message.take())
        {
            polls += 1.0;
            callback(ProgressNotification::message(polls, message));
        }
        let questions = task.input_requests.take().unwrap_or_default();
        poller.respond(&id, questions).await?;
        let poll = task.poll();
        task = loop {
            let pause = tokio::time::sleep(poll.max(poller.pause()));
            let closed = &sender.connections.closed;
            closed.run_until_closed(pause).await?;
            if let Some(task) = poller.ask(&id).await? {
                break task;
            }
        };
    }
}

/// Sends one request about a task.
async fn send_task_request(
    sender: &RequestSender,
    method: &str,
    params: &Value,
) -> Result<Box<RawValue>, McpErrorKind> {
    let (params, delivery) = (raw(params)?, Delivery::default());
    let meta = Map::new();
    let exchange = sender.exchange(method, &params, &meta, &delivery);
    let (outcome, _) = exchange.await?;
    Ok(outcome?)
}

impl TaskPoller<'_> {
    /// Answers the task's new input requests, and sends responses again that may be lost.
    async fn respond(
        &mut self,
        id: &str,
        mut questions: IndexMap<String, Question>,
    ) -> Result<(), McpErrorKind> {
        let mut responses = std::mem::take(&mut self.unsent);
        responses.retain(|key, _| questions.contains_key(key));
        questions.retain(|key, _| !self.answered.contains(key));
        let limit = MAX_ROUNDS;
        if self.answered.len() + questions.len() > MAX_QUESTIONS * limit as usize {
            return Err(McpErrorKind::TooManyRounds { limit });
        }
        if !questions.is_empty() {
            let keys: Vec<String> = questions.keys().cloned().collect();
            responses.extend(rounds::input_responses(self.sender, questions).await?);
            self.answered.extend(keys);
        }
        if responses.is_empty() {
            return Ok(());
        }
        let params = json!({"taskId": id, "inputResponses": responses});
        match self.about("tasks/update", &params).await {
            Ok(_) => Ok(()),
            Err(error) if self.tolerates(&error) => {
                self.unsent = responses;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Requests the state of the task; returns `None` if the request failed with a transient error.
    async fn ask(&mut self, id: &str) -> Result<Option<Task>, McpErrorKind> {
        match self.about("tasks/get", &json!({"taskId": id})).await {
            Ok(state) => {
                (self.failures, self.state_errors) = (0, 0);
                self.retry_after = Duration::ZERO;
                let task = serde_json::from_str(state.get()).map_err(unexpected)?;
                Ok(Some(task))
            }
            Err(error) if self.tolerates(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn about(&self, method: &str, params: &Value) -> Result<Box<RawValue>, McpErrorKind> {
        let outcome =
            pillion_deadline::timeout(POLL_TIMEOUT, send_task_request(self.sender, method, params))
                .await;
        outcome.unwrap_or(Err(McpErrorKind::timeout(POLL_TIMEOUT)))
    }

    /// Returns whether an error tells nothing about the task, so that polling continues.
    fn tolerates(&mut self, error: &McpErrorKind) -> bool {
        let is_state_error =
            matches!(error, McpErrorKind::Rpc(error) if is_the_servers_own(error.code));
        self.state_errors += u32::from(is_state_error);
        let tolerated =
            is_transient(error) || (is_state_error && self.state_errors < MAX_STATE_ERRORS);
        if tolerated {
            tracing::debug!(%error, "Cannot get the status of a task");
            self.failures = self.failures.saturating_add(1);
            self.retry_after = match error {
                McpErrorKind::HttpStatus {
                    retry_after: Some(wait),
                    ..
                } => *wait,
                _ => Duration::ZERO,
            };
        }
        tolerated
    }

    fn pause(&self) -> Duration {
        let Some(more) = self.failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let backoff = MIN_BACKOFF_INTERVAL * 2_u32.saturating_pow(more.min(10));
        backoff
            .min(MAX_BACKOFF_INTERVAL)
            .max(self.retry_after)
            .min(MAX_POLL_INTERVAL)
    }
}

/// Returns whether an error code concerns the server rather than the request.
fn is_the_servers_own(code: i64) -> bool {
    code == INTERNAL_ERROR || (matches!(code, -32019..=-32000) && code != -32002)
}

/// Returns whether an error concerns the connection to the server.
fn is_transient(error: &McpErrorKind) -> bool {
    match error {
        McpErrorKind::Connect(_)
        | McpErrorKind::Broken(_)
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
fn if_valid<'de, D, T>(value: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let written = Option::<Box<RawValue>>::deserialize(value)?;
    Ok(written.and_then(|written| serde_json::from_str(written.get()).ok()))
}

/// Cancels a task on the server, after the caller has given up.
fn cancel_task(sender: &Arc<RequestSender>, id: &str) {
    let (sender, params) = (Arc::clone(sender), json!({"taskId": id}));
    run_in_background(async move {
        if let Err(error) = send_task_request(&sender, "tasks/cancel", &params).await {
            tracing::debug!(%error, "The server did not cancel the task");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_poll_interval_of_a_server_is_clamped() {
        for (interval, poll) in [
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
                r#"{{"taskId":"t","status":"working","statusMessage":7,"inputRequests":null,"pollIntervalMs":{interval}}}"#
            );
            let task: Task = serde_json::from_str(&task).unwrap();
            assert_eq!(task.poll(), poll, "{interval}");
            assert!(task.status_message.is_none() && task.input_requests.is_none());
        }
    }
}
