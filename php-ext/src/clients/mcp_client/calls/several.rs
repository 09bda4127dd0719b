//! `callTools`: several concurrent calls.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use ext_php_rs::types::Zval;
use futures_util::{StreamExt, stream};
use pillion_core::tool::ErrorCode;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::call_events::{dispatch_end, dispatch_failure, dispatch_start};
use super::results::{failed_result, result_of_call};
use super::spec::{CallError, CallOutcome, ToolCallSpec, call_with_cancellation, new_id};
use crate::clients::mcp_client::options::CallOptions;
use crate::clients::mcp_client::parts;
use crate::exception;
use crate::exception::run_during_failure;
use crate::mcp::hooks::Hooks;
use crate::mcp::{ProgressReceiver, ServerLink, describe_type};
use crate::values::tool_call::call_of;
use crate::zend::{
    Failure, MethodCall, Object, Outcome, entries, list_of, member, string_of, with_entry,
};

/// Runs tool calls concurrently. A failed call has a failed result.
pub(super) fn call_tools(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let allowed = [
        "timeout",
        "on_progress",
        "cancellation",
        "meta",
        "max_concurrent",
    ];
    let options = CallOptions::from_argument(call, 1, &allowed)?;
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
    let progress_receiver = options
        .on_progress
        .as_ref()
        .map(|callable| ProgressReceiver {
            callable,
            ids: &ids,
        });
    let started = Instant::now();
    let mut started_count = 0;
    let outcome = (ids.iter().zip(&names))
        .try_for_each(|(id, name)| {
            started_count += 1;
            dispatch_start(link, hooks, (id, name))
        })
        .and_then(|()| run_all(link, hooks, &options, progress_receiver.as_ref(), specs))
        .and_then(|ended| {
            let calls = ids.iter().zip(&names).zip(ended);
            let results = calls.map(|((id, name), (finished, time))| {
                let (result, code) = result_of(id, name, finished)?;
                Ok((result, code, time))
            });
            results.collect::<Result<Vec<_>, Failure>>()
        });
    let mut calls = ids
        .iter()
        .map(String::as_str)
        .zip(names.iter().map(String::as_str));
    let mut failure = None;
    let mut results = Vec::with_capacity(ids.len());
    match outcome {
        Ok(ended) => {
            for (call, (result, code, time)) in calls.zip(ended) {
                results.push(result);
                let dispatch = || dispatch_end(link, hooks, call, code, time);
                failure = match failure {
                    None => dispatch().err(),
                    Some(failure) => Some(run_during_failure(failure, |_| dispatch())),
                };
            }
        }
        Err(cause) => {
            let time = started.elapsed();
            let dispatch = |cause, call| dispatch_failure(link, hooks, call, cause, time);
            failure = Some(calls.by_ref().take(started_count).fold(cause, dispatch));
        }
    }
    failure.map_or_else(|| Ok(list_of(results)), Err)
}

/// Runs at most `max_concurrent` calls at a time. Returns the outcome and duration of each call, in
/// order.
fn run_all(
    link: &ServerLink,
    hooks: Hooks<'_>,
    options: &CallOptions,
    progress_receiver: Option<&ProgressReceiver<'_>>,
    specs: Vec<Result<ToolCallSpec, String>>,
) -> Result<Vec<(CallOutcome, Duration)>, Failure> {
    let ended = link.run(hooks, "tools/call", progress_receiver, |client, handle| {
        let calls: Vec<_> = specs
            .into_iter()
            .enumerate()
            .map(|(index, spec)| {
                let mut request = options.request.clone();
                request.on_progress = progress_receiver.map(|_| handle.progress_callback(index));
                let (client, cancellation) = (client.clone(), options.cancellation.clone());
                async move {
                    let started = Instant::now();
                    let finished = match spec {
                        Ok(spec) => {
                            call_with_cancellation(client, spec, request, cancellation).await
                        }
                        Err(why) => Err(CallError::Arguments(why)),
                    };
                    (index, (finished, started.elapsed()))
                }
            })
            .collect();
        let max_concurrent = options.max_concurrent;
        async move {
            let ended = stream::iter(calls).buffer_unordered(max_concurrent);
            Ok::<_, Infallible>(ended.collect::<Vec<_>>().await)
        }
    })?;
    let mut ended = match ended {
        Ok(ended) => ended,
        Err(never) => match never {},
    };
    ended.sort_unstable_by_key(|(index, _)| *index);
    Ok(ended.into_iter().map(|(_, ended)| ended).collect())
}

/// Returns the result and error code of one of several calls. If the call failed, the result is a
/// failed one.
fn result_of(
    id: &str,
    name: &str,
    finished: CallOutcome,
) -> Result<(Zval, Option<&'static str>), Failure> {
    match finished {
        Ok(called) => match result_of_call(id, name, &called) {
            Err(Failure::Thrown(thrown)) => {
                let code = ErrorCode::InternalError;
                let result = failed_result(id, name, code, thrown.message, None)?;
                Ok((result, Some(code.as_str())))
            }
            other => other,
        },
        Err(error) => {
            let wait = match &error {
                CallError::Mcp(error) => error.retry_after(),
                _ => None,
            };
            let code = error.code();
            let result = failed_result(id, name, code, error.to_string(), wait)?;
            Ok((result, Some(code.as_str())))
        }
    }
}

/// Returns the ID, name and arguments of one of several calls: a `ToolCall`, or an array whose `id`
/// is optional. Invalid arguments fail only this call, because they may come from a model.
#[expect(clippy::type_complexity, reason = "read in one index")]
fn read_call(
    entry: &Zval,
    index: usize,
) -> Result<(String, String, Result<Box<RawValue>, String>), Failure> {
    let is_call = Object::from_value(entry).is_some() || entry.is_array();
    if !is_call {
        return Err(exception::invalid_input(format!(
            "$calls must be a list of Pillion\\ToolCall or arrays; entry {index} is {}",
            describe_type(entry)
        )));
    }
    let has_id = !entry.is_array() || member(entry, "id").is_some();
    let with_id = match has_id {
        true => entry.shallow_clone(),
        false => with_entry(entry, "id", string_of(new_id())),
    };
    let call = call_of(&with_id).map_err(|failure| match failure {
        Failure::Thrown(mut thrown) => {
            thrown.message = format!("$calls, entry {index}: {}", thrown.message);
            Failure::Thrown(thrown)
        }
        other => other,
    })?;
    let arguments = match call.arguments {
        Value::String(json) if json.trim().is_empty() => Ok(Value::Null),
        Value::String(json) => {
            serde_json::from_str(&json).map_err(|error| format!("Invalid JSON arguments: {error}"))
        }
        other => Ok(other),
    };
    let arguments = arguments.and_then(|arguments| match arguments {
        Value::Object(_) => Ok(arguments),
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Array(items) if items.is_empty() => Ok(Value::Object(serde_json::Map::new())),
        _ => Err("The arguments must be an object".to_owned()),
    });
    let arguments =
        arguments.and_then(|arguments| to_raw_value(&arguments).map_err(|error| error.to_string()));
    Ok((call.id, call.name, arguments))
}
