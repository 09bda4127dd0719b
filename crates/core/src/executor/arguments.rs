//! Reads the arguments of a call, and checks them against the tool's schema.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::ExecutorConfig;
use super::fair_queue::{FairQueue, PermitRequest, QueueLimits};
use crate::registry::RegisteredTool;
use crate::tool::{CallContext, ErrorCode, JsonObject, ToolFailure, parse_arguments};
use crate::{is_lone_surrogate, json_error_text, json_values, lone_surrogates, similar_name};
use pillion_schema::compute::{self, MAX_INLINE_BYTES};
use pillion_schema::{CompiledSchema, InvalidArguments, MAX_CHECK_TIME, OptionalNull, SchemaError};

/// A null for an optional argument counts as absent: models send null for arguments that they do
/// not set.
const NULL_HANDLING: OptionalNull = OptionalNull::Absent;

/// Maximum number of unknown arguments that are compared with the names of parameters.
const MAX_UNKNOWN_ARGUMENTS: usize = 8;

/// Parsed arguments that are not validated against the schema yet.
pub(super) struct ParsedArguments {
    pub(super) arguments: JsonObject,
    /// Whether a model encoded the arguments in a form other than the one that the provider's API
    /// requires.
    pub(super) is_repaired: bool,
}

impl From<JsonObject> for ParsedArguments {
    fn from(arguments: JsonObject) -> Self {
        Self {
            arguments,
            is_repaired: false,
        }
    }
}

/// Parses arguments: an object, or a string that contains a JSON object. `null`, an empty string
/// and `[]` mean no arguments; PHP encodes an empty array as `[]` even if the array represents an
/// object. A long text is parsed on another thread when it is the turn of the caller's account.
pub(super) async fn parse(
    arguments: Value,
    context: &CallContext,
) -> Result<ParsedArguments, ToolFailure> {
    let is_by_model = context.is_by_model;
    match arguments {
        Value::String(text) if text.len() > MAX_INLINE_BYTES => {
            let account = format!("arguments of {:?}", context.quota_account());
            let bytes = text.len();
            let parse = move || parse_inline(Value::String(text), is_by_model);
            compute::run(&account, bytes, parse).await
        }
        arguments => parse_inline(arguments, is_by_model),
    }
}

fn parse_inline(arguments: Value, is_by_model: bool) -> Result<ParsedArguments, ToolFailure> {
    match arguments {
        Value::Object(arguments) => Ok(arguments.into()),
        Value::Null => Ok(JsonObject::new().into()),
        Value::Array(items) if items.is_empty() => Ok(JsonObject::new().into()),
        Value::String(text) if text.trim().is_empty() => Ok(JsonObject::new().into()),
        Value::String(text) => match json_values::from_str(&text) {
            Ok(Value::Object(arguments)) => Ok(arguments.into()),
            Ok(Value::Null) => Ok(JsonObject::new().into()),
            Ok(_) if is_by_model => match parse_arguments(&text) {
                Ok(Value::Object(arguments)) => Ok(ParsedArguments {
                    arguments,
                    is_repaired: true,
                }),
                _ => Err(not_an_object_failure()),
            },
            Ok(_) => Err(not_an_object_failure()),
            Err(error) if is_by_model && is_lone_surrogate(&error) => {
                let text = lone_surrogates::replace(&text).into_owned();
                Ok(ParsedArguments {
                    is_repaired: true,
                    ..parse_inline(Value::String(text), is_by_model)?
                })
            }
            Err(error) => Err(ToolFailure::invalid_input(format!(
                "Invalid JSON in arguments: {}",
                json_error_text(&error)
            ))),
        },
        _ => Err(not_an_object_failure()),
    }
}

fn not_an_object_failure() -> ToolFailure {
    ToolFailure::invalid_input("The arguments must be a JSON object")
}

/// Validates long arguments on separate threads, so that the threads that serve requests stay free.
/// The accounts of the callers take turns.
pub(super) struct ArgumentChecks {
    queue: Arc<FairQueue>,
}

/// Arguments that match their schema.
pub(super) struct CheckedArguments {
    pub(super) arguments: JsonObject,
    /// Whether the arguments of a model were repaired.
    pub(super) is_repaired: bool,
    /// How long the call waited for the validation of its arguments.
    pub(super) elapsed: Duration,
}

impl ArgumentChecks {
    /// Allows as many concurrent checks as there are processors. One account may run at most half
    /// of that number.
    pub(super) fn new(config: &ExecutorConfig) -> Self {
        let queue = FairQueue::new(bounds(config));
        Self { queue }
    }

    /// Applies the limits of `config` to the queue of checks, and returns an `ArgumentChecks` that
    /// uses the same queue.
    pub(super) fn reconfigured(&self, config: &ExecutorConfig) -> Self {
        self.queue.set_bounds(bounds(config));
        let queue = Arc::clone(&self.queue);
        Self { queue }
    }

    /// Checks the arguments against the tool's schema and fills in the schema's defaults, within
    /// the call's deadline. Repairs arguments that a model wrote.
    pub(super) async fn check(
        &self,
        config: &ExecutorConfig,
        tool: &Arc<RegisteredTool>,
        parsed_arguments: ParsedArguments,
        context: &CallContext,
    ) -> Result<CheckedArguments, ToolFailure> {
        let ParsedArguments {
            mut arguments,
            is_repaired,
        } = parsed_arguments;
        let brief_outcome = match tool.schema() {
            Ok(Some(schema)) => schema.validate_briefly(&mut arguments, NULL_HANDLING),
            Ok(None) => Some(Ok(())),
            Err(error) => return Err(schema_failure(tool, error)),
        };
        match brief_outcome {
            Some(Ok(())) => Ok(CheckedArguments {
                arguments,
                is_repaired,
                elapsed: Duration::ZERO,
            }),
            Some(Err(violation)) if !context.is_by_model => {
                Err(invalid_arguments_failure(tool, &arguments, &violation))
            }
            // The future is boxed, because the future of every call would be larger otherwise.
            Some(Err(_)) | None => {
                let checked_arguments =
                    Box::pin(self.check_on_thread(config, tool, arguments, context)).await;
                checked_arguments.map(|checked_arguments| CheckedArguments {
                    is_repaired: is_repaired || checked_arguments.is_repaired,
                    ..checked_arguments
                })
            }
        }
    }

    /// Compiles the schema if necessary, and checks the arguments, on another thread when it is the
    /// account's turn.
    async fn check_on_thread(
        &self,
        config: &ExecutorConfig,
        tool: &Arc<RegisteredTool>,
        mut arguments: JsonObject,
        context: &CallContext,
    ) -> Result<CheckedArguments, ToolFailure> {
        let started_at = Instant::now();
        let limit = config.timeout_of(tool);
        let deadline = started_at + limit;
        let request = PermitRequest::for_local(tool, context.quota_account());
        let max_wait = config.queue_timeout;
        let permit = self.queue.acquire(request, max_wait, deadline).await?;
        let thread_tool = Arc::clone(tool);
        let is_by_model = context.is_by_model;
        let check = spawn_blocking(move || {
            // The permit is held until the check has ended, even if the call is dropped before
            // that.
            let _permit = permit;
            let compiled_schema = match compile_schema(&thread_tool) {
                Ok(compiled_schema) => compiled_schema,
                Err(failure) => return (arguments, Err(failure)),
            };
            let max_time = deadline
                .saturating_duration_since(Instant::now())
                .min(MAX_CHECK_TIME);
            let check_outcome = compiled_schema.map_or(Ok(Ok(false)), |schema| {
                if is_by_model {
                    return schema.repair_within(&mut arguments, NULL_HANDLING, max_time);
                }
                let validation = schema.validate_within(&mut arguments, NULL_HANDLING, max_time);
                validation.map(|validation| validation.map(|()| false))
            });
            (arguments, Ok(check_outcome))
        });
        match timeout_at(deadline, check).await {
            Ok(Ok((arguments, Ok(Ok(Ok(is_repaired)))))) => Ok(CheckedArguments {
                arguments,
                is_repaired,
                elapsed: started_at.elapsed(),
            }),
            Ok(Ok((arguments, Ok(Ok(Err(violation)))))) => {
                Err(invalid_arguments_failure(tool, &arguments, &violation))
            }
            Ok(Ok((_, Ok(Err(check_error))))) if Instant::now() < deadline => {
                let violation = format!("Invalid value for arguments: {check_error}");
                Err(ToolFailure::invalid_input(violation))
            }
            Ok(Ok((_, Err(failure)))) => Err(failure),
            Ok(Err(join_error)) => {
                tracing::error!(
                    tool.name = %tool.name(), error = %join_error,
                    "Validating the arguments of a tool call failed unexpectedly"
                );
                Err(ToolFailure::internal(format!(
                    "Validating the arguments of tool '{}' failed unexpectedly",
                    tool.name()
                )))
            }
            Ok(Ok((_, Ok(Err(_))))) | Err(_) => {
                Err(ToolFailure::timed_out(tool.name(), tool.origin(), limit))
            }
        }
    }
}

/// Returns the failure for arguments that violate the schema. Names an argument that the tool does
/// not have, if it is probably a misspelled parameter.
fn invalid_arguments_failure(
    tool: &RegisteredTool,
    arguments: &JsonObject,
    violation: &InvalidArguments,
) -> ToolFailure {
    let schema = tool.tool().definition().input_schema();
    let parameters = schema.get("properties").and_then(Value::as_object);
    let is_parameter = |name: &str| parameters.is_some_and(|members| members.contains_key(name));
    let missing_parameters = || {
        let parameter_names = parameters.into_iter().flat_map(serde_json::Map::keys);
        let names = parameter_names.filter(|name| !arguments.contains_key(*name));
        names.map(String::as_str)
    };
    let unknown_arguments = arguments.keys().filter(|name| !is_parameter(name));
    let misspelling = unknown_arguments
        .take(MAX_UNKNOWN_ARGUMENTS)
        .find_map(|name| Some((name, similar_name(name, missing_parameters())?)));
    ToolFailure::invalid_input(match misspelling {
        Some((name, parameter)) => {
            format!("{violation} (there is no parameter '{name}': did you mean '{parameter}'?)")
        }
        None => violation.to_string(),
    })
}

/// Returns the compiled schema of a tool; `None` if only the tool's server validates the arguments,
/// because the schema is invalid.
fn compile_schema(tool: &RegisteredTool) -> Result<Option<Arc<CompiledSchema>>, ToolFailure> {
    let Some(schema) = tool.schema().map_err(|error| schema_failure(tool, error))? else {
        return Ok(None);
    };
    let had_error = schema.error().is_some();
    match schema.compile() {
        Ok(compiled_schema) => Ok(Some(compiled_schema)),
        Err(error) if tool.origin().is_mcp() && !error.exceeds_limit() => {
            if !had_error {
                let name = tool.name();
                tracing::warn!(
                    tool.name = %name, %error,
                    "The schema of MCP tool `{name}` cannot be compiled; its arguments are not \
                    validated"
                );
            }
            Ok(None)
        }
        Err(error) => Err(schema_failure(tool, &error)),
    }
}

fn schema_failure(tool: &RegisteredTool, error: &SchemaError) -> ToolFailure {
    let (name, reason) = (tool.name(), &error.reason);
    let message = format!("The arguments of tool '{name}' cannot be validated: {reason}");
    ToolFailure::new(ErrorCode::Unavailable, message)
}

fn bounds(config: &ExecutorConfig) -> QueueLimits {
    let processors = available_parallelism().map_or(1, NonZeroUsize::get);
    let max_running = processors.max(2);
    QueueLimits::by_account(max_running, max_running / 2, config.max_queued)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::executor::Executor;
    use crate::registry::ToolRegistry;
    use crate::tests::{add_echo, assert_failure, call};
    use crate::tool::{ToolDefinition, ToolResult};

    /// Returns a schema of which each level doubles the work, so that no check finishes.
    fn endless(levels: usize) -> Value {
        let mut definitions = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
        }
        definitions.insert(format!("d{levels}"), json!({"type": "integer"}));
        json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
    }

    /// Returns an executor with the tools `hard`, `long` (which takes large arguments) and `easy`.
    fn executor(config: ExecutorConfig) -> Executor {
        let registry = ToolRegistry::new();
        let text = json!({"properties": {"a": {"type": "string"}}});
        for (name, schema) in [
            ("hard", endless(60)),
            ("long", text.clone()),
            ("easy", text),
        ] {
            let builder = ToolDefinition::builder(name, "Works").schema(schema);
            add_echo(&registry, builder.build().unwrap());
        }
        Executor::new(Arc::new(registry), config)
    }

    async fn run(executor: &Executor, user: &str, tool: &str, a: &str) -> ToolResult {
        let context = CallContext::for_user(user);
        call(executor, tool, json!({ "a": a }), &context).await
    }

    #[tokio::test]
    async fn c3_an_endless_argument_check_delays_no_other_call() {
        let executor = executor(ExecutorConfig {
            timeout: Duration::from_secs(20),
            ..ExecutorConfig::default()
        });
        let large = "x".repeat(100_000);
        let mut hostile = Vec::new();
        for _ in 0..40 {
            let executor = executor.clone();
            let call = async move { run(&executor, "mallory", "hard", "x").await };
            hostile.push(tokio::spawn(call));
        }
        tokio::task::yield_now().await;
        let started_at = Instant::now();
        // One check runs on this thread, another check needs another thread.
        for (tool, a) in [("easy", "x"), ("long", large.as_str()), ("easy", "x")] {
            assert!(run(&executor, "alice", tool, a).await.success);
        }
        assert!(started_at.elapsed() < Duration::from_secs(1));
        assert!(hostile.iter().all(|call| !call.is_finished()));
        hostile.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn c2_the_argument_check_counts_for_the_deadline() {
        let timeouts = [("hard".to_owned(), Duration::from_millis(200))];
        let config = ExecutorConfig {
            tool_timeouts: timeouts.into(),
            ..ExecutorConfig::default()
        };
        let executor = executor(config);
        let result = run(&executor, "mallory", "hard", "x").await;
        let expected = "Tool 'hard' timed out after 0.2s";
        assert_failure(&result, ErrorCode::Timeout, expected);
        // With a longer deadline, the check stops before the deadline.
        let executor = self::executor(ExecutorConfig::default());
        let result = run(&executor, "mallory", "hard", "x").await;
        assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
        let expected =
            "Invalid value for arguments: checking the value against its schema takes too long";
        assert_eq!(result.error.as_deref(), Some(expected));
    }

    #[tokio::test]
    async fn null_for_an_optional_parameter_counts_as_omitted() {
        let registry = ToolRegistry::new();
        for (name, strict) in [("strict", true), ("lax", false)] {
            let schema = json!({"properties": {
                "unit": {"type": "string", "default": "m"},
                "note": {"type": "string"},
                "by": {"type": ["string", "null"]},
                "to": {"type": "string"},
            }, "required": ["to"]});
            let builder = ToolDefinition::builder(name, "Shows").schema(schema);
            let definition = builder.strict(strict).build().unwrap();
            add_echo(&registry, definition);
        }
        let executor = Executor::new(Arc::new(registry), ExecutorConfig::default());
        let run = async |name: &str, to: Value| {
            let arguments = json!({"unit": null, "note": null, "by": null, "to": to});
            let text = json!(arguments.to_string());
            call(&executor, name, text, &CallContext::default()).await
        };
        for name in ["strict", "lax"] {
            let shown = run(name, json!("a")).await;
            let expected = json!({"by": null, "to": "a", "unit": "m"});
            assert_eq!(shown.result, expected, "{name}: {shown:?}");
            let error = run(name, Value::Null).await.error;
            let expected = "Invalid type for to: expected string";
            assert_eq!(error.as_deref(), Some(expected), "{name}");
        }
    }
}
