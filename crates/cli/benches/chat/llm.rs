use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use pillion_testkit::Twin;
use serde_json::{Value, json};

use super::BenchError;

/// The command-line argument that makes this program run as a language model that responds at once.
/// The user's message is the number of tool calls before the final response.
pub(super) const ARGUMENT: &str = "--model";

/// The text of the model's final response.
pub(super) const WORDS: &str = "It is 42.";

/// Pause between the pieces of a streamed response.
const PAUSE: Duration = Duration::from_millis(2);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves until the process is killed.
pub(super) fn serve() -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = Twin::listen().await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let service = service_fn(async |request| Ok::<_, Infallible>(respond(request).await));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    })
}

async fn respond(request: Request<Incoming>) -> Response<Body> {
    let collected = request.into_body().collect().await;
    let bytes = collected.map(|body| body.to_bytes()).unwrap_or_default();
    let Ok(request) = serde_json::from_slice::<Value>(&bytes) else {
        let mut rejection = Response::new(Full::new(Bytes::new()).boxed_unsync());
        *rejection.status_mut() = StatusCode::BAD_REQUEST;
        return rejection;
    };
    let messages = request["messages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let has_role = |role: &'static str| move |message: &&Value| message["role"] == role;
    let requested = messages
        .iter()
        .find(has_role("user"))
        .and_then(|message| message["content"].as_str()?.parse().ok());
    let called = messages.iter().filter(has_role("tool")).count();
    if request["stream"] == true {
        return streamed();
    }
    let (message, finish) = if called < requested.unwrap_or(0) {
        let function = json!({"name": "calculator", "arguments": "{\"expression\": \"6 * 7\"}"});
        let call =
            json!({"id": format!("call_{called}"), "type": "function", "function": function});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        (message, "tool_calls")
    } else {
        (json!({"role": "assistant", "content": WORDS}), "stop")
    };
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "bench",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    });
    let json = Full::new(Bytes::from(body.to_string()));
    with_type("application/json", json.boxed_unsync())
}

/// Returns a streamed response, whose first piece is sent at once.
fn streamed() -> Response<Body> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench",
            "choices": [choice],
        });
        format!("data: {chunk}\n\n")
    };
    let first = chunk(json!({"role": "assistant", "content": WORDS}), Value::Null);
    let last = chunk(json!({}), json!("stop"));
    let events = [first, last, "data: [DONE]\n\n".to_owned()];
    let frames = stream::unfold(events.into_iter().enumerate(), async |mut events| {
        let (index, event) = events.next()?;
        if index > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        Some((Ok(Frame::data(Bytes::from(event))), events))
    });
    with_type("text/event-stream", StreamBody::new(frames).boxed_unsync())
}

fn with_type(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let value = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, value);
    response
}
