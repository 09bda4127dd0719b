//! Requests with an idempotency key (`Idempotency-Key`), each of which runs at most once.
//!
//! A key is claimed before its request runs, together with the ID of the request's first call in
//! the call log; further calls have [consecutive IDs](CallId::nth). If the process dies, the call
//! log decides whether the request may run again: if no tool of the request may have started, the
//! key is released; otherwise the request is not run again, because a tool may have finished. A
//! call whose record may have been removed from the call log counts as started.

mod response_bytes;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::store::{
    CallId, CallStatus, IdempotencyKey, KeyClaim, ProcessRun, Store, StoreError, Timestamp,
    write_once_available,
};
use serde::{Deserialize, Serialize};

use crate::predecessors::ProcessRuns;
use response_bytes::ResponseBytes;
pub use response_bytes::format_scope;

/// The idempotency keys of a sidecar.
pub struct IdempotencyKeys {
    store: Arc<dyn Store>,
    runs: ProcessRuns,
    /// For each request that runs in this process, the ID of the request's first call.
    running_calls: Mutex<HashSet<CallId>>,
    /// Locked while an abandoned claim is examined.
    examination_lock: tokio::sync::Mutex<()>,
    response_bytes: ResponseBytes,
}

/// The state of an idempotency key when a request tries to claim the key.
pub enum KeyState {
    /// The key was claimed for this request, which runs now.
    Claimed(ClaimedKey),
    /// The request has already run, with this result.
    Recorded(String),
    /// The request is running, or its result is being stored.
    InProgress,
    /// The key was used for a different request.
    OtherRequest,
    /// The process that ran the request has died, or could not store the result.
    Interrupted {
        /// For each call of the request, in order: the call's ID in the call log if the called tool
        /// may have started, else `None`. At least one ID is present.
        started_calls: Vec<Option<CallId>>,
        /// The stored form of the claim.
        fingerprint: String,
    },
}

/// The outcome of an attempt to claim a key.
enum ClaimAttempt {
    /// The state of the key is known.
    Known(KeyState),
    /// The key is claimed by a dead process, or by a request that has ended.
    Abandoned(AbandonedClaim),
}

/// The claim of a dead process, or of a request that has ended.
#[derive(PartialEq, Eq)]
struct AbandonedClaim {
    /// The stored form of the claim.
    fingerprint: String,
    process: ProcessRun,
    call: CallId,
    is_same_request: bool,
    /// Whether the key has expired according to both the system clock and the store's clock.
    has_expired: bool,
}

/// The stored form of a claim.
#[derive(PartialEq, Serialize, Deserialize)]
struct Fingerprint {
    request: String,
    owner: String,
    run_id: String,
    call: String,
}

impl Fingerprint {
    fn parse(text: &str) -> Result<Self, StoreError> {
        serde_json::from_str(text).map_err(|error| {
            StoreError::corrupt("the stored record of an Idempotency-Key is invalid")
                .with_source(error)
        })
    }
}

/// A key whose request runs in this process.
pub struct ClaimedKey {
    keys: Arc<IdempotencyKeys>,
    key: IdempotencyKey,
    /// The stored form of the claim.
    fingerprint: String,
    /// The ID of the request's first call.
    call: CallId,
}

/// Returns the IDs of a request's calls, starting with the first.
fn call_ids(first_call: CallId) -> impl Iterator<Item = CallId> + use<> {
    (0..).map(move |index| first_call.nth(index))
}

impl IdempotencyKeys {
    pub(crate) fn new(store: Arc<dyn Store>, runs: ProcessRuns) -> Self {
        Self {
            store,
            runs,
            running_calls: Mutex::default(),
            examination_lock: tokio::sync::Mutex::default(),
            response_bytes: ResponseBytes::default(),
        }
    }

    /// Claims a key for a request with `call_count` calls. Equal requests have the same text
    /// `request`.
    pub async fn claim(
        self: &Arc<Self>,
        key: &IdempotencyKey,
        request: &str,
        call_count: usize,
        ttl: Duration,
    ) -> Result<KeyState, StoreError> {
        let claim = match self.try_claim(key, request, ttl).await? {
            ClaimAttempt::Known(key_state) => return Ok(key_state),
            ClaimAttempt::Abandoned(claim) => claim,
        };
        let _examination_guard = self.examination_lock.lock().await;
        // The claim is tried again, because another request may have examined the abandoned claim
        // while this request waited for the lock.
        let claim = match self.try_claim(key, request, ttl).await? {
            ClaimAttempt::Abandoned(current) if current == claim => current,
            ClaimAttempt::Abandoned(_) => return Ok(KeyState::InProgress),
            ClaimAttempt::Known(key_state) => return Ok(key_state),
        };
        if !claim.has_expired {
            if !claim.is_same_request {
                return Ok(KeyState::OtherRequest);
            }
            if claim.process != self.runs.current_run {
                let now = Timestamp::now();
                self.store.interrupt_run(&claim.process, now).await?;
            }
            let mut started_calls = Vec::with_capacity(call_count);
            for id in call_ids(claim.call).take(call_count) {
                started_calls.push(self.may_have_started(id).await?.then_some(id));
            }
            if started_calls.iter().any(Option::is_some) {
                return Ok(KeyState::Interrupted {
                    started_calls,
                    fingerprint: claim.fingerprint,
                });
            }
        }
        self.store.release_key(key, &claim.fingerprint).await?;
        Ok(match self.try_claim(key, request, ttl).await? {
            ClaimAttempt::Known(key_state) => key_state,
            ClaimAttempt::Abandoned(_) => KeyState::InProgress,
        })
    }

    /// Returns whether the tool of a call may have started.
    async fn may_have_started(&self, call: CallId) -> Result<bool, StoreError> {
        use CallStatus::{Interrupted, Running, Success};
        let started_statuses = [Running, Interrupted, Success];
        match self.store.find_call(call).await? {
            Some(call) => Ok(call.duration.is_some() || started_statuses.contains(&call.status)),
            // A call that was never recorded has not started, because each call is recorded before
            // its tool starts.
            None => self.store.may_have_removed_call(call).await,
        }
    }

    /// Claims a key if it is free.
    async fn try_claim(
        self: &Arc<Self>,
        key: &IdempotencyKey,
        request: &str,
        ttl: Duration,
    ) -> Result<ClaimAttempt, StoreError> {
        let call = CallId::new();
        let new_claim = Fingerprint {
            request: request.to_owned(),
            owner: self.runs.current_run.owner.clone(),
            run_id: self.runs.current_run.run_id.clone(),
            call: call.to_string(),
        };
        let fingerprint = serde_json::to_string(&new_claim).map_err(|error| {
            StoreError::invalid("cannot serialize the claim of an idempotency key")
                .with_source(error)
        })?;
        self.running_calls.lock().insert(call);
        let claimed_key = ClaimedKey {
            keys: Arc::clone(self),
            key: key.clone(),
            fingerprint,
            call,
        };
        let now = Timestamp::now();
        let claim_key = async |expired_until| {
            let claim =
                self.store
                    .claim_key(key, &claimed_key.fingerprint, expired_until, now.plus(ttl));
            claim.await
        };
        let mut expired_until = Timestamp::from_millis(0);
        let mut claim = claim_key(expired_until).await?;
        // The system clock may be wrong, so the store's clock must confirm that the key has
        // expired.
        if let KeyClaim::InProgress { expires_at, .. } | KeyClaim::Recorded { expires_at, .. } =
            claim
            && expires_at <= now
            && let Some(store_time) = self.store.keys_expired_until(ttl).await?
        {
            expired_until = store_time;
            claim = claim_key(expired_until).await?;
        }
        let (fingerprint, result_or_expiry) = match claim {
            KeyClaim::Claimed => return Ok(ClaimAttempt::Known(KeyState::Claimed(claimed_key))),
            KeyClaim::InProgress {
                fingerprint,
                expires_at,
            } => (fingerprint, Err(expires_at)),
            KeyClaim::Recorded {
                fingerprint,
                result,
                ..
            } => (fingerprint, Ok(result)),
            _ => {
                return Err(StoreError::unavailable(
                    "the stored idempotency key has an unknown state",
                ));
            }
        };
        let stored_claim = Fingerprint::parse(&fingerprint)?;
        let is_same_request = stored_claim.request == request;
        let expires_at = match result_or_expiry {
            Ok(result) if is_same_request => {
                return Ok(ClaimAttempt::Known(KeyState::Recorded(result)));
            }
            Ok(_) => return Ok(ClaimAttempt::Known(KeyState::OtherRequest)),
            Err(expires_at) => expires_at,
        };
        match stored_claim.call.parse() {
            Ok(call) if !self.is_alive(&stored_claim, call) => {
                Ok(ClaimAttempt::Abandoned(AbandonedClaim {
                    fingerprint,
                    process: ProcessRun {
                        owner: stored_claim.owner,
                        run_id: stored_claim.run_id,
                    },
                    call,
                    is_same_request,
                    has_expired: expires_at <= expired_until,
                }))
            }
            _ if is_same_request => Ok(ClaimAttempt::Known(KeyState::InProgress)),
            _ => Ok(ClaimAttempt::Known(KeyState::OtherRequest)),
        }
    }

    /// Returns whether the process that has the claim may still finish the request. Returns `true`
    /// for a process of a sidecar on another socket, which cannot be examined.
    fn is_alive(&self, claim: &Fingerprint, call: CallId) -> bool {
        let current_run = &self.runs.current_run;
        if claim.owner != current_run.owner {
            return true;
        }
        if claim.run_id == current_run.run_id {
            return self.running_calls.lock().contains(&call);
        }
        self.runs.may_run(&claim.run_id)
    }

    /// Stores the result of the request with this claim, which may take several attempts. If
    /// storing fails, only logs the error. The key then stays claimed, and the request is not run
    /// again, because its calls are in the call log.
    pub async fn record(&self, key: &IdempotencyKey, fingerprint: &str, result: &str) {
        match write_once_available(|| self.store.record_key(key, fingerprint, result)).await {
            Ok(()) => {}
            // An error is ignored here, because an earlier attempt or another process has already
            // stored a result.
            Err(error) if error.is_conflict() => {}
            Err(error) => tracing::error!(
                %error,
                "Cannot store the response of a request with an Idempotency-Key"
            ),
        }
    }
}

impl ClaimedKey {
    /// Returns the IDs for the request's calls in the call log, in order.
    pub fn calls(&self) -> impl Iterator<Item = CallId> + use<> {
        call_ids(self.call)
    }

    /// Returns whether a response of `bytes` bytes may be stored: the principal's stored responses,
    /// including this one, must not exceed `max_bytes` bytes. If so, counts the response as stored.
    pub async fn admit_response(
        &self,
        principal: Option<&str>,
        bytes: usize,
        max_bytes: u64,
    ) -> bool {
        let (store, response_bytes) = (&*self.keys.store, &self.keys.response_bytes);
        let admission = response_bytes.admit(store, principal, bytes as u64, max_bytes);
        match admission.await {
            Ok(is_admitted) => is_admitted,
            Err(error) => {
                tracing::warn!(
                    %error,
                    "Cannot determine the size of the responses stored for Idempotency-Keys"
                );
                true
            }
        }
    }

    /// Stores the result of the request. Until this function returns, a repeated request gets the
    /// response that the request is in progress.
    pub async fn complete(self, result: &str) {
        self.keys.record(&self.key, &self.fingerprint, result).await;
    }

    async fn release(&self) -> Result<(), StoreError> {
        let release = self.keys.store.release_key(&self.key, &self.fingerprint);
        release.await
    }

    /// Releases the key of a request that has not run.
    pub async fn abandon(self) {
        if let Err(error) = self.release().await {
            // An error is only logged. The key then stays claimed, but the next request with the
            // key examines the claim and finds that no call has run.
            tracing::warn!(
                %error,
                "Cannot release the Idempotency-Key of a request that did not run"
            );
        }
    }
}

impl Drop for ClaimedKey {
    fn drop(&mut self) {
        self.keys.running_calls.lock().remove(&self.call);
    }
}
