//! Storage interfaces: plain records that outlive a crash, and a small trait for each kind of
//! record.
//!
//! The traits do not depend on a database; the crate `pillion-store` implements them for SQLite and
//! PostgreSQL. All traits are object-safe. A program holds an `Arc<dyn Store>`, and gives each
//! component the trait that it needs, such as an `Arc<dyn CallLog>`:
//!
//! ```
//! use std::sync::Arc;
//! use pillion_core::store::{ApprovalStore, CallLog, Store};
//!
//! fn parts(store: Arc<dyn Store>) -> (Arc<dyn CallLog>, Arc<dyn ApprovalStore>) {
//!     (store.clone(), store)
//! }
//! ```
//!
//! **A method that returns `Ok` has made its write durable**: the data survives if the process is
//! killed right afterwards. A failed method returns a [`StoreError`]; a failed write can be
//! repeated.

mod access_token;
mod approval;
mod call;
mod call_log;
mod call_query;
mod chat;
mod error;
mod idempotency;
mod memory;
mod pack;
mod page;
mod pin;
mod repeated_write;
mod secret;
mod server;
mod settings;
mod step_checkpoints;

pub use crate::call_id::{CallId, CallIdError};
pub use crate::timestamp::Timestamp;
pub use access_token::{AccessToken, AccessTokenStore};
pub use approval::{
    ApprovalDecision, ApprovalFilter, ApprovalRecord, ApprovalStore, OpenApprovals, Verdict,
};
pub use call::{CallStatus, ProcessRun, RateLimitRecord, ToolCallRecord};
pub use call_log::CallLog;
pub use call_query::{
    CallCounts, CallFilter, CallGrouping, CallStatistics, PruneOutcome, Retention,
};
pub use chat::{ChatClaim, ChatRecord, ChatStore, ChatSummary};
pub use error::{StoreError, StoreErrorKind};
pub use idempotency::{IdempotencyKey, IdempotencyStore, KeyClaim, UNFINISHED_KEY_TTL};
pub use memory::{Memory, MemoryCategory, MemorySearch, MemoryStore};
pub use pack::{LogBounds, LogEntry, LogSummary, PackStore};
pub use page::{Cursor, PageRequest, RecordPage};
pub use pin::{PendingDefinition, PinOwner, PinStore, ToolPin};
pub use repeated_write::write_once_available;
pub use secret::{SealedSecret, SecretId, SecretKind, SecretReplacement, SecretStore};
pub use server::{RecordOwner, ServerRecord, ServerStore};
pub use settings::SettingsStore;
pub use step_checkpoints::StepCheckpointStore;

/// A store with all storage interfaces. Every type that implements the individual traits also
/// implements this trait.
pub trait Store:
    ServerStore
    + CallLog
    + ApprovalStore
    + IdempotencyStore
    + StepCheckpointStore
    + PinStore
    + SecretStore
    + AccessTokenStore
    + MemoryStore
    + PackStore
    + SettingsStore
    + ChatStore
{
}

impl<T> Store for T where
    T: ServerStore
        + CallLog
        + ApprovalStore
        + IdempotencyStore
        + StepCheckpointStore
        + PinStore
        + SecretStore
        + AccessTokenStore
        + MemoryStore
        + PackStore
        + SettingsStore
        + ChatStore
{
}
