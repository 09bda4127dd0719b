//! Creates the response to a call from the tool's result, and serializes it so that a large result
//! is in memory only once.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Json;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use memchr::memmem;
use pillion_core::similar_name;
use pillion_core::tool::{ErrorCode, ToolResult};
use pillion_wire::{ExecuteResponse, Execution, Failure, ToolOutcome, UnavailableServer};
use serde_json::json;

use crate::app::App;
use pillion_gateway::MissingTool;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::upstream::Own;
use pillion_gateway::visibility::Visibility;

/// Minimum length of a text, in bytes, for which the same text is searched in `data`.
const LARGE: usize = 64 * 1024;

/// Converts the result of a tool to a response.
pub(super) fn ran(result: ToolResult) -> ExecuteResponse {
    let text = result.to_message();
    let (data, model_result) = match result.data {
        Some(data) => (data, Some(result.result)),
        None => (result.result, None),
    };
    ExecuteResponse::Executed(Execution {
        success: true,
        tool: result.tool_name,
        result: ToolOutcome {
            success: result.success,
            data,
            error: result.error,
            error_code: result.error_code.map(|code| code.as_str().to_owned()),
            result: model_result,
            text,
            metadata: result.metadata,
        },
    })
}

/// Returns the response to a call of a tool that the caller does not have. If the tool does not
/// exist, the response lists the tools that do; `own` are the tools that only this caller has.
pub(super) fn unknown(
    app: &App,
    visibility: &Visibility,
    own: Option<&Own>,
    name: &str,
    missing: MissingTool,
    unavailable: &[UnavailableServer],
) -> Failure {
    let name = truncate_input(name);
    match missing {
        MissingTool::NoCredential(failure) => {
            Failure::new(failure.code.as_str(), failure.message).for_tool(name)
        }
        MissingTool::Blocked(blocked) => {
            let reason = blocked.reason(&name);
            Failure::new(ErrorCode::Denied.as_str(), reason).for_tool(name)
        }
        MissingTool::Unavailable(absent) => {
            let reason = absent.reason(&name);
            Failure::new(ErrorCode::Unavailable.as_str(), reason)
                .for_tool(name)
                .detail("unavailable_servers", json!([absent.server]))
        }
        MissingTool::Unknown => {
            let mut available = app.registry().tools(None);
            available.extend(own.into_iter().flat_map(|own| own.tools.values().cloned()));
            available
                .retain(|tool| tool.is_offered() && visibility.admits(tool, tool.name().as_str()));
            let available: Vec<_> = available.iter().map(|tool| tool.name()).collect();
            let of_own = own.into_iter().flat_map(|own| &own.unavailable);
            let unavailable: Vec<_> = unavailable.iter().chain(of_own).collect();
            let names = available.iter().map(|name| name.as_str());
            let message = match similar_name(&name, names) {
                Some(meant) => format!("Tool '{name}' not found: did you mean '{meant}'?"),
                None => format!("Tool '{name}' not found"),
            };
            let failure = Failure::new(ErrorCode::NotFound.as_str(), message)
                .for_tool(name)
                .detail("available_tools", json!(available));
            if unavailable.is_empty() {
                failure
            } else {
                failure.detail("unavailable_servers", json!(unavailable))
            }
        }
    }
}

/// Serializes the response as JSON. `text` usually repeats a part of `data`: in a large response,
/// both share memory while the client reads.
pub(super) fn respond(response: ExecuteResponse) -> Response {
    match response {
        ExecuteResponse::Executed(execution) if execution.result.text.len() >= LARGE => {
            large(execution).unwrap_or_else(|response| Json(response).into_response())
        }
        response => Json(response).into_response(),
    }
}

/// Serializes a response so that a repeated text is in memory only once.
///
/// # Errors
/// Returns the response itself if its JSON does not have the expected form.
#[expect(clippy::result_large_err, reason = "the error is the response itself")]
fn large(mut execution: Execution) -> Result<Response, ExecuteResponse> {
    let text = mem::take(&mut execution.result.text);
    let (Ok(written), Ok(whole), Ok(metadata)) = (
        serde_json::to_vec(&text),
        serde_json::to_vec(&execution),
        serde_json::to_vec(&execution.result.metadata),
    ) else {
        return Err(with_text(execution, text));
    };
    // The response ends with the text, which is empty here, and the metadata.
    let tail = [br#"","metadata":"#, &metadata[..], b"}}"].concat();
    let Some(text_index) = whole
        .strip_suffix(&tail[..])
        .filter(|head| head.ends_with(b"\"text\":\""))
        .map(|head| head.len() - 1)
    else {
        return Err(with_text(execution, text));
    };
    drop((execution, text));
    let whole = Bytes::from(whole);
    let head = whole.slice(..text_index);
    let text = match memmem::find(&head, &written) {
        Some(start) => whole.slice(start..start + written.len()),
        None => written.into(),
    };
    // The quotes of the empty text are skipped.
    let tail = whole.slice(text_index + 2..);
    let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let parts = PartsBody([head, text, tail].into());
    Ok((headers, Body::new(parts)).into_response())
}

fn with_text(mut execution: Execution, text: String) -> ExecuteResponse {
    execution.result.text = text;
    ExecuteResponse::Executed(execution)
}

/// A body of several buffers, with a known length.
struct PartsBody(VecDeque<Bytes>);

impl HttpBody for PartsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let length: usize = self.0.iter().map(Bytes::len).sum();
        SizeHint::with_exact(length as u64)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::CONTENT_LENGTH;
    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;

    fn executed(data: Value, text: String) -> ExecuteResponse {
        let metadata = json!({"text": "", "n": 1}).as_object().cloned().unwrap();
        ExecuteResponse::Executed(Execution {
            success: true,
            tool: "t".to_owned(),
            result: ToolOutcome {
                success: true,
                data,
                error: None,
                error_code: None,
                result: None,
                text,
                metadata,
            },
        })
    }

    #[tokio::test]
    async fn a_large_response_is_equal_and_contains_its_text_once() {
        let text = "a \"quoted\"\nline \u{e9} ".repeat(LARGE / 16);
        let block = json!({"content": [{"type": "text", "text": text}]});
        let cases = [
            (json!(text), text.clone(), true),
            (block.clone(), text.clone(), true),
            (json!({"rows": 3}), text.clone(), false),
            (json!("\"text\":\"\""), "short".to_owned(), false),
        ];
        for (data, text, is_shared) in cases {
            let executed = executed(data, text);
            let expected = serde_json::to_vec(&executed).unwrap();
            let response = respond(executed);
            let length = response.headers().get(CONTENT_LENGTH).cloned();
            let mut body = response.into_body();
            let mut parts = Vec::new();
            while let Some(frame) = body.frame().await {
                parts.push(frame.unwrap().into_data().unwrap());
            }
            assert!(parts.concat() == expected, "another response");
            if let Some(length) = length {
                assert_eq!(length, expected.len().to_string());
            }
            if let [head, text, _] = &parts[..] {
                let memory = head.as_ptr_range();
                assert_eq!(memory.contains(&text.as_ptr()), is_shared);
            } else {
                assert!(!is_shared);
            }
        }
    }
}
