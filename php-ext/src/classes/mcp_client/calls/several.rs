//! `callTools`: several concurrent calls.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use ext_php_rs::types::Zval;
use futures_util::{StreamExt, stream};
use pillion_core::tool::ErrorCode;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::results::{failed, result_of_call};
use super::told::{tell_end, tell_failure, tell_start};
use super::{CallError, Finished, Spec, finish, new_id};
use crate::classes::mcp_client::options::CallOptions;
use crate::classes::mcp_client::parts;
use crate::classes::tool_call::call_of;
use crate::exception::{self, on_the_way};
use crate::mcp::hooks::Hooks;
use crate::mcp::{Link, Reported, kind};
use crate::zend::{Call, Failure, Object, Outcome, entries, list_of, string_of, with_entry};

/// Runs the calls concurrently; a failed call has a failed result.
pub(super) fn call_tools(call: &mut Call<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let allowed = [
        "timeout",
        "on_progress",
        "cancellation",
        "meta",
        "max_concurrent",
    ];
    let options = CallOptions::of_argument(call, 1, &allowed)?;
    let mut ids = Vec::new();
    let mut names = Vec::new();
    let mut specs = Vec::new();
    for (_, given) in entries(call.array(0)?) {
        let (id, name, arguments) = spec_of(given, ids.len())?;
        let spec = arguments.map(|arguments| Spec {
            id: id.clone(),
            name: name.clone(),
            arguments,
        });
        specs.push(spec);
        ids.push(id);
        names.push(name);
    }
    let reported = options.on_progress.as_ref().map(|callable| Reported {
        callable,
        ids: &ids,
    });
    let started = Instant::now();
    let mut begun = 0;
    let outcome = (ids.iter().zip(&names))
        .try_for_each(|(id, name)| {
            begun += 1;
            tell_start(link, hooks, (id, name))
        })
        .and_then(|()| run_all(link, hooks, &options, reported.as_ref(), specs))
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
                let tell = || tell_end(link, hooks, call, code, time);
                failure = match failure {
                    None => tell().err(),
                    Some(failure) => Some(on_the_way(failure, |_| tell())),
                };
            }
        }
        Err(cause) => {
            let time = started.elapsed();
            let tell = |cause, call| tell_failure(link, hooks, call, cause, time);
            failure = Some(calls.by_ref().take(begun).fold(cause, tell));
        }
    }
    failure.map_or_else(|| Ok(list_of(results)), Err)
}

/// Runs at most `max_concurrent` calls at a time. Returns the outcome and duration of each call, in
/// order.
fn run_all(
    link: &Link,
    hooks: Hooks<'_>,
    options: &CallOptions,
    reported: Option<&Reported<'_>>,
    specs: Vec<Result<Spec, String>>,
) -> Result<Vec<(Finished, Duration)>, Failure> {
    let ended = link.run(hooks, "tools/call", reported, |client, line| {
        let calls: Vec<_> = specs
            .into_iter()
            .enumerate()
            .map(|(place, spec)| {
                let mut request = options.request.clone();
                request.on_progress = reported.map(|_| line.reports(place));
                let (client, cancellation) = (client.clone(), options.cancellation.clone());
                async move {
                    let started = Instant::now();
                    let finished = match spec {
                        Ok(spec) => finish(client, spec, request, cancellation).await,
                        Err(why) => Err(CallError::Arguments(why)),
                    };
                    (place, (finished, started.elapsed()))
                }
            })
            .collect();
        let most = options.max_concurrent;
        async move {
            let ended = stream::iter(calls).buffer_unordered(most);
            Ok::<_, Infallible>(ended.collect::<Vec<_>>().await)
        }
    })?;
    let mut ended = match ended {
        Ok(ended) => ended,
        Err(never) => match never {},
    };
    ended.sort_unstable_by_key(|(place, _)| *place);
    Ok(ended.into_iter().map(|(_, ended)| ended).collect())
}

/// Returns the result and error code of one of several calls. A failure of this call becomes a
/// failed result.
fn result_of(
    id: &str,
    name: &str,
    finished: Finished,
) -> Result<(Zval, Option<&'static str>), Failure> {
    match finished {
        Ok(called) => match result_of_call(id, name, &called) {
            Err(Failure::Thrown(thrown)) => {
                let code = ErrorCode::InternalError;
                let result = failed(id, name, code, thrown.message, None)?;
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
            let result = failed(id, name, code, error.to_string(), wait)?;
            Ok((result, Some(code.as_str())))
        }
    }
}

/// Returns the ID, name and arguments of one of several calls: a `ToolCall`, or an array whose `id`
/// is optional. Arguments come from models, so invalid arguments only fail this call.
#[expect(clippy::type_complexity, reason = "read in one place")]
fn spec_of(
    given: &Zval,
    place: usize,
) -> Result<(String, String, Result<Box<RawValue>, String>), Failure> {
    let given = given.dereference();
    let is_call = Object::of(given).is_some() || given.is_array();
    if !is_call {
        return Err(exception::invalid_input(format!(
            "$calls must be a list of Pillion\\ToolCall or arrays; entry {place} is {}",
            kind(given)
        )));
    }
    let has_id = given.array().is_none_or(|call| call.get("id").is_some());
    let with_id = match has_id {
        true => given.shallow_clone(),
        false => with_entry(given, "id", string_of(new_id())),
    };
    let call = call_of(&with_id).map_err(|failure| match failure {
        Failure::Thrown(mut thrown) => {
            thrown.message = format!("$calls, entry {place}: {}", thrown.message);
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
