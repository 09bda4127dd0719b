use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt;
use futures_util::stream;
use parking_lot::Mutex;
use pillion_testkit::Twin;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::BenchError;

/// The argument that makes this program the server.
pub(super) const ARGUMENT: &str = "--serve";

/// The text of the tool's result.
const RESULT: &str = "Echo: hello";

/// The form of the server's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    EventStream,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::EventStream => "events",
        })
    }
}

/// The process of the MCP server; killed when this value is dropped.
pub(super) struct ServerProcess(Twin);

impl ServerProcess {
    pub(super) fn start() -> Result<Self, BenchError> {
        Ok(Self(Twin::start(ARGUMENT)?))
    }

    pub(super) fn url(&self, form: Form) -> String {
        let path = match form {
            Form::Json => "json",
            Form::EventStream => "events",
        };
        format!("http://127.0.0.1:{}/{path}", self.0.port)
    }
}

/// A `tools/call` as the server received it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Captured {
    pub(super) headers: HashMap<String, String>,
    pub(super) body: String,
}

/// Checks that a `tools/call` returned the text of [`RESULT`].
pub(super) fn check(result: &RawValue) -> Result<(), BenchError> {
    if result.get().contains(RESULT) {
        Ok(())
    } else {
        Err(format!("another result: {}", result.get()).into())
    }
}

/// Runs the server on one thread until the process is killed.
pub(super) fn serve() -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = Twin::listen().await?.tap_io(|connection| {
            let _ = connection.set_nodelay(true);
        });
        let of_form = |form| {
            let state = Arc::new(Endpoint::new(form));
            post(handle).get(last_call).with_state(state)
        };
        let router = Router::new()
            .route("/json", of_form(Form::Json))
            .route("/events", of_form(Form::EventStream));
        axum::serve(listener, router).await?;
        Ok(())
    })
}

struct Endpoint {
    form: Form,
    sessions: AtomicU64,
    last: Mutex<Option<(HeaderMap, Bytes)>>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Params<'a>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "protocolVersion")]
    protocol_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    arguments: Arguments<'a>,
}

#[derive(Default, Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

impl Endpoint {
    fn new(form: Form) -> Self {
        Self {
            form,
            sessions: AtomicU64::new(0),
            last: Mutex::default(),
        }
    }

    fn respond(&self, id: &RawValue, result: &Value, session: Option<String>) -> Response<Body> {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
        let mut response = match self.form {
            Form::Json => {
                ([(CONTENT_TYPE, "application/json")], message.to_string()).into_response()
            }
            Form::EventStream => {
                let event = format!("event: message\ndata: {message}\n\n");
                // A stream has no `Content-Length`, as event streams of servers have none.
                let body = stream::iter([Ok::<_, std::io::Error>(event)]);
                (
                    [(CONTENT_TYPE, "text/event-stream")],
                    Body::from_stream(body),
                )
                    .into_response()
            }
        };
        if let Some(Ok(session)) = session.map(TryInto::try_into) {
            response.headers_mut().insert("mcp-session-id", session);
        }
        response
    }
}

async fn handle(
    State(endpoint): State<Arc<Endpoint>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let Ok(request) = serde_json::from_slice::<Request<'_>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some(id) = request.id else {
        return StatusCode::ACCEPTED.into_response();
    };
    match &*request.method {
        "initialize" => {
            let number = endpoint.sessions.fetch_add(1, Ordering::Relaxed);
            let result = json!({
                "protocolVersion": request.params.protocol_version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bench", "version": "1"},
            });
            endpoint.respond(id, &result, Some(format!("session-{number:016}")))
        }
        "tools/call" => {
            let stateless = headers
                .get("mcp-method")
                .is_some_and(|method| method == "tools/call");
            if !stateless && !headers.contains_key("mcp-session-id") {
                return StatusCode::BAD_REQUEST.into_response();
            }
            if request.params.name.as_deref() != Some("echo") {
                return StatusCode::BAD_REQUEST.into_response();
            }
            let message = request.params.arguments.message.unwrap_or_default();
            let text = format!("Echo: {message}");
            let result = json!({
                "resultType": "complete",
                "content": [{"type": "text", "text": text}],
            });
            let response = endpoint.respond(id, &result, None);
            *endpoint.last.lock() = Some((headers, body));
            response
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Returns the last `tools/call` that the server received, so that clients can send the same
/// request.
async fn last_call(State(endpoint): State<Arc<Endpoint>>) -> axum::Json<Option<Captured>> {
    let last = endpoint.last.lock().clone();
    axum::Json(last.map(|(headers, body)| {
        Captured {
            headers: headers
                .iter()
                .filter_map(|(name, value)| {
                    Some((name.to_string(), value.to_str().ok()?.to_owned()))
                })
                .collect(),
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }))
}
