//! Limits outputs: rejects an output that is too large for the executor, and offloads a result that
//! is too large for its caller.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pillion_deadline::timeout_at;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ExecutorConfig;
use crate::registry::RegisteredTool;
use crate::tool::{CallContext, ErrorCode, ToolFailure, ToolName, ToolOutput, extract_reading};

/// Maximum size of the preview of an offloaded result, in bytes.
const MAX_PREVIEW_BYTES: usize = 2 * 1024;

/// A result that is larger than the configured maximum.
#[derive(Debug, Clone)]
pub struct OversizedResult {
    /// The tool that returned the result.
    pub tool: Arc<RegisteredTool>,
    /// The context of the call, as set by the caller.
    pub context: CallContext,
    /// The complete output of the tool.
    pub output: ToolOutput,
}

/// Reference to an offloaded result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    /// ID of the stored result.
    pub id: String,
    /// Size of the stored result, in bytes.
    pub bytes: u64,
    /// Media type of the stored result.
    pub media_type: String,
    /// URL from which the owner can fetch the stored result.
    pub url: String,
}

/// The return type of [`ResultStore::put`].
pub type StoreResultFuture =
    Pin<Box<dyn Future<Output = Result<StoredResult, ToolFailure>> + Send>>;

/// Stores results larger than [`max_result_bytes`](super::ExecutorConfig::max_result_bytes), so
/// that the caller can fetch them.
pub trait ResultStore: Send + Sync + 'static {
    /// Stores a result. On failure the call fails, although its tool has run; the call's result is
    /// then the beginning of the output, with `truncated: true` in the metadata.
    fn put(&self, result: OversizedResult) -> StoreResultFuture;
}

/// Returns the maximum size of a call's result, in bytes; `None` for no maximum.
pub(super) fn max_result_bytes(
    config: &ExecutorConfig,
    tool: &RegisteredTool,
    context: &CallContext,
) -> Option<usize> {
    if context.nesting.is_some() {
        // The result of a nested call has no limit: the calling tool needs the complete result, and
        // the result of the calling tool is limited instead.
        return None;
    }
    config.max_tool_result_bytes(tool.name().as_str())
}

/// Why a result is stored instead of returned.
#[derive(Clone, Copy)]
pub(super) enum Excess {
    /// The result is larger than this maximum, in bytes.
    Size(usize),
    /// No memory could be reserved for the result, because results that clients have not read yet
    /// use the memory.
    Memory,
}

impl Excess {
    /// Returns why an output cannot be returned to its caller; `None` if the output can be
    /// returned.
    pub(super) fn for_output(
        output: &ToolOutput,
        max_result_bytes: Option<usize>,
        has_memory: bool,
    ) -> Option<Self> {
        if !has_memory {
            return Some(Self::Memory);
        }
        let exceeded_limit = max_result_bytes.filter(|max_bytes| size(output) > *max_bytes);
        exceeded_limit.map(Self::Size)
    }

    fn max_preview_bytes(self) -> usize {
        match self {
            Self::Size(max_bytes) => max_bytes.min(MAX_PREVIEW_BYTES),
            Self::Memory => MAX_PREVIEW_BYTES,
        }
    }

    /// Returns the failure of a call whose output of `bytes` bytes cannot be stored.
    fn no_store_failure(self, name: &ToolName, bytes: usize) -> ToolFailure {
        ToolFailure::internal(match self {
            Self::Size(max_bytes) => too_large_message(name, bytes, max_bytes),
            Self::Memory => format!(
                "Tool '{name}' has run, but its result of {bytes} bytes is lost: too many bytes of \
                 results wait for clients that read slowly"
            ),
        })
    }
}

/// Stores a result, and returns its beginning, with a reference to the stored result as
/// `stored_result` in the metadata.
///
/// # Errors
/// The result cannot be stored. The failure contains the beginning of the result.
pub(super) async fn offload(
    result_store: Option<&dyn ResultStore>,
    result: OversizedResult,
    excess: Excess,
    response_deadline: Instant,
) -> Result<ToolOutput, ToolFailure> {
    let beginning = create_preview(&result.output.result, excess.max_preview_bytes());
    let name = result.tool.name().clone();
    let Some(result_store) = result_store else {
        let failure = excess.no_store_failure(&name, size(&result.output));
        return Err(mark_truncated(failure, beginning));
    };
    let metadata = result.output.metadata.clone();
    let store_outcome = timeout_at(response_deadline, result_store.put(result)).await;
    let stored_result = match store_outcome.unwrap_or_else(|_| Err(late_failure(&name))) {
        Ok(stored_result) => stored_result,
        Err(failure) => return Err(mark_truncated(failure, beginning)),
    };
    let text = format!(
        "{beginning}\n[Truncated: the result has {} bytes. Full result: {}]",
        stored_result.bytes, stored_result.url
    );
    let reference = json!({
        "id": stored_result.id,
        "bytes": stored_result.bytes,
        "mediaType": stored_result.media_type,
        "url": stored_result.url,
    });
    let preview = ToolOutput {
        metadata,
        ..ToolOutput::text(text)
    };
    Ok(preview.with_metadata("stored_result", reference))
}

fn late_failure(name: &ToolName) -> ToolFailure {
    let message = format!(
        "Tool '{name}' has run, but its result is too large to return and could not be stored \
         before the call's deadline"
    );
    ToolFailure::new(ErrorCode::Unavailable, message)
}

/// Returns the maximum size of a failure: the smaller of the limits for outputs and results, but at
/// least the size of a preview.
pub(super) fn max_failure_bytes(
    config: &ExecutorConfig,
    tool: Option<&RegisteredTool>,
    context: &CallContext,
) -> usize {
    let max_result = tool.and_then(|tool| max_result_bytes(config, tool, context));
    max_result
        .unwrap_or(config.max_output_bytes)
        .min(config.max_output_bytes)
        .max(MAX_PREVIEW_BYTES)
}

/// Returns the failure unchanged, or cuts its message and result if either is larger than
/// `max_bytes` bytes, with `truncated: true` in the metadata.
pub(super) fn shorten_failure(mut failure: ToolFailure, max_bytes: usize) -> ToolFailure {
    let bytes = failure.message.len();
    if bytes <= max_bytes && json_len(&failure.result) <= max_bytes {
        return failure;
    }
    if bytes > MAX_PREVIEW_BYTES {
        truncate(&mut failure.message, MAX_PREVIEW_BYTES);
        failure.message += &format!("\n[Truncated: {bytes} bytes in total]");
    }
    let result = match std::mem::take(&mut failure.result) {
        Value::Null => Value::Null,
        result => create_preview(&result, MAX_PREVIEW_BYTES).into(),
    };
    mark_truncated(failure, result)
}

/// Returns a failure whose result is the beginning of a lost result. The server's response is
/// removed from the failure, because it is as large as the lost result.
fn mark_truncated(failure: ToolFailure, beginning: impl Into<Value>) -> ToolFailure {
    let mut failure = failure.with_result(beginning.into());
    failure.response = None;
    failure.with_metadata("truncated", json!(true))
}

/// Returns the first `max_bytes` bytes, at most, of a result's text for models, cut at a character
/// boundary.
fn create_preview(result: &Value, max_bytes: usize) -> String {
    let reading = extract_reading(result);
    let mut text = match reading.as_ref() {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    truncate(&mut text, max_bytes);
    text
}

/// Rejects an output of `size` bytes if that is more than `limit`, because a later stage would
/// truncate the output without an explanation.
pub(super) fn check_size(
    tool: &RegisteredTool,
    output: ToolOutput,
    size: usize,
    limit: usize,
) -> Result<ToolOutput, ToolFailure> {
    if size > limit {
        let message = too_large_message(tool.name(), size, limit);
        return Err(ToolFailure::internal(message));
    }
    Ok(output)
}

fn too_large_message(name: &ToolName, bytes: usize, max_bytes: usize) -> String {
    format!("Tool '{name}' returned {bytes} bytes; the limit is {max_bytes}")
}

/// Returns the size of an output's result and data together, in bytes.
pub(super) fn size(output: &ToolOutput) -> usize {
    json_len(&output.result) + output.data.as_ref().map_or(0, json_len)
}

/// Truncates a text to at most `max_bytes` bytes, at a character boundary.
pub(super) fn truncate(text: &mut String, max_bytes: usize) {
    let end_index = crate::truncated(text, max_bytes).len();
    text.truncate(end_index);
}

/// Returns the approximate size of `value` as JSON, in bytes, without serializing it. Escaped
/// characters count as one character.
pub(super) fn json_len(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| json_len(item) + 1).sum::<usize>(),
        Value::Object(entries) => {
            let entry_len = |(key, value): (&String, &Value)| key.len() + json_len(value) + 4;
            2 + entries.iter().map(entry_len).sum::<usize>()
        }
    }
}
