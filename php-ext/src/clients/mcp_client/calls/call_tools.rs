//! `callTools`: runs several tool calls concurrently.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use ext_php_rs::types::Zval;
use futures_util::{StreamExt, stream};
use pillion_core::tool::ErrorCode;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::call_events::{dispatch_end, dispatch_failure, dispatch_start};
use super::results::{new_failed_result, result_of_call};
use super::spec::{CallError, CallOutcome, ToolCallSpec, call_with_cancellation, new_id};
use crate::clients::mcp_client::link_and_hooks;
use crate::clients::mcp_client::options::CallOptions;
use crate::exception;
use crate::exception::run_during_failure;
use crate::mcp::hooks::Hooks;
use crate::mcp::{ProgressReceiver, ServerLink, describe_type};
use crate::values::tool_call::to_tool_call;
use crate::zend::{
    Failure, MethodCall, Object, Outcome, Result, entries, member, new_list, new_string, with_entry,
};

/// Runs tool calls concurrently. A failed call has a failed result instead of an exception.
pub(super) fn call_tools(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    let supported_options = [
        "timeout",
        "on_progress",
        "cancellation",
        "meta",
        "max_concurrent",
    ];
    let options = CallOptions::from_argument(call, 1, &supported_options)?;
    let mut ids = Vec::new();
    let mut names = Vec::new();
    let mut specs = Vec::new();
    for (_, entry) in entries(call.array(0)?) {
        let (id, name, arguments) = read_call(&entry, ids.len())?;
        let spec = arguments.map(|arguments| ToolCallSpec {
            id: id.clone(),
            name: name.clone(),
            arguments,
        });
        specs.push(spec);
        ids.push(id);
        names.push(name);
    }
    let progress_receiver = options.progress_receiver(&ids);
    let started_at = Instant::now();
    let mut started_count = 0;
    let outcome = (ids.iter().zip(&names))
        .try_for_each(|(id, name)| {
            started_count += 1;
            dispatch_start(link, hooks, (id, name))
        })
        .and_then(|()| run_all(link, hooks, &options, progress_receiver.as_ref(), specs))
        .and_then(|timed_outcomes| {
            let calls = ids.iter().zip(&names).zip(timed_outcomes);
            let results = calls.map(|((id, name), (outcome, duration))| {
                let (result, code) = to_result(id, name, outcome)?;
                Ok((result, code, duration))
            });
            results.collect::<Result<Vec<_>>>()
        });
    let mut calls = ids
        .iter()
        .map(String::as_str)
        .zip(names.iter().map(String::as_str));
    let mut failure = None;
    let mut results = Vec::with_capacity(ids.len());
    match outcome {
        Ok(timed_results) => {
            for (call, (result, code, duration)) in calls.zip(timed_results) {
                results.push(result);
                let dispatch = || dispatch_end(link, hooks, call, code, duration);
                failure = match failure {
                    None => dispatch().err(),
                    Some(failure) => Some(run_during_failure(failure, |_| dispatch())),
                };
            }
        }
        Err(cause) => {
            let duration = started_at.elapsed();
            let dispatch = |cause, call| dispatch_failure(link, hooks, call, cause, duration);
            failure = Some(calls.by_ref().take(started_count).fold(cause, dispatch));
        }
    }
    failure.map_or_else(|| Ok(new_list(results)), Err)
}

/// Runs at most `max_concurrent` calls at a time. Returns the outcome and duration of each call, in
/// the order of the calls.
fn run_all(
    link: &ServerLink,
    hooks: Hooks<'_>,
    options: &CallOptions,
    progress_receiver: Option<&ProgressReceiver<'_>>,
    specs: Vec<Result<ToolCallSpec, String>>,
) -> Result<Vec<(CallOutcome, Duration)>> {
    let indexed_outcomes = link.run(hooks, "tools/call", progress_receiver, |client, handle| {
        let calls: Vec<_> = specs
            .into_iter()
            .enumerate()
            .map(|(index, spec)| {
                let mut request = options.request.clone();
                request.on_progress = progress_receiver.map(|_| handle.progress_callback(index));
                let (client, cancellation) = (client.clone(), options.cancellation.clone());
                async move {
                    let started_at = Instant::now();
                    let outcome = match spec {
                        Ok(spec) => {
                            call_with_cancellation(client, spec, request, cancellation).await
                        }
                        Err(reason) => Err(CallError::InvalidArguments(reason)),
                    };
                    (index, (outcome, started_at.elapsed()))
                }
            })
            .collect();
        let max_concurrent = options.max_concurrent;
        async move {
            let outcomes = stream::iter(calls).buffer_unordered(max_concurrent);
            Ok::<_, Infallible>(outcomes.collect::<Vec<_>>().await)
        }
    })?;
    let mut sorted_outcomes = match indexed_outcomes {
        Ok(outcomes) => outcomes,
        Err(never) => match never {},
    };
    sorted_outcomes.sort_unstable_by_key(|(index, _)| *index);
    Ok((sorted_outcomes.into_iter())
        .map(|(_, timed_outcome)| timed_outcome)
        .collect())
}

/// Returns the result of one call of a batch, and the error code if the call failed. A failed call
/// has a failed result.
fn to_result(id: &str, name: &str, outcome: CallOutcome) -> Result<(Zval, Option<&'static str>)> {
    match outcome {
        Ok(call_result) => match result_of_call(id, name, &call_result) {
            Err(Failure::Exception(exception)) => {
                let code = ErrorCode::InternalError;
                let result = new_failed_result(id, name, code, exception.message, None)?;
                Ok((result, Some(code.as_str())))
            }
            converted => converted,
        },
        Err(error) => {
            let retry_after = match &error {
                CallError::Mcp(error) => error.retry_after(),
                _ => None,
            };
            let code = error.code();
            let result = new_failed_result(id, name, code, error.to_string(), retry_after)?;
            Ok((result, Some(code.as_str())))
        }
    }
}

/// Reads the ID, the tool name and the arguments of one call of a batch. The call is a `ToolCall`,
/// or an array whose `id` is optional. Invalid arguments fail only this call, because they may come
/// from a model.
fn read_call(item: &Zval, index: usize) -> Result<(String, String, Result<Box<RawValue>, String>)> {
    let is_call = Object::from_value(item).is_some() || item.is_array();
    if !is_call {
        return Err(exception::invalid_input(format!(
            "$calls must be a list of Pillion\\ToolCall or arrays; entry {index} is {}",
            describe_type(item)
        )));
    }
    let has_id = !item.is_array() || member(item, "id").is_some();
    let entry_with_id = if has_id {
        item.shallow_clone()
    } else {
        with_entry(item, "id", new_string(new_id()))
    };
    let call = to_tool_call(&entry_with_id).map_err(|failure| match failure {
        Failure::Exception(mut exception) => {
            exception.message = format!("$calls, entry {index}: {}", exception.message);
            Failure::Exception(exception)
        }
        failure => failure,
    })?;
    let parsed_arguments = match call.arguments {
        Value::String(json) if json.trim().is_empty() => Ok(Value::Null),
        Value::String(json) => {
            serde_json::from_str(&json).map_err(|error| format!("Invalid JSON arguments: {error}"))
        }
        value => Ok(value),
    };
    let argument_object = parsed_arguments.and_then(|arguments| match arguments {
        Value::Object(_) => Ok(arguments),
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Array(items) if items.is_empty() => Ok(Value::Object(serde_json::Map::new())),
        _ => Err("The arguments must be an object".to_owned()),
    });
    let arguments = argument_object
        .and_then(|arguments| to_raw_value(&arguments).map_err(|error| error.to_string()));
    Ok((call.id, call.name, arguments))
}
