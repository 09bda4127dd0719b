use std::time::Duration;

use ext_php_rs::types::Zval;
use pillion_core::tool::{ErrorCode, whole_seconds};
use pillion_mcp_client::ToolCallResult;

use crate::clients::mcp_client::EMPTY;
use crate::mcp::decode_message;
use crate::values::tool_result::Parts;
use crate::zend::{Failure, Outcome, array_of, entries, int_of, member, string_of};

/// Returns the result of a call as a `ToolResult`, with an error code if the result has `isError`.
pub fn result_of_call(
    id: &str,
    name: &str,
    called: &ToolCallResult,
) -> Result<(Zval, Option<&'static str>), Failure> {
    let result = decode_message(&called.result, EMPTY)?;
    let is_error = is_error(&result);
    let code = is_error.then(|| ErrorCode::InternalError.as_str());
    let mut parts = Parts {
        success: !is_error,
        error: is_error.then(|| text_of(&result)),
        error_code: code.map(str::to_owned),
        ..Parts::new(id, name)
    };
    if let Some(mismatch) = &called.output_mismatch {
        parts.metadata = array_of([("output_mismatch", string_of(mismatch))]);
    }
    parts.result = result;
    Ok((parts.into_object()?, code))
}

/// Returns whether a tool's result has `isError`.
pub fn is_error(result: &Zval) -> bool {
    member(result, "isError").and_then(|value| value.bool()) == Some(true)
}

/// Returns the text blocks of a tool's result, one per line.
fn text_of(result: &Zval) -> String {
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

/// Creates the failed result of a call that has no result.
pub(super) fn failed_result(
    id: &str,
    name: &str,
    code: ErrorCode,
    error: String,
    retry_after: Option<Duration>,
) -> Outcome {
    let mut parts = Parts {
        success: false,
        error: Some(error),
        error_code: Some(code.as_str().to_owned()),
        ..Parts::new(id, name)
    };
    if let Some(wait) = retry_after {
        // The form is that of an executor's results.
        let seconds = i64::try_from(whole_seconds(wait)).unwrap_or(i64::MAX);
        parts.metadata = array_of([("retry_after", int_of(seconds))]);
    }
    parts.into_object()
}
