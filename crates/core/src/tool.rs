//! The data model of tools: definitions, calls and results.
//!
//! All types are plain data, except the [`Tool`] trait, which tools implement. Nothing here does
//! I/O.

mod acting_identity;
mod approval_policy;
mod call;
mod context;
mod definition;
mod error_code;
mod handler;
mod link;
mod name;
mod name_pattern;
mod nested_calls;
mod origin;
mod outcome;
mod parameter;
mod pausable_clock;
mod quota_account;
mod result;
mod result_memory;
mod server_response;
mod trace;

pub use acting_identity::{ActingIdentity, ActingIdentityFuture};
pub use approval_policy::ApprovalPolicy;
pub(crate) use call::parse_arguments;
pub use call::{ToolCall, arguments_object, arguments_text};
pub use context::{ApprovalRequestOptions, CallContext};
pub use definition::{DefinitionError, ToolDefinition, ToolDefinitionBuilder};
pub use error_code::ErrorCode;
pub use handler::{FnTool, ForwardedParameters, Tool, ToolFuture};
pub use link::Link;
pub use name::{InvalidToolName, ToolName, shortened_name};
pub use name_pattern::ToolNamePattern;
pub use nested_calls::{NestedCallFuture, NestedCallHandle, NestedCallRunner, Nesting, ToolFilter};
pub use origin::ToolOrigin;
pub(crate) use outcome::seconds_text;
pub use outcome::{ToolFailure, ToolOutput, whole_seconds};
pub use parameter::{ParameterType, ToolParameter, UnknownParameterType};
pub(crate) use pausable_clock::{PausableClock, Pause, Resumption};
pub use quota_account::QuotaAccount;
pub(crate) use result::extract_reading;
pub use result::{Media, ResultPart, ToolResult};
pub use result_memory::{ReserveFuture, ReserveMemory, ResultMemory};
pub use server_response::ServerResponse;
pub use trace::TraceContext;

/// A JSON object that keeps the order of its keys, such as the arguments of a call.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
