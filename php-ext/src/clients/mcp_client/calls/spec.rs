//! A single call of a tool, and its outcome.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pillion_core::tool::ErrorCode;
use pillion_mcp_client::{McpClient, McpError, RequestOptions, ToolCallResult};
use serde_json::value::RawValue;

use crate::clients::cancellation_token::Cancellation;
use crate::exception;
use crate::mcp::ServerLink;
use crate::mcp::hooks::Hooks;
use crate::zend::{Failure, Result};

/// A tool call that an `McpClient` makes.
pub struct ToolCallSpec {
    /// The ID of the call, for events and results.
    pub id: String,
    /// The name of the called tool.
    pub name: String,
    /// The arguments of the call, a JSON object.
    pub arguments: Box<RawValue>,
}

/// The outcome of a tool call: the call's result, or the reason why the call has no result.
pub type CallOutcome = Result<ToolCallResult, CallError>;

/// The reason why a tool call has no result.
#[derive(Debug)]
pub enum CallError {
    /// The MCP client reported this error.
    Mcp(McpError),
    /// The call's token was cancelled, with this reason.
    Cancelled(String),
    /// The arguments are not a JSON object, for this reason.
    InvalidArguments(String),
}

impl CallError {
    /// Returns the error code that events and results contain.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Mcp(error) => pillion_mcp_tools::error_code(error.class()),
            Self::Cancelled(_) => ErrorCode::Cancelled,
            Self::InvalidArguments(_) => ErrorCode::InvalidInput,
        }
    }

    /// Returns the exception for the error.
    ///
    /// # Errors
    /// An exception of the token store, as for [`ServerLink::convert_error`].
    pub fn into_failure(self, link: &ServerLink, hooks: Hooks<'_>) -> Result<Failure> {
        match &self {
            Self::Mcp(error) => link.convert_error(hooks, error),
            error => Ok(exception::for_code(error.code(), error.to_string())),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mcp(error) => error.fmt(f),
            Self::Cancelled(reason) if reason.is_empty() => f.write_str("The call was cancelled"),
            Self::Cancelled(reason) => write!(f, "The call was cancelled: {reason}"),
            Self::InvalidArguments(reason) => f.write_str(reason),
        }
    }
}

/// Calls a tool and waits for the result. A cancellation also cancels the call on the server.
pub async fn call_with_cancellation(
    client: McpClient,
    spec: ToolCallSpec,
    options: RequestOptions,
    cancellation: Cancellation,
) -> CallOutcome {
    let call = client.call_tool_with_options(&spec.name, &spec.arguments, &options);
    tokio::select! {
        biased;
        reason = cancellation.wait_for_reason() => Err(CallError::Cancelled(reason)),
        outcome = call => outcome.map_err(CallError::Mcp),
    }
}

/// Returns an ID for a call, unique in this process and most likely unique across processes.
pub fn new_id() -> String {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    let milliseconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_millis());
    let (process_id, count) = (std::process::id(), NEXT_ID.fetch_add(1, Ordering::Relaxed));
    format!("call_{milliseconds:x}_{process_id:x}_{count:x}")
}
