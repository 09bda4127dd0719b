//! `execute()`, `executeAll()` and `executeParallel()` of a `Sidecar`.

use std::iter::repeat_with;

use ext_php_rs::types::Zval;
use pillion_client::wire::{BatchCall, BatchMode, BatchResponse};
use pillion_client::{BatchPart, ClientError, Response};
use pillion_core::tool::{ErrorCode, ToolCall};

use super::call_response::CallResponse;
use super::{approval_arguments, caller_argument, list_in, send_request};
use crate::exception;
use crate::json::EmptyObject;
use crate::values::tool_call::{RejectedCall, call_or_rejection};
use crate::zend::{Failure, MethodCall, Outcome, entries, list_of};

pub(super) fn execute(call: &mut MethodCall<'_>) -> Outcome {
    let single = call
        .value(0)
        .map_or(Err(Failure::Pending), call_or_rejection)?;
    let results = run(call, vec![single], BatchMode::Sequential)?;
    results
        .into_iter()
        .next()
        .ok_or_else(|| Failure::error("The sidecar answered without a result"))
}

pub(super) fn execute_all(call: &mut MethodCall<'_>) -> Outcome {
    execute_several(call, BatchMode::Sequential)
}

pub(super) fn execute_parallel(call: &mut MethodCall<'_>) -> Outcome {
    execute_several(call, BatchMode::Parallel)
}

fn execute_several(call: &MethodCall<'_>, mode: BatchMode) -> Outcome {
    let calls = entries(call.array(0)?)
        .map(|(_, call)| call_or_rejection(&call))
        .collect::<Result<_, _>>()?;
    run(call, calls, mode).map(list_of)
}

/// Sends tool calls to the sidecar, in as few requests as it accepts. Returns the results in the
/// order of the calls.
fn run(
    call: &MethodCall<'_>,
    calls: Vec<Result<ToolCall, RejectedCall>>,
    mode: BatchMode,
) -> Result<Vec<Zval>, Failure> {
    let caller = caller_argument(call, 1)?;
    let mut results: Vec<Option<Zval>> = Vec::with_capacity(calls.len());
    let mut sent = Vec::with_capacity(calls.len());
    for call in calls {
        results.push(match call {
            Ok(call) => {
                sent.push(BatchCall {
                    id: call.id,
                    name: call.name,
                    arguments: call.arguments,
                });
                None
            }
            Err(RejectedCall { id, name, reason }) => {
                let rejected = CallResponse::rejection(ErrorCode::InvalidInput.as_str(), reason);
                Some(rejected.into_result(id, name)?)
            }
        });
    }
    let mut answered = Vec::with_capacity(sent.len());
    if !sent.is_empty() || results.is_empty() {
        let parts = send_request(call, |client| client.batch_in_parts(&sent, mode, &caller))?;
        let is_only = parts.len() == 1;
        for BatchPart { calls, response } in parts {
            let calls = sent.get(calls).unwrap_or_default();
            answered.extend(match results_of(calls, response) {
                // If one of several requests fails, the others may have results.
                Err(Failure::Thrown(thrown)) if !is_only => {
                    failed_results(calls, ErrorCode::Unavailable.as_str(), &thrown.message)?
                }
                results => results?,
            });
        }
    }
    let mut answered = answered.into_iter();
    let results = results.into_iter();
    Ok(results
        .filter_map(|rejected| rejected.or_else(|| answered.next()))
        .collect())
}

/// Returns a failed result for each of the calls.
fn failed_results(calls: &[BatchCall], code: &str, message: &str) -> Result<Vec<Zval>, Failure> {
    let failed = |call: &BatchCall| {
        let rejection = CallResponse::rejection(code, message.to_owned());
        rejection.into_result(call.id.clone(), call.name.clone())
    };
    calls.iter().map(failed).collect()
}

/// Returns the results of the calls of one request.
fn results_of(
    calls: &[BatchCall],
    outcome: Result<Response<BatchResponse>, ClientError>,
) -> Result<Vec<Zval>, Failure> {
    let response = match outcome {
        Ok(response) => response,
        Err(error) => return failed_results(calls, error.code(), &error.to_string()),
    };
    let results = list_in(response.body(), "results", EmptyObject::Array)?;
    if results.array().map_or(0, |results| results.len()) != calls.len() {
        return Err(exception::transport(
            "The sidecar's response has no result for each call",
        ));
    }
    let arguments = approval_arguments(response.body())?.into_iter();
    calls
        .iter()
        .zip(entries(&results))
        .zip(arguments.chain(repeat_with(|| None)))
        .map(|((call, (_, result)), arguments)| {
            let response = CallResponse::from_value(&result).with_arguments(arguments);
            response.into_result(call.id.clone(), call.name.clone())
        })
        .collect()
}
