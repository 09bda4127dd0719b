use std::borrow::Cow;

use futures_util::future::try_join_all;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::result_type::result_type;
use super::{McpClient, RequestOptions};
use crate::metadata::{CLIENT_CAPABILITIES, with_tasks};
use crate::peer::Following;
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
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

pub(super) type Answers = IndexMap<String, Value>;

impl McpClient {
    /// Sends a request and follows it to its final result, through input requests and tasks. The
    /// caller enforces the deadline.
    pub(super) async fn run(
        &self,
        method: &str,
        params: &RawValue,
        options: &RequestOptions,
    ) -> Result<Box<RawValue>, McpErrorKind> {
        let (meta, _following) = self.meta(options);
        let mut sent = Cow::Borrowed(params);
        for round in 0..MAX_ROUNDS {
            let (outcome, session) = match round {
                0 => self.cached_exchange(method, &sent, &meta).await?,
                _ => self.exchange(method, &sent, &meta).await?,
            };
            let result = outcome?;
            if !session.has(Feature::RequestMetadata) {
                return Ok(result);
            }
            match &*result_type(&result) {
                "complete" => return Ok(result),
                "input_required" if options.return_input_requests => return Ok(result),
                "input_required" => {
                    let more = Box::pin(self.answer_questions(&result)).await?;
                    sent = Cow::Owned(with_entries(params, more)?);
                }
                "task" if method == "tools/call" => {
                    return Box::pin(self.follow_task(&result, options)).await;
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
    fn meta(&self, options: &RequestOptions) -> (Map<String, Value>, Option<Following>) {
        let mut meta = options.meta.clone();
        if let Some(capabilities) = &options.capabilities {
            let capabilities = with_tasks(capabilities.clone());
            meta.insert(CLIENT_CAPABILITIES.to_owned(), capabilities.into());
        }
        let callback = options.on_progress.clone();
        let following = callback.map(|callback| self.shared.peer.follow(callback));
        if let Some(following) = &following {
            meta.insert("progressToken".to_owned(), json!(following.token));
        }
        (meta, following)
    }

    /// Returns the entries to add to the repeated request: the responses to the server's input
    /// requests, and the server's state, unchanged.
    async fn answer_questions(
        &self,
        result: &RawValue,
    ) -> Result<Vec<(&'static str, Box<RawValue>)>, McpErrorKind> {
        let asked: InputRequired<'_> = serde_json::from_str(result.get()).map_err(unexpected)?;
        let mut more = Vec::new();
        if asked.requests.is_none() && asked.state.is_none() {
            let reason = "neither `inputRequests` nor `requestState`";
            return Err(unexpected(serde::de::Error::custom(reason)));
        }
        if let Some(questions) = asked.requests {
            let answers = self.answers(questions).await?;
            more.push(("inputResponses", raw(&answers)?));
        }
        if let Some(state) = asked.state {
            more.push(("requestState", state.to_owned()));
        }
        Ok(more)
    }

    /// Returns the responses to the input requests of one round.
    pub(super) async fn answers(
        &self,
        questions: IndexMap<String, Question>,
    ) -> Result<Answers, McpErrorKind> {
        if questions.len() > MAX_QUESTIONS {
            return Err(McpErrorKind::TooManyRounds { limit: MAX_ROUNDS });
        }
        if questions.keys().any(|key| key.len() > MAX_KEY_LEN) {
            let reason = "a key of `inputRequests` is too long";
            return Err(unexpected(serde::de::Error::custom(reason)));
        }
        let answers = questions.into_iter().map(async |(key, question)| {
            let Question { method, params } = question;
            let answer = self.shared.peer.callbacks().answer(&method, params).await;
            match answer {
                Ok(answer) => Ok((key, answer)),
                Err(error) => Err(McpErrorKind::InputRequired {
                    method,
                    reason: error.message,
                }),
            }
        });
        // A user may take a while, and the client may be disconnected meanwhile.
        let closed = self.shared.connections.closed();
        let answers = closed.run_unless_set(try_join_all(answers)).await??;
        Ok(answers.into_iter().collect())
    }
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
