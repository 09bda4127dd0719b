use std::time::Duration;

use serde_json::Value;

use super::{ErrorCode, JsonObject, ServerResponse, ToolName, ToolOrigin};

/// The output of a successful call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// The output for the model: text or any JSON value (`result` of the tool result).
    pub result: Value,
    /// The output for programs, if it differs from `result`.
    pub data: Option<Value>,
    /// Information about the run, such as a type or a source.
    pub metadata: JsonObject,
    /// The MCP server's response from which `result` was read, if the caller forwards responses.
    /// Not part of a cached result.
    pub response: Option<ServerResponse>,
}

impl ToolOutput {
    /// Creates an output that consists of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::value(Value::String(text.into()))
    }

    /// Creates an output that consists of a JSON value.
    #[must_use]
    pub fn value(result: Value) -> Self {
        Self {
            result,
            ..Self::default()
        }
    }

    /// Returns a copy of this output for the result cache: without the server's response, which
    /// would double the memory that the cached result needs.
    pub(crate) fn without_response(&self) -> Self {
        Self {
            result: self.result.clone(),
            data: self.data.clone(),
            metadata: self.metadata.clone(),
            response: None,
        }
    }

    /// Sets the output for programs.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Adds an entry to the metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: Value) -> Self {
        self.metadata.insert(key.into(), value);
        self
    }
}

/// A failed call: an error code, an error message that is safe to show, and an optional result.
///
/// ```
/// use pillion_core::tool::{ErrorCode, ToolFailure};
/// let failure = ToolFailure::new(ErrorCode::InvalidInput, "No expression provided");
/// assert_eq!(failure.to_string(), "No expression provided");
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// The code that tells programs why the call failed.
    pub code: ErrorCode,
    /// The error message, without internal details.
    pub message: String,
    /// The result that the tool returned despite the failure, such as the content of an MCP result
    /// with `isError`.
    pub result: Value,
    /// Information about the run, as in [`ToolOutput`]. Boxed, so that results stay small.
    pub metadata: Box<JsonObject>,
    /// The MCP server's response, as in [`ToolOutput`]: a result with `isError`, or an error. Boxed,
    /// so that results stay small.
    pub response: Option<Box<ServerResponse>>,
}

impl ToolFailure {
    /// Creates a failure without a result.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            result: Value::Null,
            metadata: Box::default(),
            response: None,
        }
    }

    /// Creates a failure for arguments that are invalid in a way that the schema cannot express.
    #[must_use]
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidInput, message)
    }

    /// Creates a failure of the tool or of Pillion.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InternalError, message)
    }

    /// Creates the failure of a call that exceeded its time limit.
    pub(crate) fn timed_out(name: &ToolName, origin: &ToolOrigin, limit: Duration) -> Self {
        let limit = seconds_text(limit);
        let label = origin.server_label().filter(|label| !label.is_empty());
        let server = label.map_or_else(String::new, |label| format!(" of server '{label}'"));
        let message = format!("Tool '{name}'{server} timed out after {limit}");
        Self::new(ErrorCode::Timeout, message)
    }

    /// Sets the result that the tool returned despite the failure.
    #[must_use]
    pub fn with_result(mut self, result: Value) -> Self {
        self.result = result;
        self
    }

    /// Adds an entry to the metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: Value) -> Self {
        self.metadata.insert(key.into(), value);
        self
    }

    /// Sets `retry_after` in the metadata to the time after which a retry makes sense, in [whole
    /// seconds](whole_seconds).
    #[must_use]
    pub fn with_retry_after(self, wait: Duration) -> Self {
        self.with_metadata("retry_after", whole_seconds(wait).into())
    }
}

/// Rounds a wait up to whole seconds, so that waiting that long is always enough.
#[must_use]
pub fn whole_seconds(wait: Duration) -> u64 {
    let partial_second = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(partial_second)
}

/// Formats a duration like a Python float of seconds: `30.0s`, `0.5s`.
pub(crate) fn seconds_text(duration: Duration) -> String {
    format!("{:?}s", duration.as_secs_f64())
}
