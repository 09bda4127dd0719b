//! Requests with an idempotency key (`Idempotency-Key`), each of which runs at most once.
//!
//! A key is claimed before its request runs, together with the id of the request's first call in
//! the call log; further calls have [consecutive ids](CallId::nth). If the process dies, the call
//! log decides: without a call whose tool may have started, the key is released; otherwise the
//! request is not run again, because the tool may have finished. A call that the call log may have
//! removed counts as started.

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
pub use response_bytes::scope;

/// The idempotency keys of a sidecar.
pub struct IdempotencyKeys {
    store: Arc<dyn Store>,
    runs: ProcessRuns,
    /// The first call of each running request of this process.
    running: Mutex<HashSet<CallId>>,
    /// Locked while a claim of a dead process is examined.
    looking_into: tokio::sync::Mutex<()>,
    response_bytes: ResponseBytes,
}

/// The state of a key when a request claims it.
pub enum Claim {
    /// The key was claimed for this request, which runs now.
    Mine(ClaimedKey),
    /// The request has already run, with this result.
    Recorded(String),
    /// The request is running, or its result is being stored.
    InProgress,
    /// The key was used for a different request.
    OtherRequest,
    /// The process that ran the request has died, or could not store the result.
    CutOff {
        /// The id in the call log of each call whose tool may have started, with at least one such
        /// call.
        begun: Vec<Option<CallId>>,
        /// The stored form of the claim.
        fingerprint: String,
    },
}

/// The outcome of an attempt to claim a key.
enum ClaimAttempt {
    Known(Claim),
    /// A dead process has claimed the key.
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
    /// Whether the key has surely expired.
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
    fn read(text: &str) -> Result<Self, StoreError> {
        serde_json::from_str(text).map_err(|error| {
            StoreError::corrupt("a stored idempotency key is damaged").with_source(error)
        })
    }
}

/// A key whose request runs in this process.
pub struct ClaimedKey {
    ledger: Arc<IdempotencyKeys>,
    key: IdempotencyKey,
    /// The stored form of the claim.
    fingerprint: String,
    /// The id of the request's first call.
    call: CallId,
}

/// Returns the ids of a request's calls, starting with the first.
fn ids(first: CallId) -> impl Iterator<Item = CallId> + use<> {
    (0..).map(move |index| first.nth(index))
}

impl IdempotencyKeys {
    pub(crate) fn new(store: Arc<dyn Store>, runs: ProcessRuns) -> Self {
        Self {
            store,
            runs,
            running: Mutex::default(),
            looking_into: tokio::sync::Mutex::default(),
            response_bytes: ResponseBytes::default(),
        }
    }

    /// Claims a key for a request with `calls` calls, identified by `request`.
    pub async fn claim(
        self: &Arc<Self>,
        key: &IdempotencyKey,
        request: &str,
        calls: usize,
        ttl: Duration,
    ) -> Result<Claim, StoreError> {
        let claim = match self.try_claim(key, request, ttl).await? {
            ClaimAttempt::Known(claim) => return Ok(claim),
            ClaimAttempt::Abandoned(claim) => claim,
        };
        let _alone = self.looking_into.lock().await;
        // Another request may have examined the abandoned claim while this one waited for the lock.
        let claim = match self.try_claim(key, request, ttl).await? {
            ClaimAttempt::Abandoned(same) if same == claim => same,
            ClaimAttempt::Abandoned(_) => return Ok(Claim::InProgress),
            ClaimAttempt::Known(claim) => return Ok(claim),
        };
        if !claim.has_expired {
            if !claim.is_same_request {
                return Ok(Claim::OtherRequest);
            }
            if claim.process != self.runs.own {
                let at = Timestamp::now();
                self.store.interrupt_run(&claim.process, at).await?;
            }
            let mut begun = Vec::with_capacity(calls);
            for id in ids(claim.call).take(calls) {
                begun.push(self.may_have_started(id).await?.then_some(id));
            }
            if begun.iter().any(Option::is_some) {
                let fingerprint = claim.fingerprint;
                return Ok(Claim::CutOff { begun, fingerprint });
            }
        }
        self.store.release_key(key, &claim.fingerprint).await?;
        Ok(match self.try_claim(key, request, ttl).await? {
            ClaimAttempt::Known(claim) => claim,
            ClaimAttempt::Abandoned(_) => Claim::InProgress,
        })
    }

    /// Returns whether the tool of a call may have started.
    async fn may_have_started(&self, call: CallId) -> Result<bool, StoreError> {
        let started = [
            CallStatus::Running,
            CallStatus::Interrupted,
            CallStatus::Success,
        ];
        match self.store.find_call(call).await? {
            Some(call) => Ok(call.duration.is_some() || started.contains(&call.status)),
            // Each call is recorded before its tool starts.
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
        let own = Fingerprint {
            request: request.to_owned(),
            owner: self.runs.own.owner.clone(),
            run_id: self.runs.own.run_id.clone(),
            call: call.to_string(),
        };
        let fingerprint = serde_json::to_string(&own).map_err(|error| {
            StoreError::invalid("cannot serialize the claim of an idempotency key")
                .with_source(error)
        })?;
        self.running.lock().insert(call);
        let held = ClaimedKey {
            ledger: Arc::clone(self),
            key: key.clone(),
            fingerprint,
            call,
        };
        let now = Timestamp::now();
        let claim_key = async |expired_until| {
            let claim = self
                .store
                .claim_key(key, &held.fingerprint, expired_until, now.plus(ttl));
            claim.await
        };
        let mut expired_until = Timestamp::from_millis(0);
        let mut claim = claim_key(expired_until).await?;
        // The system clock may be wrong, so the store's clock must confirm that the key has expired.
        if let KeyClaim::InProgress { expires_at, .. } | KeyClaim::Recorded { expires_at, .. } =
            claim
            && expires_at <= now
            && let Some(until) = self.store.keys_expired_until(ttl).await?
        {
            expired_until = until;
            claim = claim_key(expired_until).await?;
        }
        let (fingerprint, state) = match claim {
            KeyClaim::Claimed => return Ok(ClaimAttempt::Known(Claim::Mine(held))),
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
        let other = Fingerprint::read(&fingerprint)?;
        let is_same_request = other.request == request;
        let expires_at = match state {
            Ok(result) if is_same_request => {
                return Ok(ClaimAttempt::Known(Claim::Recorded(result)));
            }
            Ok(_) => return Ok(ClaimAttempt::Known(Claim::OtherRequest)),
            Err(expires_at) => expires_at,
        };
        match other.call.parse() {
            Ok(call) if !self.is_alive(&other, call) => {
                Ok(ClaimAttempt::Abandoned(AbandonedClaim {
                    fingerprint,
                    process: ProcessRun {
                        owner: other.owner,
                        run_id: other.run_id,
                    },
                    call,
                    is_same_request,
                    has_expired: expires_at <= expired_until,
                }))
            }
            _ if is_same_request => Ok(ClaimAttempt::Known(Claim::InProgress)),
            _ => Ok(ClaimAttempt::Known(Claim::OtherRequest)),
        }
    }

    /// Returns whether the process that has the claim may still finish the request. For sidecars on
    /// other sockets, this is assumed.
    fn is_alive(&self, claim: &Fingerprint, call: CallId) -> bool {
        let own = &self.runs.own;
        if claim.owner != own.owner {
            return true;
        }
        if claim.run_id == own.run_id {
            return self.running.lock().contains(&call);
        }
        self.runs.may_run(&claim.run_id)
    }

    /// Stores the result of the request with this claim, which may take several attempts. If
    /// storing fails, logs the error: the key stays claimed, and its calls in the call log keep the
    /// request from running again.
    pub async fn record(&self, key: &IdempotencyKey, fingerprint: &str, result: &str) {
        match write_once_available(|| self.store.record_key(key, fingerprint, result)).await {
            Ok(()) => {}
            // An earlier attempt or another process has already stored a result.
            Err(error) if error.is_conflict() => {}
            Err(error) => tracing::error!(
                %error,
                "Cannot store the response of a request with an Idempotency-Key"
            ),
        }
    }
}

impl ClaimedKey {
    /// Returns the ids for the request's calls in the call log, in order.
    pub fn calls(&self) -> impl Iterator<Item = CallId> + use<> {
        ids(self.call)
    }

    /// Returns whether a response of `bytes` bytes may be stored, given that the responses of a
    /// principal may have `max` bytes together. An admitted response is counted.
    pub async fn admits(&self, principal: Option<&str>, bytes: usize, max: u64) -> bool {
        let store = &*self.ledger.store;
        let admitted = self
            .ledger
            .response_bytes
            .admit(store, principal, bytes as u64, max);
        match admitted.await {
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

    /// Stores the result of the request. Until this returns, repeated requests are told that the
    /// request is in progress.
    pub async fn ran(self, result: &str) {
        let Self {
            key, fingerprint, ..
        } = &self;
        self.ledger.record(key, fingerprint, result).await;
    }

    async fn release(&self) -> Result<(), StoreError> {
        let Self {
            key, fingerprint, ..
        } = self;
        self.ledger.store.release_key(key, fingerprint).await
    }

    /// Releases the key of a request that has not run.
    pub async fn did_not_run(self) {
        if let Err(error) = self.release().await {
            // The key stays claimed. The next attempt examines the claim and finds no call that has
            // run.
            tracing::warn!(
                %error,
                "Cannot release the Idempotency-Key of a request that did not run"
            );
        }
    }
}

impl Drop for ClaimedKey {
    fn drop(&mut self) {
        self.ledger.running.lock().remove(&self.call);
    }
}
