//! Follows a request to its final result, through the server's input requests and tasks.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::try_join_all;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::RequestOptions;
use super::delivery::Delivery;
use super::request_sender::RequestSender;
use super::result_type::result_type;
use super::tasks::follow_task;
use crate::metadata::{CLIENT_CAPABILITIES, with_tasks};
use crate::on_drop::OnDrop;
use crate::{Feature, McpErrorKind};

/// Maximum number of rounds in which a server may request input for one request.
pub(super) const MAX_ROUNDS: u32 = 16;

/// Maximum number of input requests in one round.
pub(super) const MAX_QUESTIONS: usize = 32;

/// Maximum size of the key of an input request, in bytes.
const MAX_KEY_LEN: usize = 1024;

/// An intermediate result: the server requests input first (MCP 2026-07-28, "Multi Round-Trip
/// Requests").
#[derive(Deserialize)]
struct InputRequired<'a> {
    #[serde(rename = "inputRequests", default)]
    requests: Option<IndexMap<String, Question>>,
    #[serde(rename = "requestState", borrow, default)]
    state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Question {
    method: String,
    params: Option<Box<RawValue>>,
}

pub(super) type InputResponses = IndexMap<String, Value>;

/// Sends a request and follows it to its final result, through input requests and tasks. The
/// caller enforces the deadline.
pub(super) async fn run(
    sender: &Arc<RequestSender>,
    method: &str,
    params: &RawValue,
    options: &RequestOptions,
    delivery: &Delivery,
) -> Result<Box<RawValue>, McpErrorKind> {
    let (meta, _following) = meta(sender, options);
    let mut sent = Cow::Borrowed(params);
    for round in 0..MAX_ROUNDS {
        let (outcome, session) = match round {
            0 => {
                sender
                    .cached_exchange(method, &sent, &meta, delivery)
                    .await?
            }
            _ => sender.exchange(method, &sent, &meta, delivery).await?,
        };
        let result = outcome?;
        if !session.has(Feature::RequestMetadata) {
            return Ok(result);
        }
        match &*result_type(&result) {
            "complete" => return Ok(result),
            "input_required" if options.return_input_requests => return Ok(result),
            "input_required" => {
                let more = Box::pin(requested_input(sender, &result)).await?;
                sent = Cow::Owned(with_entries(params, more)?);
            }
            "task" if method == "tools/call" => {
                return Box::pin(follow_task(sender, &result, options, delivery)).await;
            }
            other => {
                return Err(McpErrorKind::UnknownResultType {
                    result_type: other.chars().take(100).collect(),
                });
            }
        }
    }
    Err(McpErrorKind::TooManyRounds { limit: MAX_ROUNDS })
}

/// Returns the `_meta` of a request, with a progress token if there is a progress handler.
fn meta(
    sender: &RequestSender,
    options: &RequestOptions,
) -> (Map<String, Value>, Option<OnDrop<impl FnOnce() + use<>>>) {
    let mut meta = options.meta.clone();
    if let Some(capabilities) = &options.capabilities {
        let capabilities = with_tasks(capabilities.clone());
        meta.insert(CLIENT_CAPABILITIES.to_owned(), capabilities.into());
    }
    let guard = options.on_progress.clone().map(|callback| {
        let (token, guard) = sender.peer.follow(callback);
        meta.insert("progressToken".to_owned(), json!(token));
        guard
    });
    (meta, guard)
}

/// Returns the entries to add when the request is sent again: the responses to the server's input
/// requests, and the server's state, unchanged.
async fn requested_input(
    sender: &RequestSender,
    result: &RawValue,
) -> Result<Vec<(&'static str, Box<RawValue>)>, McpErrorKind> {
    let required: InputRequired<'_> = serde_json::from_str(result.get()).map_err(unexpected)?;
    let mut more = Vec::new();
    if required.requests.is_none() && required.state.is_none() {
        let reason = "neither `inputRequests` nor `requestState`";
        return Err(unexpected(serde::de::Error::custom(reason)));
    }
    if let Some(questions) = required.requests {
        let responses = input_responses(sender, questions).await?;
        more.push(("inputResponses", raw(&responses)?));
    }
    if let Some(state) = required.state {
        more.push(("requestState", state.to_owned()));
    }
    Ok(more)
}

/// Returns the responses to the input requests of one round.
pub(super) async fn input_responses(
    sender: &RequestSender,
    questions: IndexMap<String, Question>,
) -> Result<InputResponses, McpErrorKind> {
    if questions.len() > MAX_QUESTIONS {
        return Err(McpErrorKind::TooManyRounds { limit: MAX_ROUNDS });
    }
    if questions.keys().any(|key| key.len() > MAX_KEY_LEN) {
        let reason = "a key of `inputRequests` is too long";
        return Err(unexpected(serde::de::Error::custom(reason)));
    }
    let pending = questions.into_iter().map(async |(key, question)| {
        let Question { method, params } = question;
        match sender.peer.callbacks().respond(&method, params).await {
            Ok(response) => Ok((key, response)),
            Err(error) => Err(McpErrorKind::InputRequired {
                method,
                reason: error.message,
            }),
        }
    });
    // The client may be disconnected while a user responds.
    let closed = &sender.connections.closed;
    let responses = closed.run_until_closed(try_join_all(pending)).await??;
    Ok(responses.into_iter().collect())
}

/// Returns `params` with additional entries.
fn with_entries(
    params: &RawValue,
    entries: Vec<(&'static str, Box<RawValue>)>,
) -> Result<Box<RawValue>, McpErrorKind> {
    let mut all: IndexMap<Cow<'_, str>, Cow<'_, RawValue>> =
        serde_json::from_str::<IndexMap<Cow<'_, str>, &RawValue>>(params.get())
            .map_err(McpErrorKind::Encode)?
            .into_iter()
            .map(|(key, value)| (key, Cow::Borrowed(value)))
            .collect();
    for (key, value) in entries {
        all.insert(Cow::Borrowed(key), Cow::Owned(value));
    }
    raw(&all)
}

pub(super) fn raw(value: &impl Serialize) -> Result<Box<RawValue>, McpErrorKind> {
    to_raw_value(value).map_err(McpErrorKind::Encode)
}

pub(super) fn unexpected(source: serde_json::Error) -> McpErrorKind {
    McpErrorKind::UnexpectedResult {
        method: "tools/call",
        source,
    }
}
