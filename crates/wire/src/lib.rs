//! The request and response bodies, routes and headers of the sidecar's REST API.
//!
//! The server (`pillion serve`), the client and the PHP extension share these types. A response has
//! two levels: the envelope says whether the tool was *found and run*, and the [`Outcome`] inside
//! the envelope says whether the call *succeeded*.
//!
//! ```
//! use pillion_wire::{Answer, Outcome};
//! let body = r#"{
//!     "success": true,
//!     "tool": "calculator",
//!     "result": {
//!         "success": true,
//!         "data": {"expression": "2 + 2", "result": 4},
//!         "error": null,
//!         "metadata": {"execution_time": 0.001}
//!     }
//! }"#;
//! let Answer::Ran(execution) = serde_json::from_str(body)? else { unreachable!() };
//! assert_eq!(execution.result.data["result"], 4);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! With the feature `openapi`, every body derives its OpenAPI schema.

mod approvals;
mod batch;
mod caller;
mod chat;
mod execution;
mod failure;
mod health;
mod listing;
mod packs;
mod pins;
mod resources;
pub mod route;
mod servers;
mod status;
mod streams;
mod tool_calls;
mod workers;

pub use approvals::{ApprovalAnswer, ApprovalEntry, ApprovalList, DecisionRequest};
pub use batch::{BatchAnswer, BatchCall, BatchMode, BatchRequest, BatchResult};
pub use caller::{
    APPROVAL_HEADER, APPROVAL_WAIT_HEADER, CHANNEL_HEADER, IDEMPOTENCY_KEY_HEADER,
    IDEMPOTENCY_REPLAYED_HEADER, REQUEST_ID_HEADER, USER_HEADER,
};
pub use chat::{
    ChatAnswer, ChatApproval, ChatList, ChatRemoved, ChatRequest, ChatToolCall, ChatTranscript,
    ChatUsage, ModelAnswer, ModelEntry, ModelList, ModelTool, ProviderEntry, ProviderKeyInput,
    ProviderList, ToolKeyEntry, ToolKeyList,
};
pub use execution::{Answer, Execution, Outcome};
pub use failure::Failure;
pub use health::Health;
pub use listing::{
    FaultyTool, Parameter, SchemaList, ToolAnswer, ToolList, ToolSummary, UnavailableServer,
};
pub use packs::{KeptEntry, KeptKind, KeptList, KeptRemoved, PackEntry, PackList};
pub use pins::{AcceptPin, PinAnswer, PinChange, PinEntry, PinList};
pub use resources::{ResourceAnswer, ResourceList};
pub use servers::{
    ServerAnswer, ServerAuthentication, ServerCalls, ServerEntry, ServerInput, ServerList,
    ServerRateLimit, ServerRemoved, ServerTrial, UserCredentialAnswer, UserCredentialEntry,
    UserCredentialInput, UserCredentialList,
};
pub use status::{
    CallCounts, ProcessStatus, Readiness, ReloadReport, ServerStatus, Status, ToolStatus,
};
pub use streams::{StreamEntry, StreamList};

pub use tool_calls::{ToolCallAnswer, ToolCallEntry, ToolCallList, ToolCallStatistics, ToolUse};
pub use workers::{WorkerEntry, WorkerList};

/// A JSON object that keeps the order of its keys.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
