//! Requests that wait for the client between two rounds of revision 2026-07-28. During a call, an
//! upstream server of an older revision sends a request to the client; the client's next request
//! contains the response. For upstream servers of revision 2026-07-28, Pillion forwards their own
//! `requestState` instead.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indexmap::IndexMap;
use parking_lot::Mutex;
use pillion_mcp_client::RpcError;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::running::Running;
use super::{McpServerState, Owner};
use pillion_gateway::accounts::{Charge, PrincipalAccounts, Usage, json_memory};
use pillion_gateway::calling_client::link::Question;
use pillion_gateway::calling_client::message::{INTERNAL_ERROR, Request, invalid_params, raw};

/// How long a request waits for the client's response to its question.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(600);

/// The prefix of Pillion's own `requestState` values.
const STATE_PREFIX: &str = "pillion:";

/// The key of the only input request of a round.
const INPUT_REQUEST_KEY: &str = "question";

/// An `InputRequiredResult` (MCP 2026-07-28), which ends a request until its client responds.
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

/// The suspended requests. Each is charged to the account of its principal. If the account is full,
/// the oldest request of the principal's user with the most suspended requests is dropped.
#[derive(Debug, Default)]
pub(super) struct SuspendedRequests {
    waiting: Mutex<HashMap<Uuid, SuspendedRequest>>,
    /// Whether a task is removing expired requests.
    is_expiring: AtomicBool,
}

#[derive(Debug)]
struct SuspendedRequest {
    running: Running,
    question: Question,
    about: RequestIdentity,
    since: Instant,
    charge: Charge,
}

/// The method, parameters and owner of a request, which must be the same in the next round.
#[derive(Debug, PartialEq)]
struct RequestIdentity {
    method: String,
    owner: Owner,
    params: Vec<(String, String)>,
}

impl RequestIdentity {
    fn from_request(request: &Request, owner: &Owner) -> Self {
        let keys = ["name", "uri", "arguments", "ref", "argument"];
        let params = keys.into_iter().filter_map(|key| {
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

/// Returns the oldest request of the caller with the most requests, where the new request of
/// `newcomer` counts. A caller never loses a request to a caller with more requests.
fn oldest_of_heaviest_caller<C: Eq + Hash + Clone>(
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
    let callers = by_caller
        .into_values()
        .filter_map(|(count, oldest)| Some((count, oldest?)));
    // If several callers have the most requests, the caller of the oldest request loses it.
    let heaviest = callers.max_by_key(|(count, oldest)| (*count, Reverse(*oldest)));
    heaviest.map(|(_, (_, id))| id)
}

impl SuspendedRequests {
    /// Suspends a request that has a question for the client. Returns the `InputRequiredResult`
    /// that asks the question.
    ///
    /// # Errors
    /// The account of the principal is full, even without the principal's suspended requests.
    pub(super) fn hold(
        &self,
        accounts: &Arc<PrincipalAccounts>,
        running: Running,
        question: Question,
        request: &Request,
        owner: &Owner,
    ) -> Result<Box<RawValue>, RpcError> {
        let id = Uuid::new_v4();
        let result = InputRequired {
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
        let question_bytes = json_memory(question.params.get());
        let usage = Usage::one(request.memory_bytes().saturating_add(question_bytes));
        let mut suspended = self.waiting.lock();
        suspended.retain(|_, waiting| !waiting.has_expired());
        let charge = charge_or_evict(&mut suspended, accounts, owner, usage).ok_or_else(|| {
            let reason = "Too many requests of this caller continue without their clients";
            RpcError::new(INTERNAL_ERROR, reason)
        })?;
        let waiting = SuspendedRequest {
            running,
            question,
            about: RequestIdentity::from_request(request, owner),
            since: Instant::now(),
            charge,
        };
        suspended.insert(id, waiting);
        raw(&result)
    }

    /// Removes expired requests. Returns when the next request expires.
    fn expire(&self) -> Option<Instant> {
        let mut suspended = self.waiting.lock();
        suspended.retain(|_, waiting| !waiting.has_expired());
        let next = suspended.values().map(|waiting| waiting.since).min();
        next.map(|since| since + RESPONSE_TIMEOUT)
    }

    /// Resumes a suspended request if `request` is its next round. Returns `None` if `request` has
    /// no `requestState` of Pillion.
    ///
    /// # Errors
    /// The state is unknown or expired, or belongs to another request.
    pub(super) fn resume(
        &self,
        request: &Request,
        owner: &Owner,
    ) -> Result<Option<Resumed>, RpcError> {
        let state = request
            .params
            .get("requestState")
            .and_then(|state| serde_json::from_str::<String>(state.get()).ok());
        let Some(id) = state
            .as_deref()
            .and_then(|state| state.strip_prefix(STATE_PREFIX))
        else {
            return Ok(None);
        };
        let unknown = || invalid_params("'requestState' is unknown or has expired");
        let id = Uuid::parse_str(id).map_err(|_| unknown())?;
        let mut suspended = self.waiting.lock();
        let fits = |waiting: &SuspendedRequest| {
            !waiting.has_expired() && waiting.about == RequestIdentity::from_request(request, owner)
        };
        if !suspended.get(&id).is_some_and(fits) {
            return Err(unknown());
        }
        let waiting = suspended.remove(&id).ok_or_else(unknown)?;
        drop(suspended);
        let mut responses: IndexMap<String, Value> = request
            .params
            .get("inputResponses")
            .and_then(|responses| serde_json::from_str(responses.get()).ok())
            .unwrap_or_default();
        let SuspendedRequest {
            running, question, ..
        } = waiting;
        Ok(Some(match responses.swap_remove(INPUT_REQUEST_KEY) {
            Some(response) => {
                // The receiver no longer exists if the upstream server has given up; the request
                // continues anyway.
                let _ = question.reply.send(Ok(response));
                Resumed::Running(running)
            }
            None => Resumed::Unanswered(running, question),
        }))
    }
}

impl SuspendedRequest {
    fn has_expired(&self) -> bool {
        self.since.elapsed() >= RESPONSE_TIMEOUT
    }
}

/// Charges a request of `owner`. If the request does not fit, drops suspended requests of the same
/// principal; returns `None` if the request does not fit even then.
fn charge_or_evict(
    suspended: &mut HashMap<Uuid, SuspendedRequest>,
    accounts: &Arc<PrincipalAccounts>,
    owner: &Owner,
    usage: Usage,
) -> Option<Charge> {
    let principal = owner.principal.as_deref();
    let is_same_principal =
        |waiting: &&SuspendedRequest| waiting.about.owner.principal == owner.principal;
    let same_principal = suspended.values().filter(is_same_principal);
    let freed = same_principal.map(|waiting| waiting.charge.usage()).sum();
    if !accounts.would_fit(principal, usage, freed) {
        return None;
    }
    loop {
        if let Some(charge) = accounts.charge(principal, usage) {
            return Some(charge);
        }
        let same_principal = suspended
            .iter()
            .filter(|(_, waiting)| is_same_principal(waiting))
            .map(|(id, waiting)| (*id, waiting.about.owner.counted(), waiting.since));
        let dropped = oldest_of_heaviest_caller(same_principal, owner.counted())?;
        suspended.remove(&dropped);
    }
}

/// Starts a task that removes expired requests, unless such a task is running.
pub(super) fn expire_later(state: &Arc<McpServerState>) {
    if state.suspended.is_expiring.swap(true, Ordering::AcqRel) {
        return;
    }
    let state = Arc::downgrade(state);
    tokio::spawn(async move {
        while let Some(state) = state.upgrade() {
            let Some(next) = state.suspended.expire() else {
                state.suspended.is_expiring.store(false, Ordering::Release);
                // A request may have been stored before the flag was cleared.
                if state.suspended.waiting.lock().is_empty()
                    || state.suspended.is_expiring.swap(true, Ordering::AcqRel)
                {
                    return;
                }
                continue;
            };
            drop(state);
            sleep_until(next).await;
        }
    });
}

/// A suspended request that continues, because the client has repeated it with its `requestState`.
pub(super) enum Resumed {
    Running(Running),
    /// The client's request has no response to the question, so the question is sent again.
    Unanswered(Running, Question),
}

#[cfg(test)]
mod tests {
    use pillion_gateway::accounts::AccountLimits;
    use tokio::task::AbortHandle;

    use super::*;

    /// Stores a request of `principal` for its verified user. Returns its abort handle.
    fn hold(
        suspended: &SuspendedRequests,
        accounts: &Arc<PrincipalAccounts>,
        (principal, user): (&str, &str),
        bytes: usize,
    ) -> Result<AbortHandle, RpcError> {
        let owner = Owner {
            principal: Some(principal.to_owned()),
            user: Some(user.to_owned()),
            is_user_verified: true,
        };
        let arguments = raw(&"x".repeat(bytes)).unwrap();
        let request = Request {
            id: raw(&1).unwrap(),
            method: "tools/call".to_owned(),
            params: [("arguments".to_owned(), arguments)].into_iter().collect(),
        };
        let question = Question {
            method: "elicitation/create".to_owned(),
            params: raw(&()).unwrap(),
            reply: tokio::sync::oneshot::channel().0,
        };
        let running = Running::endless();
        let task = running.abort_handle();
        suspended.hold(accounts, running, question, &request, &owner)?;
        Ok(task)
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_account_costs_the_heaviest_user_of_the_principal_a_request() {
        let limit = Usage {
            count: 3,
            bytes: 100_000,
        };
        let accounts = Arc::new(PrincipalAccounts::new(AccountLimits {
            principal: limit,
            total: Usage {
                count: 12,
                bytes: 400_000,
            },
        }));
        let state = Arc::new(McpServerState::default());
        let suspended = &state.suspended;
        let suspended = |who, bytes| hold(suspended, &accounts, who, bytes);
        let (eve, ann, other) = (("a", "eve"), ("a", "ann"), ("b", "eve"));
        let others = suspended(other, 10).unwrap();
        let mut eves = Vec::new();
        for _ in 0..3 {
            eves.push(suspended(eve, 10).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let anns = suspended(ann, 10).unwrap();
        tokio::task::yield_now().await;
        let ended: Vec<_> = eves.iter().map(AbortHandle::is_finished).collect();
        assert_eq!(ended, [true, false, false]);
        // A request that can never fit evicts no other request.
        assert!(suspended(ann, 100_000).is_err());
        // A large request may evict several others.
        let large = suspended(ann, 20_000).unwrap();
        tokio::task::yield_now().await;
        assert!(!others.is_finished() && !large.is_finished());
        assert!(accounts.total().bytes <= 2 * limit.bytes);
        // Requests that no client resumes are removed, and no longer count.
        expire_later(&state);
        expire_later(&state);
        tokio::time::sleep(RESPONSE_TIMEOUT + Duration::from_secs(1)).await;
        assert_eq!(accounts.total(), Usage::default());
        assert!(others.is_finished() && anns.is_finished() && large.is_finished());
        // The task that removes expired requests starts again.
        let last = suspended(other, 10).unwrap();
        expire_later(&state);
        tokio::time::sleep(RESPONSE_TIMEOUT + Duration::from_secs(1)).await;
        assert!(last.is_finished());
    }

    #[test]
    fn the_caller_with_the_most_waiting_requests_loses_one() {
        let begin = Instant::now();
        let id = Uuid::from_u128;
        let all = |callers: &[&'static str]| {
            let requests = callers.iter().zip(0..).map(|(caller, index)| {
                let since = begin + Duration::from_secs(index);
                (id(index.into()), *caller, since)
            });
            requests.collect::<Vec<_>>()
        };
        let given_up = |callers: &[&'static str], newcomer| {
            oldest_of_heaviest_caller(all(callers).into_iter(), newcomer)
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
