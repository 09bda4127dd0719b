//! The request and response bodies, routes and headers of the sidecar's REST API.
//!
//! The server (`pillion serve`), the client and the PHP extension share these types. A response has
//! two levels: the envelope says whether the tool was *found and run*, and the [`ToolOutcome`]
//! inside the envelope says whether the call *succeeded*.
//!
//! ```
//! use pillion_wire::{ExecuteResponse, ToolOutcome};
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
//! let ExecuteResponse::Executed(execution) = serde_json::from_str(body)? else { unreachable!() };
//! assert_eq!(execution.result.data["result"], 4);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! With the feature `openapi`, every body derives its OpenAPI schema.

mod approvals;
mod batch;
mod caller;
mod chat;
mod console;
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

pub use approvals::{
    ApprovalEntry, ApprovalList, ApprovalResponse, DecisionRequest, DenialRequest,
};
pub use batch::{BatchCall, BatchMode, BatchRequest, BatchResponse, BatchResult, MAX_ID_BYTES};
pub use caller::{
    APPROVAL_HEADER, APPROVAL_WAIT_HEADER, CHANNEL_HEADER, IDEMPOTENCY_KEY_HEADER,
    IDEMPOTENCY_REPLAYED_HEADER, REQUEST_ID_HEADER, USER_HEADER,
};
pub use chat::{
    ChatApproval, ChatList, ChatRemoved, ChatRequest, ChatResponse, ChatToolCall, ChatTranscript,
    ChatUsage, ModelEntry, ModelList, ModelResponse, ModelTool, ProviderEntry, ProviderKeyInput,
    ProviderList, ToolKeyEntry, ToolKeyList,
};
pub use console::{ConsoleLink, ConsoleLinkRequest};
pub use execution::{ExecuteResponse, Execution, ToolOutcome};
pub use failure::Failure;
pub use health::Health;
pub use listing::{
    InvalidTool, Parameter, SchemaList, ToolList, ToolResponse, ToolSummary, UnavailableServer,
};
pub use packs::{
    PackEntry, PackList, StoredItemEntry, StoredItemKind, StoredItemList, StoredItemRemoved,
};
pub use pins::{AcceptPin, PinChange, PinEntry, PinList, PinResponse, RejectPin};
pub use resources::{ResourceList, ResourceResponse};
pub use servers::{
    ServerAuthentication, ServerCalls, ServerEntry, ServerList, ServerRateLimit, ServerRemoved,
    ServerResponse, ServerTrial, UserCredentialEntry, UserCredentialInput, UserCredentialList,
    UserCredentialResponse,
};
pub use status::{
    CallCounts, ProcessStatus, Readiness, ReloadReport, ServerStatus, Status, ToolStatus,
};
pub use streams::{StreamEntry, StreamList};

pub use tool_calls::{
    ToolCallEntry, ToolCallList, ToolCallResponse, ToolCallStatistics, ToolUsage,
};
pub use workers::{WorkerEntry, WorkerList};

/// A JSON object that keeps the order of its keys.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
