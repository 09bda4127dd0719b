use std::time::Duration;

use ext_php_rs::types::Zval;
use pillion_core::tool::{ErrorCode, whole_seconds};
use pillion_mcp_client::ToolCallResult;

use crate::clients::mcp_client::EMPTY_OBJECT;
use crate::mcp::decode_message;
use crate::values::tool_result::ResultParts;
use crate::zend::{Outcome, Result, entries, member, new_array, new_int, new_string};

/// Returns the result of a call as a `ToolResult`, with an error code if the server has set
/// `isError` to true.
pub fn result_of_call(
    id: &str,
    name: &str,
    call_result: &ToolCallResult,
) -> Result<(Zval, Option<&'static str>)> {
    let result = decode_message(&call_result.result, EMPTY_OBJECT)?;
    let is_error = is_error(&result);
    let code = is_error.then(|| ErrorCode::InternalError.as_str());
    let mut result_parts = ResultParts {
        success: !is_error,
        error: is_error.then(|| join_text_blocks(&result)),
        error_code: code.map(str::to_owned),
        ..ResultParts::new(id, name)
    };
    if let Some(mismatch) = &call_result.output_mismatch {
        result_parts.metadata = new_array([("output_mismatch", new_string(mismatch))]);
    }
    result_parts.result = result;
    Ok((result_parts.into_object()?, code))
}

/// Returns whether a tool's result has `isError` set to true.
pub fn is_error(result: &Zval) -> bool {
    member(result, "isError").and_then(|value| value.bool()) == Some(true)
}

/// Returns the text blocks of a tool's result, one per line.
fn join_text_blocks(result: &Zval) -> String {
    let content = member(result, "content");
    let mut texts = Vec::new();
    for (_, block) in content.iter().flat_map(entries) {
        texts.extend(member(&block, "text").and_then(|text| text.string()));
    }
    if texts.is_empty() {
        "The tool reported an error".to_owned()
    } else {
        texts.join("\n")
    }
}

/// Creates a failed result for a call that ended without a result.
pub(super) fn new_failed_result(
    id: &str,
    name: &str,
    code: ErrorCode,
    error: String,
    retry_after: Option<Duration>,
) -> Outcome {
    let mut result_parts = ResultParts {
        success: false,
        error: Some(error),
        error_code: Some(code.as_str().to_owned()),
        ..ResultParts::new(id, name)
    };
    if let Some(delay) = retry_after {
        // The delay before a retry is rounded up to whole seconds, as in the results of a
        // `ToolExecutor`.
        let seconds = i64::try_from(whole_seconds(delay)).unwrap_or(i64::MAX);
        result_parts.metadata = new_array([("retry_after", new_int(seconds))]);
    }
    result_parts.into_object()
}
