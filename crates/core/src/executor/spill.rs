//! Results that are too large to be handed over whole.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{ExecutorConfig, output};
use crate::registry::RegisteredTool;
use crate::tool::{CallContext, ToolFailure, ToolOutput, reading_of};

/// How much of a result a preview shows at most, in bytes.
const PREVIEW: usize = 2 * 1024;

/// A result that is larger than the configuration allows.
#[derive(Debug, Clone)]
pub struct BigResult {
    /// The tool that gave it.
    pub tool: Arc<RegisteredTool>,
    /// Whose call it was.
    pub context: CallContext,
    /// The whole of it.
    pub output: ToolOutput,
}

/// Where a result is that was put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spilled {
    /// Its id.
    pub id: String,
    /// Its length.
    pub bytes: u64,
    /// Its media type.
    pub media_type: String,
    /// Where its owner fetches it.
    pub url: String,
}

/// What [`Spill::put`] returns.
pub type SpillFuture = Pin<Box<dyn Future<Output = Result<Spilled, ToolFailure>> + Send>>;

/// Puts results aside that are larger than
/// [`max_result_bytes`](super::ExecutorConfig::max_result_bytes), for their callers to fetch.
pub trait Spill: Send + Sync + 'static {
    /// Keeps it. With a failure the call fails, though its tool has run: its result is the
    /// beginning, and `truncated` in its metadata is true.
    fn put(&self, result: BigResult) -> SpillFuture;
}

/// The bound on the result of a call that has one.
pub(super) struct Bound {
    most: usize,
    context: CallContext,
}

impl Bound {
    pub(super) fn of(
        config: &ExecutorConfig,
        tool: &RegisteredTool,
        context: &CallContext,
    ) -> Option<Self> {
        if context.nesting.is_some() {
            // Whoever made the call needs the whole of it, and is held to a bound of its own.
            return None;
        }
        let most = config.max_result_bytes_of(tool.name().as_str())?;
        let context = context.clone();
        Some(Self { most, context })
    }

    /// An output as it is, or the beginning of one that is larger, with `spilled` in its
    /// metadata, which says where the whole is.
    pub(super) async fn pass(
        self,
        spill: Option<&dyn Spill>,
        tool: &Arc<RegisteredTool>,
        output: ToolOutput,
    ) -> Result<ToolOutput, ToolFailure> {
        let Self { most, context } = self;
        let size = output::size(&output);
        if size <= most {
            return Ok(output);
        }
        let beginning = beginning_of(&output.result, most.min(PREVIEW));
        let Some(spill) = spill else {
            let name = tool.name();
            let message = format!("Tool '{name}' returned {size} bytes; the limit is {most}");
            return Err(cut(ToolFailure::internal(message), beginning));
        };
        let metadata = output.metadata.clone();
        let result = BigResult {
            tool: Arc::clone(tool),
            context,
            output,
        };
        let spilled = match spill.put(result).await {
            Ok(spilled) => spilled,
            Err(failure) => return Err(cut(failure, beginning)),
        };
        let text = format!(
            "{beginning}\n[The beginning of a result of {} bytes. The whole: {}]",
            spilled.bytes, spilled.url
        );
        let place = json!({
            "id": spilled.id,
            "bytes": spilled.bytes,
            "mediaType": spilled.media_type,
            "url": spilled.url,
        });
        let preview = ToolOutput {
            metadata,
            ..ToolOutput::text(text)
        };
        Ok(preview.with_metadata("spilled", place))
    }
}

/// How large a failure may be: as an output, and as a result, but a preview at least.
pub(super) fn most_of_a_failure(
    config: &ExecutorConfig,
    tool: Option<&RegisteredTool>,
    context: &CallContext,
) -> usize {
    let bound = tool.and_then(|tool| Bound::of(config, tool, context));
    let most = bound.map_or(config.max_output_bytes, |bound| {
        bound.most.min(config.max_output_bytes)
    });
    most.max(PREVIEW)
}

/// A failure as it is, or the beginning of what it says and of its result where either is larger
/// than `most` bytes; `truncated` in its metadata is true then.
pub(super) fn shortened(mut failure: ToolFailure, most: usize) -> ToolFailure {
    let bytes = failure.message.len();
    if bytes <= most && output::json_len(&failure.result) <= most {
        return failure;
    }
    if bytes > PREVIEW {
        output::truncate(&mut failure.message, PREVIEW);
        failure.message += &format!("\n[The beginning of {bytes} bytes]");
    }
    let result = match std::mem::take(&mut failure.result) {
        Value::Null => Value::Null,
        result => beginning_of(&result, PREVIEW).into(),
    };
    cut(failure, result)
}

/// A failure whose result is the beginning of one that is lost.
fn cut(failure: ToolFailure, beginning: impl Into<Value>) -> ToolFailure {
    let failure = failure.with_result(beginning.into());
    failure.with_metadata("truncated", json!(true))
}

/// The first bytes of what a model reads of a result, in whole characters.
fn beginning_of(result: &Value, most: usize) -> String {
    let reading = reading_of(result);
    let mut text = match reading.as_ref() {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    output::truncate(&mut text, most);
    text
}
