//! Requests that wait for the client's answer between two rounds of revision 2026-07-28: an
//! upstream server of an older revision sends a request to the client during a call, and the client
//! answers in its next request. For upstream servers of revision 2026-07-28, Pillion forwards their
//! own `requestState` instead.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use indexmap::IndexMap;
use parking_lot::Mutex;
use pillion_mcp_client::RpcError;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use uuid::Uuid;

use super::Owner;
use super::running::Running;
use pillion_gateway::calling_client::link::Question;
use pillion_gateway::calling_client::message::{Request, invalid_params, raw};

/// Maximum time for the client's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of waiting requests; above this limit, the oldest request of the caller with the
/// most requests is dropped.
const MAX_WAITING: usize = 1_000;

/// The prefix of Pillion's own `requestState` values.
const STATE_PREFIX: &str = "pillion:";

/// The key of the only input request of a round.
const INPUT_REQUEST_KEY: &str = "question";

/// An `InputRequiredResult`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    result_type: &'static str,
    input_requests: IndexMap<&'static str, InputRequest>,
    request_state: String,
}

#[derive(Serialize)]
struct InputRequest {
    method: String,
    params: Box<RawValue>,
}

#[derive(Debug, Default)]
pub(super) struct SuspendedRequests(Mutex<HashMap<Uuid, SuspendedRequest>>);

#[derive(Debug)]
struct SuspendedRequest {
    running: Running,
    question: Question,
    about: RequestIdentity,
    since: Instant,
}

/// The method, parameters and owner of a request. The next round must have the same.
#[derive(Debug, PartialEq)]
struct RequestIdentity {
    method: String,
    owner: Owner,
    params: Vec<(String, String)>,
}

impl RequestIdentity {
    fn of(request: &Request, owner: &Owner) -> Self {
        let params = ["name", "uri", "arguments", "ref", "argument"];
        let params = params.into_iter().filter_map(|key| {
            let value = request.params.get(key)?;
            Some((key.to_owned(), value.get().to_owned()))
        });
        Self {
            method: request.method.clone(),
            owner: owner.clone(),
            params: params.collect(),
        }
    }
}

/// Returns the oldest request of the caller with the most requests, including the new request of
/// `newcomer`. A caller never loses a request to a caller with more requests.
fn oldest_of_the_heaviest<C: Eq + Hash + Clone>(
    all: impl Iterator<Item = (Uuid, C, Instant)>,
    newcomer: C,
) -> Option<Uuid> {
    let mut by_caller: HashMap<C, (usize, Option<(Instant, Uuid)>)> = HashMap::new();
    for (id, caller, since) in all {
        let (count, oldest) = by_caller.entry(caller).or_default();
        *count += 1;
        *oldest = Some(oldest.map_or((since, id), |oldest| oldest.min((since, id))));
    }
    by_caller.entry(newcomer).or_default().0 += 1;
    let callers = by_caller.into_values();
    let callers = callers.filter_map(|(count, oldest)| Some((count, oldest?)));
    // Among callers with equally many requests, the caller of the oldest request.
    let heaviest = callers.max_by_key(|(count, oldest)| (*count, Reverse(*oldest)));
    heaviest.map(|(_, (_, id))| id)
}

impl SuspendedRequests {
    /// Stores a request that waits for an answer. Returns the `InputRequiredResult` that asks for
    /// the answer.
    pub(super) fn hold(
        &self,
        running: Running,
        question: Question,
        request: &Request,
        owner: &Owner,
    ) -> Result<Box<RawValue>, RpcError> {
        let id = Uuid::new_v4();
        let asked = InputRequired {
            result_type: "input_required",
            input_requests: IndexMap::from([(
                INPUT_REQUEST_KEY,
                InputRequest {
                    method: question.method.clone(),
                    params: question.params.clone(),
                },
            )]),
            request_state: format!("{STATE_PREFIX}{id}"),
        };
        let mut held = self.0.lock();
        held.retain(|_, waiting| waiting.since.elapsed() < ANSWER_TIMEOUT);
        if held.len() >= MAX_WAITING {
            let all = held.iter();
            let all = all.map(|(id, waiting)| (*id, waiting.about.owner.counted(), waiting.since));
            if let Some(id) = oldest_of_the_heaviest(all, owner.counted()) {
                held.remove(&id);
            }
        }
        let waiting = SuspendedRequest {
            running,
            question,
            about: RequestIdentity::of(request, owner),
            since: Instant::now(),
        };
        held.insert(id, waiting);
        raw(&asked)
    }

    /// Resumes a waiting request, if `request` is its next round. Returns `None` if the request has
    /// no `requestState` of Pillion.
    ///
    /// # Errors
    /// If the state is unknown or expired, or belongs to another request.
    pub(super) fn resume(
        &self,
        request: &Request,
        owner: &Owner,
    ) -> Result<Option<Resumed>, RpcError> {
        let state = request.params.get("requestState");
        let state = state.and_then(|state| serde_json::from_str::<String>(state.get()).ok());
        let Some(id) = state
            .as_deref()
            .and_then(|state| state.strip_prefix(STATE_PREFIX))
        else {
            return Ok(None);
        };
        let unknown = || invalid_params("'requestState' is unknown or has expired");
        let id = Uuid::parse_str(id).map_err(|_| unknown())?;
        let mut held = self.0.lock();
        let fits = |waiting: &SuspendedRequest| {
            waiting.since.elapsed() < ANSWER_TIMEOUT
                && waiting.about == RequestIdentity::of(request, owner)
        };
        if !held.get(&id).is_some_and(fits) {
            return Err(unknown());
        }
        let waiting = held.remove(&id).ok_or_else(unknown)?;
        drop(held);
        let responses = request.params.get("inputResponses");
        let mut responses: IndexMap<String, Value> = responses
            .and_then(|responses| serde_json::from_str(responses.get()).ok())
            .unwrap_or_default();
        let SuspendedRequest {
            running, question, ..
        } = waiting;
        Ok(Some(match responses.swap_remove(INPUT_REQUEST_KEY) {
            Some(answer) => {
                // The upstream server may have given up; the request continues anyway.
                let _ = question.reply.send(Ok(answer));
                Resumed::Running(running)
            }
            None => Resumed::Unanswered(running, question),
        }))
    }
}

/// A resumed request.
pub(super) enum Resumed {
    Running(Running),
    /// The client did not answer the question, which is therefore sent again.
    Unanswered(Running, Question),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_with_the_most_waiting_requests_loses_one() {
        let begin = Instant::now();
        let id = Uuid::from_u128;
        let all = |callers: &[&'static str]| {
            let all = callers.iter().zip(0..);
            let all = all.map(|(caller, place)| {
                let since = begin + Duration::from_secs(place);
                (id(place.into()), *caller, since)
            });
            all.collect::<Vec<_>>()
        };
        let given_up = |callers: &[&'static str], newcomer| {
            oldest_of_the_heaviest(all(callers).into_iter(), newcomer)
        };
        assert_eq!(given_up(&["bob", "eve", "eve"], "eve"), Some(id(1)));
        // The heaviest caller loses a request for another caller's new request.
        assert_eq!(given_up(&["bob", "eve", "eve"], "ann"), Some(id(1)));
        // With equally many requests, the caller of the oldest request loses it.
        assert_eq!(given_up(&["eve", "bob", "bob"], "eve"), Some(id(0)));
        assert_eq!(given_up(&["bob", "eve"], "ann"), Some(id(0)));
        assert_eq!(given_up(&[], "ann"), None);
    }
}
