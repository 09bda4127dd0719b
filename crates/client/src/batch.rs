//! Batches of any size, split into requests that the sidecar accepts.

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
/// `http.max_body_bytes`, less the rest of the body. A single call may be larger, because the
/// sidecar may be configured to accept larger bodies.
const MAX_BYTES: usize = 1024 * 1024 - 64;

/// Maximum depth of arguments that are sent as JSON; deeper arguments are sent as a string of JSON.
/// The sidecar accepts bodies of at most 127 levels, and the arguments begin at the fourth level.
const MAX_DEPTH: usize = 120;

/// HTTP status of a rejected request, none of whose calls has run.
const BAD_REQUEST: u16 = 400;
const CONTENT_TOO_LARGE: u16 = 413;

/// Calls of a batch that were sent in one request, with the response.
#[derive(Debug)]
pub struct BatchPart {
    /// The indices of the calls in the batch.
    pub calls: Range<usize>,
    /// The response, or the error of the request.
    pub response: Result<Response<BatchResponse>, ClientError>,
}

impl BatchPart {
    /// Returns whether this part is a single call that the sidecar rejected as too large.
    fn is_rejected_call(&self) -> bool {
        self.calls.len() == 1 && status_of(&self.response) == Some(CONTENT_TOO_LARGE)
    }
}

/// See [`Client::batch_in_parts`].
pub(crate) fn send_in_parts(
    client: &Client,
    calls: &[BatchCall],
    mode: BatchMode,
    caller: &Caller,
) -> Result<Vec<BatchPart>, ClientError> {
    let mut batch = PendingBatch {
        client,
        calls: calls.iter().map(encode).collect::<Result<_, _>>()?,
        names: calls.iter().map(|call| call.name.as_str()).collect(),
        mode: serde_json::to_string(&mode).map_err(|source| ClientError::Encode { source })?,
        caller,
        no_response: None,
    };
    let mut parts = Vec::new();
    for range in batch.ranges() {
        parts.extend(batch.send(range, None)?);
    }
    let has_outcome = |part: &BatchPart| part.response.is_ok() || part.is_rejected_call();
    if parts.iter().any(has_outcome) {
        return Ok(parts);
    }
    match parts.into_iter().find_map(|part| part.response.err()) {
        Some(error) => Err(error),
        None => Ok(Vec::new()),
    }
}

/// A batch that is being sent.
struct PendingBatch<'a> {
    client: &'a Client,
    /// Each call, encoded as JSON.
    calls: Vec<String>,
    /// The tool name of each call.
    names: Vec<&'a str>,
    /// The execution mode, encoded as JSON.
    mode: String,
    caller: &'a Caller,
    /// The error of the first request to which the sidecar did not respond.
    no_response: Option<String>,
}

impl PendingBatch<'_> {
    /// Splits the calls into requests that a sidecar with the default limits accepts. Returns one
    /// empty range if there are no calls.
    fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for (index, call) in self.calls.iter().enumerate() {
            let size = call.len() + 1;
            let is_full = index - start == MAX_CALLS || bytes + size > MAX_BYTES;
            if is_full && index > start {
                ranges.push(start..index);
                (start, bytes) = (index, 0);
            }
            bytes += size;
        }
        ranges.push(start..self.calls.len());
        ranges
    }

    /// Sends calls; if the sidecar rejects the request as too large, sends each half separately.
    /// `parent_error` is the error of the larger request that contained these calls.
    fn send(
        &mut self,
        calls: Range<usize>,
        parent_error: Option<&str>,
    ) -> Result<Vec<BatchPart>, ClientError> {
        let response = self.request(&calls);
        if let Err(ClientError::Interrupted) = response {
            return Err(ClientError::Interrupted);
        }
        let whole = |response| {
            let calls = calls.clone();
            Ok(vec![BatchPart { calls, response }])
        };
        let Err(ClientError::Status { status, failure }) = &response else {
            return whole(response);
        };
        // The number of calls is not the cause if the error repeats for half of the calls.
        let may_be_number = *status == BAD_REQUEST && parent_error != Some(&failure.error);
        if calls.len() < 2 || !(may_be_number || *status == CONTENT_TOO_LARGE) {
            return whole(response);
        }
        let middle = calls.start + calls.len() / 2;
        let mut parts = self.send(calls.start..middle, Some(&failure.error))?;
        let is_same = |part: &BatchPart| {
            let message = part.response.as_ref().err().map(ToString::to_string);
            status_of(&part.response) == Some(BAD_REQUEST)
                && message.as_ref() == Some(&failure.error)
        };
        if parts.iter().all(is_same) {
            return whole(response);
        }
        parts.extend(self.send(middle..calls.end, Some(&failure.error))?);
        Ok(parts)
    }

    fn request(&mut self, calls: &Range<usize>) -> Result<Response<BatchResponse>, ClientError> {
        if let Some(reason) = self.no_response.clone() {
            return Err(ClientError::NotSent { reason });
        }
        let body = format!(
            r#"{{"calls":[{}],"mode":{}}}"#,
            self.calls[calls.clone()].join(","),
            self.mode
        );
        let caller = if calls.len() == self.calls.len() {
            self.caller.clone()
        } else {
            self.caller.for_part(calls)
        };
        let names = self.names[calls.clone()].iter().copied();
        let request = self.client.request(route::EXECUTE_BATCH, []).tools(names);
        let response = request.caller(&caller).send_bytes(body.as_bytes());
        if let Err(error) = &response
            && error.has_no_response()
        {
            self.no_response = Some(error.to_string());
        }
        response
    }
}

fn status_of<T>(response: &Result<T, ClientError>) -> Option<u16> {
    match response {
        Err(ClientError::Status { status, .. }) => Some(*status),
        _ => None,
    }
}

/// Encodes a call as JSON.
fn encode(call: &BatchCall) -> Result<String, ClientError> {
    #[derive(Serialize)]
    struct Encoded<'a> {
        id: &'a str,
        name: &'a str,
        arguments: &'a Value,
    }
    let encode_error = |source| ClientError::Encode { source };
    let text;
    let arguments = if nests_deeper_than(MAX_DEPTH, &call.arguments) {
        text = Value::String(serde_json::to_string(&call.arguments).map_err(encode_error)?);
        &text
    } else {
        &call.arguments
    };
    let BatchCall { id, name, .. } = call;
    serde_json::to_string(&Encoded {
        id,
        name,
        arguments,
    })
    .map_err(encode_error)
}

fn nests_deeper_than(levels: usize, value: &Value) -> bool {
    match (value, levels.checked_sub(1)) {
        (Value::Array(_) | Value::Object(_), None) => true,
        (Value::Array(items), Some(levels)) => {
            items.iter().any(|item| nests_deeper_than(levels, item))
        }
        (Value::Object(members), Some(levels)) => {
            let mut members = members.values();
            members.any(|member| nests_deeper_than(levels, member))
        }
        _ => false,
    }
}
