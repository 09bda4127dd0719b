use std::borrow::Cow;
use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use pillion_testkit::Twin;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::BenchError;

/// The command-line argument that makes this program run as the MCP server.
pub(super) const ARGUMENT: &str = "--serve";

/// The text of the tool's result.
pub(super) const RESULT: &str = "Echo: hello";

/// The server process, killed when dropped.
pub(super) struct ServerProcess(Twin);

impl ServerProcess {
    pub(super) fn start() -> Result<Self, BenchError> {
        Ok(Self(Twin::start(ARGUMENT)?))
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port())
    }

    pub(super) fn port(&self) -> u16 {
        self.0.port
    }
}

/// Serves until the process is killed.
pub(super) fn serve() -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
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

#[derive(Deserialize)]
struct Message<'a> {
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
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
}

#[derive(Default, Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

async fn respond(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let Ok(body) = request.into_body().collect().await else {
        return empty(StatusCode::BAD_REQUEST);
    };
    let bytes = body.to_bytes();
    let Ok(message) = serde_json::from_slice::<Message<'_>>(&bytes) else {
        return empty(StatusCode::BAD_REQUEST);
    };
    let Some(id) = message.id else {
        return empty(StatusCode::ACCEPTED);
    };
    let result = match &*message.method {
        "initialize" => json!({
            "protocolVersion": message.params.protocol_version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "echo",
            "description": "Says what it is told",
            "inputSchema": {
                "type": "object",
                "properties": {"message": {"type": "string"}},
                "required": ["message"],
            },
        }]}),
        "tools/call" => {
            let text = message.params.arguments.message.unwrap_or_default();
            json!({"content": [{"type": "text", "text": format!("Echo: {text}")}]})
        }
        _ => json!({}),
    };
    let json = json!({"jsonrpc": "2.0", "id": id, "result": result});
    let mut response = Response::new(Full::new(json.to_string().into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if message.method == "initialize" {
        headers.insert(
            "mcp-session-id",
            HeaderValue::from_static("session-of-the-bench"),
        );
    }
    response
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
