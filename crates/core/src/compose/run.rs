//! Runs a composition.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::checkpoint::{CheckpointStore, StepCheckpoint};
use super::condition::ConditionError;
use super::pointer::{Pointer, PointerRoot};
use super::step::{Step, StepCall};
use super::template::{ReferenceScope, Template};
use super::{Composition, CompositionOutput};
use crate::digest::sha256_hex;
use crate::tool::{
    CallContext, ErrorCode, JsonObject, NestedCallHandle, ToolCall, ToolFailure, ToolOutput,
    ToolResult,
};

/// The run of a composed tool in one call.
struct ComposedRun<'a> {
    composition: &'a Composition,
    context: &'a CallContext,
    calls: &'a NestedCallHandle,
    input: Value,
    state: Mutex<RunState>,
}

#[derive(Default)]
struct RunState {
    /// The values of the finished steps, by name.
    values: HashMap<String, Value>,
    /// Information about the finished steps, in the order in which they finished.
    step_reports: Vec<Value>,
}

type StepFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ToolFailure>> + Send + 'a>>;

/// Runs the steps that earlier calls have not finished, and creates the output.
pub(super) async fn run(
    composition: &Composition,
    checkpoints: &dyn CheckpointStore,
    arguments: JsonObject,
    context: CallContext,
) -> Result<ToolOutput, ToolFailure> {
    let Some(calls) = &context.nested_calls else {
        let message = "A composed tool can only run in an executor";
        return Err(ToolFailure::internal(message));
    };
    let input = Value::Object(arguments);
    let key = checkpoint_key(composition, &input, &context);
    let checkpoint = checkpoints.take(key.clone()).await?;
    let run = ComposedRun {
        composition,
        context: &context,
        calls,
        input,
        state: Mutex::new(RunState::from_checkpoint(checkpoint.as_ref())),
    };
    match run.run_sequence(&composition.steps).await {
        Ok(()) => {
            let output = run.create_output()?;
            Ok(run.add_step_metadata(output, checkpoint.as_ref()))
        }
        Err(failure) if failure.code == ErrorCode::ApprovalRequired => {
            Err(run.suspend(checkpoints, key, checkpoint, failure).await)
        }
        Err(failure) => {
            if let Some(checkpoint) = checkpoint.filter(|_| run.is_rejected_resume(&failure)) {
                // A failure to save the checkpoint is ignored: the results of the finished steps
                // are then lost, as they are when a step fails.
                drop(checkpoints.save(key, checkpoint).await);
            }
            Err(failure)
        }
    }
}

/// Returns the checkpoint key for these arguments and this caller. The key depends on the tools
/// that the caller may use, because other callers must not see the results of those tools.
fn checkpoint_key(composition: &Composition, input: &Value, context: &CallContext) -> String {
    let mut call = json!({
        "arguments": input,
        "caller": context.nested_call_identity(),
        "composition": composition.digest(),
    });
    call.sort_all_objects();
    sha256_hex(&call.to_string())
}

impl RunState {
    fn from_checkpoint(checkpoint: Option<&StepCheckpoint>) -> Self {
        let steps = checkpoint.map(|checkpoint| checkpoint.steps.clone());
        Self {
            values: steps.into_iter().flatten().collect(),
            step_reports: Vec::new(),
        }
    }
}

impl ComposedRun<'_> {
    fn run_sequence<'a>(&'a self, steps: &'a [Step]) -> StepFuture<'a> {
        Box::pin(async move {
            for step in steps {
                self.run_step(step).await?;
            }
            Ok(())
        })
    }

    fn run_step<'a>(&'a self, step: &'a Step) -> StepFuture<'a> {
        match step {
            Step::Call(call) => Box::pin(self.run_call(call)),
            Step::Sequence(steps) => self.run_sequence(steps),
            Step::Parallel(steps) => Box::pin(self.run_parallel(steps)),
            Step::If {
                condition,
                then,
                otherwise,
                path,
            } => Box::pin(async move {
                let is_met = self
                    .with_scope(|scope| condition.is_met(scope))
                    .map_err(|error| self.condition_failure(path, &error))?;
                self.run_sequence(if is_met { then } else { otherwise })
                    .await
            }),
        }
    }

    /// Runs steps in parallel. A failure of one step does not abort the other steps, because the
    /// outcome of an aborted step would be unknown. If several steps fail, returns the first
    /// failure that is not a missing approval; if all of these steps lack an approval, returns the
    /// first failure.
    async fn run_parallel(&self, steps: &[Step]) -> Result<(), ToolFailure> {
        let outcomes = join_all(steps.iter().map(|step| self.run_step(step))).await;
        let failures = outcomes.into_iter().filter_map(Result::err);
        let needs_approval = |failure: &ToolFailure| failure.code == ErrorCode::ApprovalRequired;
        match failures.min_by_key(needs_approval) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    async fn run_call(&self, call: &StepCall) -> Result<(), ToolFailure> {
        if self.state.lock().values.contains_key(&call.name) {
            return Ok(()); // An earlier call has finished this step.
        }
        let arguments = self
            .with_scope(|scope| call.arguments.fill(scope))
            .map_err(|pointer| self.missing_value_failure(&format!("'{}'", call.name), &pointer))?;
        let id = format!("{}/{}", self.context.call_id, call.name);
        let is_granted = self.composition.grants.contains(&call.tool);
        let tool_call = ToolCall::new(id, &call.tool, arguments);
        let context = self.context.clone();
        let result = self.calls.run(tool_call, context, is_granted).await;
        if !result.success {
            return Err(step_failure(call, result));
        }
        let mut state = self.state.lock();
        state.step_reports.push(step_metadata(call, &result));
        state.values.insert(call.name.clone(), step_value(result));
        Ok(())
    }

    fn with_scope<T>(&self, read: impl FnOnce(&ReferenceScope<'_>) -> T) -> T {
        let state = self.state.lock();
        read(&ReferenceScope {
            input: &self.input,
            steps: &state.values,
        })
    }

    fn create_output(&self) -> Result<ToolOutput, ToolFailure> {
        match &self.composition.output {
            CompositionOutput::Template(template) => {
                let value = self
                    .with_scope(|scope| Template::fill(template, scope))
                    .map_err(|pointer| self.missing_value_failure("output", &pointer))?;
                Ok(ToolOutput::value(value))
            }
            CompositionOutput::Step(name) => {
                let mut value = self.state.lock().values.remove(name).unwrap_or_default();
                let mut output = ToolOutput::value(value["result"].take());
                let data = value["data"].take();
                output.data = (data != output.result).then_some(data);
                Ok(output)
            }
        }
    }

    /// Adds the reports of the finished steps to the metadata of the output.
    fn add_step_metadata(
        &self,
        output: ToolOutput,
        checkpoint: Option<&StepCheckpoint>,
    ) -> ToolOutput {
        let output_with_steps =
            output.with_metadata("steps", json!(self.state.lock().step_reports));
        let Some(checkpoint) = checkpoint else {
            return output_with_steps;
        };
        let resumed_steps: Vec<_> = checkpoint.steps.keys().collect();
        let resumption = json!({"call": checkpoint.call, "steps": resumed_steps});
        output_with_steps.with_metadata("resumed", resumption)
    }

    /// Returns whether a resumed call failed as `rate_limited` or `unavailable` before any further
    /// step finished, and thus changed nothing.
    fn is_rejected_resume(&self, failure: &ToolFailure) -> bool {
        let code = failure.code;
        let is_temporary = matches!(code, ErrorCode::RateLimited | ErrorCode::Unavailable);
        is_temporary && self.state.lock().step_reports.is_empty()
    }

    /// Stores a checkpoint of the finished steps while a step waits for an approval. Returns
    /// `failure` with `steps_kept` in the metadata: whether the checkpoint was stored.
    async fn suspend(
        &self,
        checkpoints: &dyn CheckpointStore,
        key: String,
        checkpoint: Option<StepCheckpoint>,
        failure: ToolFailure,
    ) -> ToolFailure {
        let values = std::mem::take(&mut self.state.lock().values);
        let earlier_call = checkpoint.and_then(|checkpoint| checkpoint.call);
        let current_call = self.context.record.map(|record| record.to_string());
        let new_checkpoint = StepCheckpoint {
            call: earlier_call.or(current_call),
            steps: values.into_iter().collect(),
        };
        let save_outcome = checkpoints.save(key, new_checkpoint).await;
        if let Err(error) = &save_outcome {
            let tool_name = self.composition.definition().name();
            tracing::warn!(
                tool.name = %tool_name, %error,
                "Cannot save the finished steps of a composed call that waits for an approval"
            );
        }
        failure.with_metadata("steps_kept", json!(save_outcome.is_ok()))
    }

    fn condition_failure(&self, path: &str, error: &ConditionError) -> ToolFailure {
        match error {
            ConditionError::MissingValue(pointer) => {
                self.missing_value_failure(&format!("{path}.if"), pointer)
            }
            ConditionError::WrongType(reason) => {
                ToolFailure::internal(format!("Step {path}.if: {reason}"))
            }
        }
    }

    /// Creates the failure for a reference that points to nothing.
    fn missing_value_failure(&self, path: &str, pointer: &Pointer) -> ToolFailure {
        let message = format!("Step {path}: no value at {pointer}");
        match pointer.source {
            PointerRoot::Input => ToolFailure::invalid_input(message),
            PointerRoot::Step(_) => ToolFailure::internal(message),
        }
    }
}

/// Returns the value of a finished step, to which references of later steps point.
fn step_value(result: ToolResult) -> Value {
    let text = result.text();
    let structured_content = || result.result.get("structuredContent").cloned();
    let data = match result.data {
        Some(data) => data,
        None => structured_content().unwrap_or_else(|| result.result.clone()),
    };
    json!({"result": result.result, "data": data, "text": text})
}

/// Returns the information about a step for the outer call's metadata.
fn step_metadata(call: &StepCall, result: &ToolResult) -> Value {
    json!({
        "name": call.name,
        "tool": call.tool,
        "record_id": result.metadata.get("record_id"),
        "execution_time": result.metadata.get("execution_time"),
    })
}

/// Converts the failure of a step to the failure of the outer call, with the step's name and error
/// code, and the metadata that a caller needs to continue.
fn step_failure(call: &StepCall, result: ToolResult) -> ToolFailure {
    const FORWARDED_KEYS: [&str; 4] = [
        "approval_id",
        "approval_expires_at",
        "arguments",
        "retry_after",
    ];
    let code = result.error_code.unwrap_or(ErrorCode::InternalError);
    let error = result.error_text();
    let mut failure = ToolFailure::new(code, format!("Step '{}': {error}", call.name));
    for key in FORWARDED_KEYS {
        if let Some(value) = result.metadata.get(key) {
            failure = failure.with_metadata(key, value.clone());
        }
    }
    failure
        .with_metadata("step", step_metadata(call, &result))
        .with_result(result.result)
}

#[cfg(test)]
mod tests;
