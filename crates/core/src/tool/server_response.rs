use serde_json::value::RawValue;

use super::{ToolFailure, ToolOutput};

/// The JSON-RPC response of the MCP server that ran a tool, as the server wrote it, for an interface
/// that forwards responses unchanged. Two responses are equal if their texts are equal.
#[derive(Debug, Clone)]
pub enum ServerResponse {
    /// The member `result` of the response.
    Result(Box<RawValue>),
    /// The member `error` of the response.
    Error(Box<RawValue>),
}

impl ServerResponse {
    /// Adds this response to `outcome`, which was parsed from this response.
    ///
    /// # Errors
    /// The failure of `outcome`, with this response.
    pub fn add_to(
        self,
        outcome: Result<ToolOutput, ToolFailure>,
    ) -> Result<ToolOutput, ToolFailure> {
        match outcome {
            Ok(output) => Ok(ToolOutput {
                response: Some(self),
                ..output
            }),
            Err(failure) => Err(ToolFailure {
                response: Some(Box::new(self)),
                ..failure
            }),
        }
    }
}

impl PartialEq for ServerResponse {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Result(first), Self::Result(second))
            | (Self::Error(first), Self::Error(second)) => first.get() == second.get(),
            (Self::Result(_), Self::Error(_)) | (Self::Error(_), Self::Result(_)) => false,
        }
    }
}
