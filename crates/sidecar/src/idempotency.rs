//! Requests that name themselves (`Idempotency-Key`): each runs once, however often it is sent.
//!
//! A key is claimed before its request runs, with the id that the call log will know the call by.
//! What a process that died has left of a request tells the call log: without a call there the
//! tool has not begun, and the key is free; with one the tool may have done its work, and
//! the request is not run again.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::store::{
    CallId, CallStatus, IdempotencyKey, KeyClaim, ProcessLife, Store, StoreError, Timestamp,
};
use serde::{Deserialize, Serialize};

/// How often the result of a request is tried to be recorded, and how long apart.
const ATTEMPTS: u32 = 5;
const APART: Duration = Duration::from_millis(200);

/// The keys of a sidecar.
pub(crate) struct KeyLedger {
    store: Arc<dyn Store>,
    process: ProcessLife,
    /// Earlier lives that still end calls.
    predecessors: Vec<String>,
    /// The calls of ours that run under a key.
    running: Mutex<HashSet<CallId>>,
    /// Held while a claim of the dead is looked into.
    looking_into: tokio::sync::Mutex<()>,
}

/// What became of a request with a key.
pub(crate) enum Claim {
    /// It runs now, and nowhere else.
    Mine(Held),
    /// It has run, with this result.
    Recorded(String),
    /// It runs.
    InProgress,
    /// The key stands for another request.
    OtherRequest,
    /// The process that ran it is dead, and the call is in the call log under this id.
    CutOff(CallId),
}

/// A claim, as the store has it with its key.
#[derive(PartialEq, Serialize, Deserialize)]
struct Fingerprint {
    request: String,
    owner: String,
    life: String,
    call: String,
}

impl Fingerprint {
    fn read(text: &str) -> Result<Self, StoreError> {
        serde_json::from_str(text).map_err(|error| {
            StoreError::corrupt("a stored idempotency key is damaged").with_source(error)
        })
    }
}

/// A key whose request runs here.
pub(crate) struct Held {
    ledger: Arc<KeyLedger>,
    key: IdempotencyKey,
    call: CallId,
}

impl KeyLedger {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        process: ProcessLife,
        predecessors: Vec<String>,
    ) -> Self {
        Self {
            store,
            process,
            predecessors,
            running: Mutex::default(),
            looking_into: tokio::sync::Mutex::default(),
        }
    }

    /// Claims a key for a request, for which `request` stands.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        key: &IdempotencyKey,
        request: &str,
        ttl: Duration,
    ) -> Result<Claim, StoreError> {
        let Some((text, claim)) = self.try_claim(key, request, ttl).await? else {
            return Ok(Claim::OtherRequest);
        };
        let Claim::CutOff(call) = claim else {
            return Ok(claim);
        };
        let _alone = self.looking_into.lock().await;
        // Somebody may have looked into it meanwhile.
        match self.try_claim(key, request, ttl).await? {
            None => return Ok(Claim::OtherRequest),
            Some((same, Claim::CutOff(_))) if same == text => {}
            Some((_, claim)) => return Ok(claim),
        }
        let call_of_it = self.store.call(call).await?;
        let may_have_run = call_of_it.is_some_and(|call| {
            let began = [
                CallStatus::Running,
                CallStatus::Interrupted,
                CallStatus::Success,
            ];
            call.duration.is_some() || began.contains(&call.status)
        });
        if may_have_run {
            return Ok(Claim::CutOff(call));
        }
        self.store.release_key(key).await?;
        let claim = self.try_claim(key, request, ttl).await?;
        Ok(claim.map_or(Claim::OtherRequest, |(_, claim)| claim))
    }

    /// Claims it if nobody has; none where it stands for another request. `CutOff`: the claim is
    /// one of the dead, whatever they did with it.
    async fn try_claim(
        self: &Arc<Self>,
        key: &IdempotencyKey,
        request: &str,
        ttl: Duration,
    ) -> Result<Option<(String, Claim)>, StoreError> {
        let held = Held {
            ledger: Arc::clone(self),
            key: key.clone(),
            call: CallId::new(),
        };
        self.running.lock().insert(held.call);
        let own = Fingerprint {
            request: request.to_owned(),
            owner: self.process.owner.clone(),
            life: self.process.life.clone(),
            call: held.call.to_string(),
        };
        let text = serde_json::to_string(&own).map_err(|error| {
            StoreError::invalid("the key's claim cannot be written").with_source(error)
        })?;
        let now = Timestamp::now();
        let claim = self.store.claim_key(key, &text, now, now.plus(ttl)).await?;
        let (fingerprint, result) = match claim {
            KeyClaim::Claimed => return Ok(Some((text, Claim::Mine(held)))),
            KeyClaim::InProgress { fingerprint } => (fingerprint, None),
            KeyClaim::Recorded {
                fingerprint,
                result,
            } => (fingerprint, Some(result)),
            _ => return Err(StoreError::unavailable("the key is in an unknown state")),
        };
        let other = Fingerprint::read(&fingerprint)?;
        if other.request != request {
            return Ok(None);
        }
        let claim = match result {
            Some(result) => Claim::Recorded(result),
            None => match other.call.parse() {
                Ok(call) if !self.is_alive(&other, call) => Claim::CutOff(call),
                _ => Claim::InProgress,
            },
        };
        Ok(Some((fingerprint, claim)))
    }

    /// Whether whoever has the claim may still end it. Of sidecars on other sockets nothing is
    /// known here.
    fn is_alive(&self, claim: &Fingerprint, call: CallId) -> bool {
        if claim.owner != self.process.owner {
            return true;
        }
        if claim.life == self.process.life {
            return self.running.lock().contains(&call);
        }
        self.predecessors.contains(&claim.life)
    }

    /// Stores the result of a request. What cannot be stored is told the log: the key stays
    /// claimed, and its call in the call log keeps the request from running again.
    pub(crate) async fn record(&self, key: &IdempotencyKey, result: &str) {
        for attempt in 1..=ATTEMPTS {
            match self.store.record_key(key, result).await {
                Ok(()) => return,
                // Somebody else has answered for it.
                Err(error) if error.is_conflict() => return,
                Err(error) if attempt == ATTEMPTS => {
                    tracing::error!(%error, "The result of a request with a key is not stored");
                }
                Err(_) => tokio::time::sleep(APART).await,
            }
        }
    }
}

impl Held {
    /// The id that the call log has to know the call by.
    pub(crate) fn call(&self) -> CallId {
        self.call
    }

    /// The request has run, with this result.
    pub(crate) async fn ran(self, result: &str) {
        self.ledger.record(&self.key, result).await;
    }

    /// The request has not run: the key is free again.
    pub(crate) async fn did_not_run(self) {
        if let Err(error) = self.ledger.store.release_key(&self.key).await {
            // Looked into when it is sent again: there is no call that ran.
            tracing::warn!(%error, "A key whose request did not run is still claimed");
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ledger.running.lock().remove(&self.call);
    }
}
