use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::result_type::result_type;
use pillion_schema::{CheckAborted, CompiledSchema, LazySchema, SchemaError, compute};

/// Maximum size of an output schema, in bytes; larger schemas are not used.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Maximum size of a result that is checked on the current thread, in bytes. A small result is
/// checked faster than another thread could be started. A schema with patterns is always checked on
/// another thread, because a match cannot be interrupted.
const MAX_INLINE_BYTES: usize = 16 * 1024;
const INLINE_TIMEOUT: Duration = Duration::from_millis(5);

/// Maximum duration of a check on another thread, if the caller's deadline allows that much.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The `outputSchema` of a tool. Compiled when the tool first returns a result.
pub(super) struct OutputSchema {
    tool: String,
    server: Arc<str>,
    /// `None` for a schema that is too large to be used.
    schema: Option<LazySchema>,
    /// Whether a warning that the schema is unusable was already logged.
    was_logged: AtomicBool,
}

impl OutputSchema {
    pub(super) fn new(tool: &str, server: &Arc<str>, schema: Box<RawValue>) -> Self {
        let is_usable = schema.get().len() <= MAX_SCHEMA_BYTES;
        Self {
            tool: tool.to_owned(),
            server: Arc::clone(server),
            schema: is_usable.then(|| LazySchema::from_text(schema, server)),
            was_logged: AtomicBool::new(false),
        }
    }

    /// Returns why the structured content of a result does not match the schema; `None` if the
    /// content matches. Also returns `None`, with a warning, if the schema cannot be used or the
    /// check has not finished by `deadline`.
    pub(super) async fn find_mismatch(
        self: &Arc<Self>,
        result: &RawValue,
        deadline: Instant,
    ) -> Option<String> {
        let Some(schema) = &self.schema else {
            self.log_unusable(&format!(
                "the output schema is larger than {MAX_SCHEMA_BYTES} bytes"
            ));
            return None;
        };
        if let Some(error) = schema.error() {
            self.log_unusable(&error.to_string());
            return None;
        }
        if result.get().len() <= MAX_INLINE_BYTES {
            let inline_check = schema.if_compiled(|schema| {
                let can_be_interrupted = !schema.has_patterns();
                can_be_interrupted.then(|| check_result(schema, result, INLINE_TIMEOUT))
            });
            match inline_check.flatten() {
                Some(Ok(mismatch)) => return mismatch,
                Some(Err(reason)) => tracing::debug!(
                    tool = self.tool, %reason,
                    "Checking a tool result against its output schema in a blocking task"
                ),
                None => {}
            }
        }
        let (output_schema, owned_result) = (Arc::clone(self), result.to_owned());
        // The check is scheduled as a task of the maximum size, because even a small schema may
        // take a long time to check.
        let blocking_check = compute::run(&self.server, usize::MAX, move || {
            output_schema.check_before_deadline(&owned_result, deadline)
        });
        let reason = match tokio::time::timeout_at(deadline, blocking_check).await {
            Ok(None) => return None,
            Ok(Some(Ok(mismatch))) => return mismatch,
            Ok(Some(Err(reason))) => reason.to_string(),
            Err(timeout_error) => timeout_error.to_string(),
        };
        tracing::warn!(
            mcp.server = %self.server,
            tool = self.tool,
            reason,
            "A tool result was not checked against the tool's output schema"
        );
        None
    }

    /// Checks a result before `deadline`. Returns `None`, with a warning, if the schema cannot be
    /// used.
    fn check_before_deadline(
        &self,
        result: &RawValue,
        deadline: Instant,
    ) -> Option<Result<Option<String>, CheckAborted>> {
        let remaining_time = || deadline.saturating_duration_since(Instant::now());
        if remaining_time().is_zero() {
            return Some(Err(CheckAborted::TimeLimit));
        }
        let compiled = self.schema.as_ref()?.compile();
        let log_error = |error: &SchemaError| self.log_unusable(&error.to_string());
        let schema = compiled.inspect_err(log_error).ok()?;
        let timeout = remaining_time().min(CHECK_TIMEOUT);
        Some(check_result(&schema, result, timeout))
    }

    /// Logs once why the schema cannot be used.
    fn log_unusable(&self, reason: &str) {
        if !self.was_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                mcp.server = %self.server,
                tool = self.tool,
                reason,
                "A tool's output schema cannot be used"
            );
        }
    }
}

fn check_result(
    schema: &CompiledSchema,
    result: &RawValue,
    timeout: Duration,
) -> Result<Option<String>, CheckAborted> {
    #[derive(Deserialize)]
    struct ResultMembers {
        #[serde(rename = "structuredContent")]
        #[serde(default, deserialize_with = "read_present")]
        structured_content: Option<Value>,
        #[serde(rename = "isError", default)]
        is_error: Value,
        /// The task that will produce the result, if the server created a task for the request (MCP
        /// 2025-11-25).
        #[serde(default)]
        task: Value,
    }
    /// Deserializes `null` as a value, to tell it from an absent member.
    fn read_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
        Value::deserialize(deserializer).map(Some)
    }
    let Ok(output) = serde_json::from_str::<ResultMembers>(result.get()) else {
        return Ok(None);
    };
    match output.structured_content {
        _ if output.is_error == Value::Bool(true) => Ok(None),
        Some(content) => schema.mismatch_within(&content, timeout),
        // An intermediate result, such as a task or a request for input, has no structured content.
        None if output.task.is_object() || result_type(result) != "complete" => Ok(None),
        None => Ok(Some(
            "the tool has an output schema, but the result has no structuredContent".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    /// Returns whether the second check of a content runs on the current thread. The compute pool's
    /// only thread is busy meanwhile.
    async fn is_checked_here(schema: &Value, content: &Value) -> bool {
        let raw_schema = to_raw_value(schema).unwrap();
        let schema = Arc::new(OutputSchema::new("tool", &Arc::from("server"), raw_schema));
        let result = to_raw_value(&json!({ "structuredContent": content })).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let first = schema.find_mismatch(&result, deadline).await;
        let (release, released) = std::sync::mpsc::sync_channel::<()>(1);
        let busy = tokio::task::spawn_blocking(move || released.recv());
        let mut second = pin!(schema.find_mismatch(&result, deadline));
        let mut context = Context::from_waker(Waker::noop());
        let polled = second.as_mut().poll(&mut context);
        drop(release);
        let (is_here, second) = match polled {
            Poll::Ready(second) => (true, second),
            Poll::Pending => (false, second.await),
        };
        busy.await.unwrap().unwrap_err();
        assert_eq!(first, second);
        is_here
    }

    #[test]
    fn only_a_final_result_needs_structured_content() {
        let schema = CompiledSchema::compile(&json!({"type": "object"})).unwrap();
        for (result, is_final) in [
            (json!({"content": []}), true),
            (json!({"content": [], "resultType": "complete"}), true),
            (
                json!({"resultType": "input_required", "requestState": "a"}),
                false,
            ),
            (json!({"task": {"taskId": "a", "status": "working"}}), false),
        ] {
            let raw = to_raw_value(&result).unwrap();
            let found = check_result(&schema, &raw, CHECK_TIMEOUT).unwrap();
            assert_eq!(found.is_some(), is_final, "{result}");
        }
    }

    #[test]
    fn schemas_with_patterns_are_checked_on_another_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let objects = |count: usize, prefix: &str| -> Value {
            let named = (0..count).map(|nth| (format!("{prefix}{nth}"), json!({})));
            Value::Object(named.collect())
        };
        runtime.block_on(async {
            // Content is not checked against an invalid schema.
            assert!(is_checked_here(&json!({"type": 5}), &json!({"a": 5})).await);
            let names = json!({"patternProperties": objects(400, "^[a-z]*x")});
            assert!(!is_checked_here(&names, &objects(400, "a")).await);
            let text = json!({"properties": {"a": {"pattern": "^a"}}});
            assert!(!is_checked_here(&text, &json!({"a": "b"})).await);
        });
    }
}
