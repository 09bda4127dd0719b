//! Splits batches of any size into requests that the sidecar accepts, and sends the requests.

#[cfg(test)]
mod tests;

use std::ops::Range;

use pillion_wire::{BatchCall, BatchMode, BatchResponse, route};
use serde::Serialize;
use serde_json::Value;

use crate::{Caller, Client, ClientError, Response};

/// Maximum number of calls in one request: the sidecar's default for `http.max_batch_calls`.
const MAX_CALLS: usize = 100;

/// Maximum size of the calls in one request, in bytes: the sidecar's default for
/// `http.max_body_bytes`, minus the bytes of the body around the calls. A single call can be
/// larger, because the configuration of the sidecar can allow larger bodies.
const MAX_CALLS_BYTES: usize = 1024 * 1024 - 64;

/// Maximum depth of arguments that are sent as JSON; deeper arguments are sent as a string of JSON.
/// The sidecar accepts bodies of at most 127 levels, and the arguments begin at the fourth level.
const MAX_ARGUMENTS_DEPTH: usize = 120;

// The HTTP statuses with which the sidecar rejects a whole request, before any of its calls runs.
const BAD_REQUEST: u16 = 400;
const CONTENT_TOO_LARGE: u16 = 413;

/// Calls of a batch that were sent in one request, with the response.
#[derive(Debug)]
pub struct BatchPart {
    /// The indices, within the batch, of the calls in this request.
    pub calls: Range<usize>,
    /// The response, or the error of the request.
    pub response: Result<Response<BatchResponse>, ClientError>,
}

impl BatchPart {
    /// Returns whether this part is a single call that the sidecar rejected as too large.
    fn is_rejected_call(&self) -> bool {
        self.calls.len() == 1 && error_status(&self.response) == Some(CONTENT_TOO_LARGE)
    }
}

/// Implements [`Client::batch_in_parts`].
pub(crate) fn send_in_parts(
    client: &Client,
    calls: &[BatchCall],
    mode: BatchMode,
    caller: &Caller,
) -> Result<Vec<BatchPart>, ClientError> {
    let mut batch = PendingBatch {
        client,
        encoded_calls: calls.iter().map(encode_call).collect::<Result<_, _>>()?,
        tool_names: calls.iter().map(|call| call.name.as_str()).collect(),
        mode: serde_json::to_string(&mode).map_err(|source| ClientError::Encode { source })?,
        caller,
        no_response_error: None,
    };
    let mut parts = Vec::new();
    for range in batch.ranges() {
        parts.extend(batch.send(range, None)?);
    }
    let has_outcome = |part: &BatchPart| part.response.is_ok() || part.is_rejected_call();
    if parts.iter().any(has_outcome) {
        return Ok(parts);
    }
    let error = parts.into_iter().find_map(|part| part.response.err());
    error.map_or(Ok(Vec::new()), Err)
}

/// A batch that is being sent.
struct PendingBatch<'a> {
    client: &'a Client,
    /// Each call, encoded as JSON.
    encoded_calls: Vec<String>,
    /// The tool name of each call.
    tool_names: Vec<&'a str>,
    /// The execution mode, encoded as JSON.
    mode: String,
    caller: &'a Caller,
    /// The error of the first request to which the sidecar did not respond.
    no_response_error: Option<String>,
}

impl PendingBatch<'_> {
    /// Splits the calls into requests that a sidecar with the default limits accepts. Returns one
    /// empty range if there are no calls.
    fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let (mut start, mut part_bytes) = (0, 0);
        for (index, call) in self.encoded_calls.iter().enumerate() {
            let call_bytes = call.len() + 1;
            let is_full = index - start == MAX_CALLS || part_bytes + call_bytes > MAX_CALLS_BYTES;
            if is_full && index > start {
                ranges.push(start..index);
                (start, part_bytes) = (index, 0);
            }
            part_bytes += call_bytes;
        }
        ranges.push(start..self.encoded_calls.len());
        ranges
    }

    /// Sends calls in one request. If the sidecar rejects the request as too large or for its
    /// number of calls, sends each half of the calls separately. `parent_error` is the error of the
    /// rejected request that contained these calls; `None` if there was none.
    fn send(
        &mut self,
        calls: Range<usize>,
        parent_error: Option<&str>,
    ) -> Result<Vec<BatchPart>, ClientError> {
        let response = self.send_request(&calls);
        if let Err(ClientError::Interrupted) = response {
            return Err(ClientError::Interrupted);
        }
        let single_part = |response| {
            let calls = calls.clone();
            Ok(vec![BatchPart { calls, response }])
        };
        let Err(ClientError::Status { status, failure }) = &response else {
            return single_part(response);
        };
        // A request that is rejected with status 400 may contain too many calls. If a request with
        // half of the calls gets the same error, the number of calls is not the cause.
        let may_exceed_max_calls = *status == BAD_REQUEST && parent_error != Some(&failure.error);
        if calls.len() < 2 || !(may_exceed_max_calls || *status == CONTENT_TOO_LARGE) {
            return single_part(response);
        }
        let middle_index = calls.start + calls.len() / 2;
        let mut parts = self.send(calls.start..middle_index, Some(&failure.error))?;
        let has_same_error = |part: &BatchPart| {
            let message = part.response.as_ref().err().map(ToString::to_string);
            error_status(&part.response) == Some(BAD_REQUEST)
                && message.as_ref() == Some(&failure.error)
        };
        if parts.iter().all(has_same_error) {
            return single_part(response);
        }
        parts.extend(self.send(middle_index..calls.end, Some(&failure.error))?);
        Ok(parts)
    }

    fn send_request(
        &mut self,
        calls: &Range<usize>,
    ) -> Result<Response<BatchResponse>, ClientError> {
        if let Some(reason) = self.no_response_error.clone() {
            return Err(ClientError::NotSent { reason });
        }
        let body = format!(
            r#"{{"calls":[{}],"mode":{}}}"#,
            self.encoded_calls[calls.clone()].join(","),
            self.mode
        );
        let caller = if calls.len() == self.encoded_calls.len() {
            self.caller.clone()
        } else {
            self.caller.for_part(calls)
        };
        let tool_names = self.tool_names[calls.clone()].iter().copied();
        let request = self
            .client
            .request(route::EXECUTE_BATCH, [])
            .tools(tool_names);
        let response = request.caller(&caller).send_bytes(body.as_bytes());
        if let Err(error) = &response
            && error.has_no_response()
        {
            self.no_response_error = Some(error.to_string());
        }
        response
    }
}

fn error_status<T>(response: &Result<T, ClientError>) -> Option<u16> {
    match response {
        Err(ClientError::Status { status, .. }) => Some(*status),
        _ => None,
    }
}

/// Encodes a call as JSON.
fn encode_call(call: &BatchCall) -> Result<String, ClientError> {
    #[derive(Serialize)]
    struct EncodedCall<'a> {
        id: &'a str,
        name: &'a str,
        arguments: &'a Value,
    }
    let encode_error = |source| ClientError::Encode { source };
    let json_text;
    let arguments = if is_nested_deeper_than(MAX_ARGUMENTS_DEPTH, &call.arguments) {
        json_text = Value::String(serde_json::to_string(&call.arguments).map_err(encode_error)?);
        &json_text
    } else {
        &call.arguments
    };
    let BatchCall { id, name, .. } = call;
    serde_json::to_string(&EncodedCall {
        id,
        name,
        arguments,
    })
    .map_err(encode_error)
}

fn is_nested_deeper_than(levels: usize, value: &Value) -> bool {
    match (value, levels.checked_sub(1)) {
        (Value::Array(_) | Value::Object(_), None) => true,
        (Value::Array(items), Some(levels)) => {
            items.iter().any(|item| is_nested_deeper_than(levels, item))
        }
        (Value::Object(members), Some(levels)) => members
            .values()
            .any(|member| is_nested_deeper_than(levels, member)),
        _ => false,
    }
}
