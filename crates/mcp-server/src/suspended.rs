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

use super::request_task::RequestTask;
use super::{McpServerState, Owner};
use pillion_gateway::accounts::{AccountReservation, PrincipalAccounts, Usage, json_memory};
use pillion_gateway::calling_client::link::Question;
use pillion_gateway::calling_client::message::{INTERNAL_ERROR, Request, invalid_params, raw};

/// Maximum time that a suspended request waits for the client's response to its input request.
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

/// The suspended requests. Each request counts toward the limits of its principal's account. If the
/// account is full, the principal's user with the most suspended requests loses the oldest of these
/// requests.
#[derive(Debug, Default)]
pub(super) struct SuspendedRequests {
    requests: Mutex<HashMap<Uuid, SuspendedRequest>>,
    /// Whether a task is removing expired requests.
    is_expiring: AtomicBool,
}

#[derive(Debug)]
struct SuspendedRequest {
    request_task: RequestTask,
    question: Question,
    identity: RequestIdentity,
    suspended_at: Instant,
    reservation: AccountReservation,
}

/// The method, parameters and owner of a request. The client's next request must have the same
/// method, parameters and owner to resume the request.
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

/// Returns the oldest suspended request of the caller with the most requests. The new request of
/// `new_caller` is counted, too, so that a new request never replaces a request of a caller with
/// fewer requests.
fn find_oldest_of_heaviest_caller<C: Eq + Hash + Clone>(
    requests: impl Iterator<Item = (Uuid, C, Instant)>,
    new_caller: C,
) -> Option<Uuid> {
    let mut requests_by_caller: HashMap<C, (usize, Option<(Instant, Uuid)>)> = HashMap::new();
    for (id, caller, suspended_at) in requests {
        let (count, oldest) = requests_by_caller.entry(caller).or_default();
        *count += 1;
        *oldest = Some(oldest.map_or((suspended_at, id), |oldest| oldest.min((suspended_at, id))));
    }
    requests_by_caller.entry(new_caller).or_default().0 += 1;
    let callers = requests_by_caller
        .into_values()
        .filter_map(|(count, oldest)| Some((count, oldest?)));
    // If several callers have the most requests, the oldest of their requests is returned.
    let heaviest_caller = callers.max_by_key(|(count, oldest)| (*count, Reverse(*oldest)));
    heaviest_caller.map(|(_, (_, id))| id)
}

impl SuspendedRequests {
    /// Suspends a request that needs input from the client. Returns the `InputRequiredResult` that
    /// contains the input request.
    ///
    /// # Errors
    /// The account of the principal is full, even without the principal's suspended requests.
    pub(super) fn suspend(
        &self,
        accounts: &Arc<PrincipalAccounts>,
        request_task: RequestTask,
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
        let usage = Usage::for_request(request.memory_bytes().saturating_add(question_bytes));
        let mut requests = self.requests.lock();
        requests.retain(|_, suspended_request| !suspended_request.has_expired());
        let reservation =
            reserve_or_evict(&mut requests, accounts, owner, usage).ok_or_else(|| {
                let reason = "Too many of the caller's requests wait for the client's input, or \
                          continue without a connected client: retry later";
                RpcError::new(INTERNAL_ERROR, reason)
            })?;
        let suspended_request = SuspendedRequest {
            request_task,
            question,
            identity: RequestIdentity::from_request(request, owner),
            suspended_at: Instant::now(),
            reservation,
        };
        requests.insert(id, suspended_request);
        raw(&result)
    }

    /// Removes expired requests. Returns the time at which the next request expires, or `None` if
    /// no suspended request is left.
    fn expire(&self) -> Option<Instant> {
        let mut requests = self.requests.lock();
        requests.retain(|_, request| !request.has_expired());
        let oldest_time = requests.values().map(|request| request.suspended_at).min();
        oldest_time.map(|suspended_at| suspended_at + RESPONSE_TIMEOUT)
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
    ) -> Result<Option<ResumedRequest>, RpcError> {
        let state_json = request.params.get("requestState");
        let request_state =
            state_json.and_then(|json| serde_json::from_str::<String>(json.get()).ok());
        let state = request_state.as_deref();
        let Some(id) = state.and_then(|state| state.strip_prefix(STATE_PREFIX)) else {
            return Ok(None);
        };
        let unknown_state_error = || invalid_params("'requestState' is unknown or has expired");
        let id = Uuid::parse_str(id).map_err(|_| unknown_state_error())?;
        let mut requests = self.requests.lock();
        let is_next_round = |suspended_request: &SuspendedRequest| {
            !suspended_request.has_expired()
                && suspended_request.identity == RequestIdentity::from_request(request, owner)
        };
        if !requests.get(&id).is_some_and(is_next_round) {
            return Err(unknown_state_error());
        }
        let suspended_request = requests.remove(&id).ok_or_else(unknown_state_error)?;
        drop(requests);
        let mut responses: IndexMap<String, Value> = request
            .params
            .get("inputResponses")
            .and_then(|responses| serde_json::from_str(responses.get()).ok())
            .unwrap_or_default();
        let SuspendedRequest {
            request_task,
            question,
            ..
        } = suspended_request;
        Ok(Some(match responses.swap_remove(INPUT_REQUEST_KEY) {
            Some(response) => {
                // The error is ignored, because sending fails only if the upstream server no longer
                // waits for the response. The request continues anyway.
                let _ = question.reply.send(Ok(response));
                ResumedRequest::Answered(request_task)
            }
            None => ResumedRequest::Unanswered(request_task, question),
        }))
    }
}

impl SuspendedRequest {
    fn has_expired(&self) -> bool {
        self.suspended_at.elapsed() >= RESPONSE_TIMEOUT
    }
}

/// Counts a request toward the limits of the account of `owner`'s principal. If the account has no
/// room, drops suspended requests of the same principal. Returns `None` if the request does not fit
/// even then.
fn reserve_or_evict(
    requests: &mut HashMap<Uuid, SuspendedRequest>,
    accounts: &Arc<PrincipalAccounts>,
    owner: &Owner,
    usage: Usage,
) -> Option<AccountReservation> {
    let principal = owner.principal.as_deref();
    let is_same_principal =
        |request: &&SuspendedRequest| request.identity.owner.principal == owner.principal;
    let principal_requests = requests.values().filter(is_same_principal);
    let evictable_usages = principal_requests.map(|request| request.reservation.usage());
    if !accounts.would_fit(principal, usage, evictable_usages.sum()) {
        return None;
    }
    loop {
        if let Some(reservation) = accounts.try_reserve(principal, usage) {
            return Some(reservation);
        }
        let principal_requests = requests
            .iter()
            .filter(|(_, request)| is_same_principal(request))
            .map(|(id, request)| {
                let quota_key = request.identity.owner.quota_key();
                (*id, quota_key, request.suspended_at)
            });
        let evicted_id = find_oldest_of_heaviest_caller(principal_requests, owner.quota_key())?;
        requests.remove(&evicted_id);
    }
}

/// Starts a task that removes expired requests, unless such a task is running.
pub(super) fn expire_later(state: &Arc<McpServerState>) {
    let is_expiring = &state.suspended_requests.is_expiring;
    if is_expiring.swap(true, Ordering::AcqRel) {
        return;
    }
    let weak_state = Arc::downgrade(state);
    tokio::spawn(async move {
        while let Some(state) = weak_state.upgrade() {
            let suspended_requests = &state.suspended_requests;
            let Some(next_expiry) = suspended_requests.expire() else {
                suspended_requests
                    .is_expiring
                    .store(false, Ordering::Release);
                // Checks again, because a request may have been stored before the flag was cleared.
                if suspended_requests.requests.lock().is_empty()
                    || suspended_requests.is_expiring.swap(true, Ordering::AcqRel)
                {
                    return;
                }
                continue;
            };
            drop(state);
            sleep_until(next_expiry).await;
        }
    });
}

/// A suspended request that continues, because the client has repeated the request with the
/// `requestState` of Pillion.
pub(super) enum ResumedRequest {
    Answered(RequestTask),
    /// The client has repeated its request without a response to the input request, so the input
    /// request is sent again.
    Unanswered(RequestTask, Question),
}

#[cfg(test)]
mod tests {
    use pillion_gateway::accounts::AccountLimits;
    use tokio::task::AbortHandle;

    use super::*;

    /// Stores a suspended request of `principal` and its verified user. Returns the abort handle of
    /// the request's task.
    fn suspend(
        requests: &SuspendedRequests,
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
        let request_task = RequestTask::endless();
        let task = request_task.abort_handle();
        requests.suspend(accounts, request_task, question, &request, &owner)?;
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
        let suspended_requests = &state.suspended_requests;
        let suspend_for = |user, bytes| suspend(suspended_requests, &accounts, user, bytes);
        let (eve, ann, other) = (("a", "eve"), ("a", "ann"), ("b", "eve"));
        let other_task = suspend_for(other, 10).unwrap();
        let mut eve_tasks = Vec::new();
        for _ in 0..3 {
            eve_tasks.push(suspend_for(eve, 10).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let ann_task = suspend_for(ann, 10).unwrap();
        tokio::task::yield_now().await;
        let finished_flags: Vec<_> = eve_tasks.iter().map(AbortHandle::is_finished).collect();
        assert_eq!(finished_flags, [true, false, false]);
        // A request that can never fit evicts no other request.
        assert!(suspend_for(ann, 100_000).is_err());
        // A large request may evict several others.
        let large_task = suspend_for(ann, 20_000).unwrap();
        tokio::task::yield_now().await;
        assert!(!other_task.is_finished() && !large_task.is_finished());
        assert!(accounts.total().bytes <= 2 * limit.bytes);
        // Requests that no client resumes are removed after a timeout and no longer count toward
        // the limit.
        expire_later(&state);
        expire_later(&state);
        tokio::time::sleep(RESPONSE_TIMEOUT + Duration::from_secs(1)).await;
        assert_eq!(accounts.total(), Usage::default());
        assert!(other_task.is_finished() && ann_task.is_finished() && large_task.is_finished());
        // The task that removes expired requests starts again.
        let last_task = suspend_for(other, 10).unwrap();
        expire_later(&state);
        tokio::time::sleep(RESPONSE_TIMEOUT + Duration::from_secs(1)).await;
        assert!(last_task.is_finished());
    }

    #[test]
    fn the_caller_with_the_most_waiting_requests_loses_one() {
        let started_at = Instant::now();
        let id = Uuid::from_u128;
        let to_requests = |callers: &[&'static str]| {
            let requests = callers.iter().zip(0..).map(|(caller, index)| {
                let suspended_at = started_at + Duration::from_secs(index);
                (id(index.into()), *caller, suspended_at)
            });
            requests.collect::<Vec<_>>()
        };
        let dropped_request = |callers: &[&'static str], newcomer| {
            find_oldest_of_heaviest_caller(to_requests(callers).into_iter(), newcomer)
        };
        assert_eq!(dropped_request(&["bob", "eve", "eve"], "eve"), Some(id(1)));
        // The heaviest caller loses a request for another caller's new request.
        assert_eq!(dropped_request(&["bob", "eve", "eve"], "ann"), Some(id(1)));
        // With equally many requests, the caller of the oldest request loses it.
        assert_eq!(dropped_request(&["eve", "bob", "bob"], "eve"), Some(id(0)));
        assert_eq!(dropped_request(&["bob", "eve"], "ann"), Some(id(0)));
        assert_eq!(dropped_request(&[], "ann"), None);
    }
}
