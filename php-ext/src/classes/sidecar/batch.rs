//! The methods `execute()`, `executeAll()` and `executeParallel()` of the class `Sidecar`.

use std::iter::repeat_with;

use ext_php_rs::types::Zval;
use pillion_client::wire::{BatchCall, BatchMode, BatchResponse};
use pillion_client::{BatchPart, ClientError, Response};
use pillion_core::tool::{ErrorCode, ToolCall};

use super::call_response::CallResponse;
use super::{caller_argument, decode_approval_arguments, decode_list, send_request};
use crate::exception;
use crate::json::EmptyObject;
use crate::values::tool_call::{RejectedCall, read_call_or_rejection};
use crate::zend::{Failure, MethodCall, Outcome, Result, entries, new_list};

pub(super) fn execute(call: &mut MethodCall<'_>) -> Outcome {
    let tool_call = call
        .value(0)
        .map_or(Err(Failure::Pending), read_call_or_rejection)?;
    let results = send_calls(call, vec![tool_call], BatchMode::Sequential)?;
    results
        .into_iter()
        .next()
        .ok_or_else(|| Failure::error("The sidecar's response has no result for the call"))
}

pub(super) fn execute_all(call: &mut MethodCall<'_>) -> Outcome {
    execute_several(call, BatchMode::Sequential)
}

pub(super) fn execute_parallel(call: &mut MethodCall<'_>) -> Outcome {
    execute_several(call, BatchMode::Parallel)
}

fn execute_several(call: &MethodCall<'_>, mode: BatchMode) -> Outcome {
    let calls = entries(call.array(0)?)
        .map(|(_, call)| read_call_or_rejection(&call))
        .collect::<Result<_, _>>()?;
    send_calls(call, calls, mode).map(new_list)
}

/// Sends tool calls to the sidecar, in as few requests as the sidecar's batch limit permits.
/// Returns the results in the order of the calls.
fn send_calls(
    call: &MethodCall<'_>,
    calls: Vec<Result<ToolCall, RejectedCall>>,
    mode: BatchMode,
) -> Result<Vec<Zval>> {
    let caller = caller_argument(call, 1)?;
    let mut results: Vec<Option<Zval>> = Vec::with_capacity(calls.len());
    let mut batch_calls = Vec::with_capacity(calls.len());
    for call in calls {
        results.push(match call {
            Ok(call) => {
                batch_calls.push(BatchCall {
                    id: call.id,
                    name: call.name,
                    arguments: call.arguments,
                });
                None
            }
            Err(RejectedCall { id, name, reason }) => {
                let rejection =
                    CallResponse::for_rejection(ErrorCode::InvalidInput.as_str(), reason);
                Some(rejection.into_result(id, name)?)
            }
        });
    }
    let mut tool_results = Vec::with_capacity(batch_calls.len());
    if !batch_calls.is_empty() || results.is_empty() {
        let batch_parts = send_request(call, |client| {
            client.batch_in_parts(&batch_calls, mode, &caller)
        })?;
        let is_single_request = batch_parts.len() == 1;
        for BatchPart {
            calls: range,
            response,
        } in batch_parts
        {
            let part_calls = batch_calls.get(range).unwrap_or_default();
            tool_results.extend(match to_results(part_calls, response) {
                // If one of several requests fails, only its calls fail, because the calls of the
                // other requests may have results.
                Err(Failure::Exception(exception)) if !is_single_request => new_failed_results(
                    part_calls,
                    ErrorCode::Unavailable.as_str(),
                    &exception.message,
                )?,
                outcome => outcome?,
            });
        }
    }
    let mut remaining_results = tool_results.into_iter();
    Ok((results.into_iter())
        .filter_map(|rejection| rejection.or_else(|| remaining_results.next()))
        .collect())
}

/// Returns a failed result for each of the calls.
fn new_failed_results(calls: &[BatchCall], code: &str, message: &str) -> Result<Vec<Zval>> {
    let fail = |call: &BatchCall| {
        let rejection = CallResponse::for_rejection(code, message.to_owned());
        rejection.into_result(call.id.clone(), call.name.clone())
    };
    calls.iter().map(fail).collect()
}

/// Returns one result for each call in a request.
fn to_results(
    calls: &[BatchCall],
    outcome: Result<Response<BatchResponse>, ClientError>,
) -> Result<Vec<Zval>> {
    let response = match outcome {
        Ok(response) => response,
        Err(error) => return new_failed_results(calls, error.code(), &error.to_string()),
    };
    let results = decode_list(response.body(), "results", EmptyObject::Array)?;
    if results.array().map_or(0, |results| results.len()) != calls.len() {
        return Err(exception::transport_failure(
            "The sidecar's response has no list 'results' with one result for each call",
        ));
    }
    let arguments = decode_approval_arguments(response.body())?.into_iter();
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
