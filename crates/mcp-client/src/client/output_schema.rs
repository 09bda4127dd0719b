use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::result_type::result_type;
use pillion_schema::{CheckAborted, CompiledSchema, LazySchema, compute};

/// Maximum size of an output schema, in bytes; larger schemas are not used.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Maximum size of a result that is checked on the current thread, in bytes: for small results,
/// starting the check on another thread takes longer. A schema with patterns is always checked on
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
    /// Whether a warning about an unusable schema was already logged.
    was_reported: AtomicBool,
}

impl OutputSchema {
    pub(super) fn new(tool: &str, server: &Arc<str>, written: Box<RawValue>) -> Self {
        let is_small = written.get().len() <= MAX_SCHEMA_BYTES;
        Self {
            tool: tool.to_owned(),
            server: Arc::clone(server),
            schema: is_small.then(|| LazySchema::from_text(written, server)),
            was_reported: AtomicBool::new(false),
        }
    }

    /// Returns why the structured content of a result does not match. Returns `None`, with a
    /// warning, if the check is not finished by `until`.
    pub(super) async fn mismatch(
        self: &Arc<Self>,
        result: &RawValue,
        until: Instant,
    ) -> Option<String> {
        let Some(schema) = &self.schema else {
            self.report(&format!("it is larger than {MAX_SCHEMA_BYTES} bytes"));
            return None;
        };
        if let Some(error) = schema.error() {
            self.report(&error.to_string());
            return None;
        }
        if result.get().len() <= MAX_INLINE_BYTES {
            let checked = schema.if_compiled(|schema| {
                let is_brief = !schema.has_patterns();
                is_brief.then(|| check(schema, result, INLINE_TIMEOUT))
            });
            match checked.flatten() {
                Some(Ok(found)) => return found,
                Some(Err(reason)) => tracing::debug!(
                    tool = self.tool, %reason,
                    "Checking a tool result in a blocking task"
                ),
                None => {}
            }
        }
        let (this, result) = (Arc::clone(self), result.to_owned());
        // The check runs as a large task whatever its size, because even a small schema may take
        // long.
        let checked = compute::run(&self.server, usize::MAX, move || {
            this.check_slowly(&result, until)
        });
        let reason = match tokio::time::timeout_at(until, checked).await {
            Ok(None) => return None,
            Ok(Some(Ok(found))) => return found,
            Ok(Some(Err(reason))) => reason.to_string(),
            Err(elapsed) => elapsed.to_string(),
        };
        tracing::warn!(
            tool = self.tool,
            reason,
            "A tool result was not checked against the tool's output schema"
        );
        None
    }

    /// Checks a result within `until`. Returns `None`, with a warning, if the schema cannot be used.
    fn check_slowly(
        &self,
        result: &RawValue,
        until: Instant,
    ) -> Option<Result<Option<String>, CheckAborted>> {
        let left = || until.saturating_duration_since(Instant::now());
        if left().is_zero() {
            return Some(Err(CheckAborted::Time));
        }
        match self.schema.as_ref()?.compile() {
            Ok(schema) => Some(check(&schema, result, left().min(CHECK_TIMEOUT))),
            Err(error) => {
                self.report(&error.to_string());
                None
            }
        }
    }

    /// Logs once why the schema cannot be used.
    fn report(&self, reason: &str) {
        if !self.was_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                tool = self.tool,
                reason,
                "A tool's output schema cannot be used"
            );
        }
    }
}

fn check(
    schema: &CompiledSchema,
    result: &RawValue,
    time: Duration,
) -> Result<Option<String>, CheckAborted> {
    #[derive(Deserialize)]
    struct Output {
        #[serde(rename = "structuredContent", default, deserialize_with = "present")]
        structured_content: Option<Value>,
        #[serde(rename = "isError", default)]
        is_error: Value,
        /// The task that produces the result later, if the request asked for a task (MCP
        /// 2025-11-25).
        #[serde(default)]
        task: Value,
    }
    /// Deserializes `null` as a value, to tell it from an absent member.
    fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
        Value::deserialize(value).map(Some)
    }
    let Ok(output) = serde_json::from_str::<Output>(result.get()) else {
        return Ok(None);
    };
    match output.structured_content {
        _ if output.is_error == Value::Bool(true) => Ok(None),
        Some(content) => schema.mismatch_within(&content, time),
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
        let schema = Arc::new(OutputSchema::new(
            "tool",
            &Arc::from("server"),
            to_raw_value(schema).unwrap(),
        ));
        let result = to_raw_value(&json!({ "structuredContent": content })).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let first = schema.mismatch(&result, until).await;
        let (release, released) = std::sync::mpsc::sync_channel::<()>(1);
        let busy = tokio::task::spawn_blocking(move || released.recv());
        let mut second = pin!(schema.mismatch(&result, until));
        let polled = second
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
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
            let found = check(&schema, &raw, CHECK_TIMEOUT).unwrap();
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
