use std::fmt;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::rt::{Read, Write};
use hyper::{HeaderMap, Method, Request, Uri};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpStream, UnixStream};

use super::BenchError;
use super::gateway::{Gateway, TOKEN};
use super::server::{RESULT, ServerProcess};

const VERSION: &str = "2025-11-25";

/// The interface over which a call reaches the server's tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Direct,
    McpOverTcp,
    McpOverUnix,
    RestOverUnix,
}

impl Way {
    pub(super) const ALL: [Self; 4] = [
        Self::Direct,
        Self::McpOverTcp,
        Self::McpOverUnix,
        Self::RestOverUnix,
    ];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Direct => "direct",
            Self::McpOverTcp => "/mcp over TCP",
            Self::McpOverUnix => "/mcp over the socket",
            Self::RestOverUnix => "REST over the socket",
        })
    }
}

/// A keep-alive connection, and the request that it repeats.
pub(super) struct Caller {
    connection: SendRequest<Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

impl Caller {
    pub(super) async fn open(
        way: Way,
        server: Option<&ServerProcess>,
        gateway: &Gateway,
    ) -> Result<Self, BenchError> {
        let connection = match (way, server) {
            (Way::Direct, Some(server)) => over_tcp(server.port()).await?,
            (Way::Direct, None) => return Err("no server to call".into()),
            (Way::McpOverTcp, _) => over_tcp(gateway.port).await?,
            _ => over(UnixStream::connect(gateway.socket()).await?).await?,
        };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, both);
        if way == Way::McpOverTcp {
            headers.insert(AUTHORIZATION, format!("Bearer {TOKEN}").parse()?);
        }
        let arguments = json!({"message": "hello"});
        let tool = if way == Way::Direct {
            "echo"
        } else {
            "bench_echo"
        };
        if way == Way::RestOverUnix {
            return Ok(Self {
                connection,
                uri: format!("/api/v1/tools/execute/{tool}").parse()?,
                headers,
                body: arguments.to_string().into(),
            });
        }
        let call = json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        });
        let mut caller = Self {
            connection,
            uri: Uri::from_static("/mcp"),
            headers,
            body: call.to_string().into(),
        };
        caller.initialize().await?;
        Ok(caller)
    }

    async fn initialize(&mut self) -> Result<(), BenchError> {
        let initialize = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": VERSION, "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        });
        let call = std::mem::replace(&mut self.body, initialize.to_string().into());
        let response = self.send().await?;
        let session_id = response
            .headers()
            .get("mcp-session-id")
            .cloned()
            .ok_or("the server opens no session")?;
        response.into_body().collect().await?;
        self.headers.insert("mcp-session-id", session_id);
        let version = HeaderValue::from_static(VERSION);
        self.headers.insert("mcp-protocol-version", version);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.body = initialized.to_string().into();
        self.send().await?.into_body().collect().await?;
        self.body = call;
        Ok(())
    }

    async fn send(&mut self) -> Result<hyper::Response<hyper::body::Incoming>, BenchError> {
        self.connection.ready().await?;
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        Ok(self.connection.send_request(request).await?)
    }

    pub(super) async fn call(&mut self) -> Result<(), BenchError> {
        let response = self.send().await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let text = std::str::from_utf8(&body)?;
        if status.is_success() && text.contains(RESULT) {
            return Ok(());
        }
        Err(format!("another answer, {status}: {text}").into())
    }
}

async fn over_tcp(port: u16) -> Result<SendRequest<Full<Bytes>>, BenchError> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    over(stream).await
}

async fn over<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, BenchError>
where
    TokioIo<S>: Read + Write + Send + Unpin + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}
