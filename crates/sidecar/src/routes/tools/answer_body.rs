//! Serializes responses so that a large result is in memory only once.

use std::convert::Infallible;
use std::mem;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use memchr::memmem;
use pillion_wire::{Answer, Execution};

/// Minimum length of a text, in bytes, for which the data is searched for the same text.
const LARGE: usize = 64 * 1024;

/// Serializes the response as JSON. `text` usually repeats a part of `data`: in a large response,
/// both share memory while the client reads.
pub(super) fn respond(answer: Answer) -> Response {
    match answer {
        Answer::Ran(execution) if execution.result.text.len() >= LARGE => {
            large(execution).unwrap_or_else(|answer| Json(answer).into_response())
        }
        answer => Json(answer).into_response(),
    }
}

/// # Errors
/// The response itself, if its JSON does not have the expected form.
#[expect(clippy::result_large_err, reason = "the error is the answer itself")]
fn large(mut execution: Execution) -> Result<Response, Answer> {
    let text = mem::take(&mut execution.result.text);
    let (Ok(written), Ok(whole), Ok(metadata)) = (
        serde_json::to_vec(&text),
        serde_json::to_vec(&execution),
        serde_json::to_vec(&execution.result.metadata),
    ) else {
        return Err(with_text(execution, text));
    };
    // `text` precedes the metadata, which end the response.
    let tail = [br#"","metadata":"#, &metadata[..], b"}}"].concat();
    let Some(place) = whole
        .strip_suffix(&tail[..])
        .filter(|head| head.ends_with(b"\"text\":\""))
        .map(|head| head.len() - 1)
    else {
        return Err(with_text(execution, text));
    };
    drop((execution, text));
    let whole = Bytes::from(whole);
    let head = whole.slice(..place);
    let text = match memmem::find(&head, &written) {
        Some(start) => whole.slice(start..start + written.len()),
        None => written.into(),
    };
    // Skips the quotes of the empty text.
    let tail = whole.slice(place + 2..);
    Ok(of_parts([head, text, tail]))
}

fn with_text(mut execution: Execution, text: String) -> Answer {
    execution.result.text = text;
    Answer::Ran(execution)
}

fn of_parts(parts: [Bytes; 3]) -> Response {
    let length: usize = parts.iter().map(Bytes::len).sum();
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CONTENT_LENGTH, HeaderValue::from(length)),
    ];
    let body = Body::from_stream(stream::iter(parts.map(Ok::<_, Infallible>)));
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use pillion_wire::Outcome;
    use serde_json::{Value, json};

    use super::*;

    fn answer(data: Value, text: String) -> Answer {
        let metadata = json!({"text": "", "n": 1}).as_object().cloned().unwrap();
        Answer::Ran(Execution {
            success: true,
            tool: "t".to_owned(),
            result: Outcome {
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
            let answer = answer(data, text);
            let expected = serde_json::to_vec(&answer).unwrap();
            let response = respond(answer);
            let length = response.headers().get(CONTENT_LENGTH).cloned();
            let mut body = response.into_body();
            let mut parts = Vec::new();
            while let Some(frame) = body.frame().await {
                parts.push(frame.unwrap().into_data().unwrap());
            }
            assert!(parts.concat() == expected, "another answer");
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
