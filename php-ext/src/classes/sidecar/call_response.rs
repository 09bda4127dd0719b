use ext_php_rs::types::Zval;
use pillion_core::tool::ErrorCode;

use crate::exception::{FailedResult, for_result, parse_error_code};
use crate::values::tool_result::ResultParts;
use crate::zend::{Failure, Outcome, empty_array, member, with_entry};

/// The sidecar's response to one tool call, as PHP values: the tool's outcome under `result`, or an
/// error if the tool does not exist.
pub(super) struct CallResponse {
    pub(super) success: bool,
    /// The tool's data for programs; the tool's result for the model if the tool returned no
    /// separate data.
    pub(super) data: Zval,
    pub(super) error: Option<String>,
    pub(super) error_code: Option<String>,
    /// The tool's result for the model; `None` if the tool returned no separate data for programs.
    result: Option<Zval>,
    metadata: Zval,
}

impl CallResponse {
    /// Reads the response to a tool call; missing members count as empty.
    pub(super) fn from_value(response: &Zval) -> Self {
        let nested_result = member(response, "result").filter(Zval::is_array);
        let outcome = nested_result.as_ref().unwrap_or(response);
        let field = |key: &str| member(outcome, key);
        let text = |key: &str| field(key).and_then(|text| text.string());
        Self {
            success: field("success").is_some_and(|success| success.bool() == Some(true)),
            data: field("data").unwrap_or_default(),
            error: text("error"),
            error_code: text("error_code"),
            result: field("result"),
            metadata: field("metadata").unwrap_or_else(empty_array),
        }
    }

    /// Creates the failed result of a call that was not sent to a tool.
    pub(super) fn for_rejection(code: &str, reason: String) -> Self {
        Self {
            success: false,
            data: Zval::new(),
            error: Some(reason),
            error_code: Some(code.to_owned()),
            result: None,
            metadata: empty_array(),
        }
    }

    /// Adds the call's exact arguments to the metadata, unless `arguments` is `None`.
    pub(super) fn with_arguments(mut self, arguments: Option<Zval>) -> Self {
        if let Some(arguments) = arguments.filter(|_| self.metadata.is_array()) {
            self.metadata = with_entry(&self.metadata, "arguments", arguments);
        }
        self
    }

    /// Returns the exception for a failed call.
    pub(super) fn into_failure(self, tool_name: String) -> Failure {
        let code = self.error_code.as_deref().and_then(parse_error_code);
        for_result(&FailedResult {
            tool_name,
            error: self.error.unwrap_or_else(|| "The tool failed".to_owned()),
            code: code.unwrap_or(ErrorCode::InternalError).as_str().to_owned(),
            metadata: self.metadata,
        })
    }

    /// Returns the response as a `ToolResult`.
    pub(super) fn into_result(self, tool_call_id: String, tool_name: String) -> Outcome {
        let (result, data) = match self.result {
            Some(result) => (result, self.data),
            None => (self.data, Zval::new()),
        };
        let result_parts = ResultParts {
            result,
            success: self.success,
            error: self.error,
            error_code: self.error_code,
            data,
            metadata: self.metadata,
            ..ResultParts::new(tool_call_id, tool_name)
        };
        result_parts.into_object()
    }
}
