mod routes;
mod server;
mod stateless;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;

use crate::{Recorder, Reply};
use server::Server;

/// The HTTP transports of fake MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialect {
    /// `POST /sse` returns `data: {json}\n\n`; there is no `initialize`.
    PostSse,
    /// `POST /mcp` returns JSON.
    PlainHttp,
    /// `GET /sse` is a stream; `POST /sse` returns 202, and the response arrives on the stream.
    GetSse,
    /// `GET /sse` announces an endpoint; `POST` to it returns 202, and the response arrives on the
    /// stream. `POST /sse` returns 405.
    LegacySse(Endpoint),
    /// `POST /mcp` with sessions returns JSON.
    StreamableJson,
    /// `POST /mcp` with sessions returns an event stream.
    StreamableSse,
    /// `POST /mcp` of revision 2026-07-28, without a handshake. The server checks the required
    /// headers and `_meta` of every request; `subscriptions/listen` opens a stream.
    Stateless,
}

/// The form of the endpoint that a server with the legacy SSE transport announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A path: `/messages?session=1`.
    Relative,
    /// A URL: `http://127.0.0.1:PORT/messages?session=1`.
    Absolute,
    /// The given text.
    Text(String),
}

/// A fake MCP server.
///
/// The server supports `initialize`, `ping`, `tools/list` (one tool, `roll`) and `tools/call`
/// (always `{"total":15,"rolls":[15]}`), unless the builder sets other handlers.
#[derive(Debug)]
pub struct FakeMcp {
    /// The URL that clients connect to.
    pub url: String,
    /// The requests received so far.
    pub requests: Recorder,
    server: Arc<Server>,
    task: JoinHandle<()>,
}

/// A builder for a [`FakeMcp`].
pub struct FakeMcpBuilder {
    dialect: Dialect,
    listener: TcpListener,
    handlers: server::Handlers,
    listens: bool,
    accepts_after: Duration,
}

impl FakeMcp {
    /// Starts a server with this transport and the default replies.
    #[must_use]
    pub fn start(dialect: Dialect) -> Self {
        Self::builder(dialect).start()
    }

    /// Starts a server with this transport and one handler; see [`FakeMcpBuilder::on`].
    ///
    /// # Panics
    /// If there is no free port, or if called outside a tokio runtime.
    #[must_use]
    pub fn start_with(
        dialect: Dialect,
        method: &str,
        handler: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::builder(dialect).on(method, handler).start()
    }

    /// Returns a builder for a server with this transport.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn builder(dialect: Dialect) -> FakeMcpBuilder {
        FakeMcpBuilder {
            dialect,
            listener: crate::listen(),
            handlers: server::Handlers::new(),
            listens: false,
            accepts_after: Duration::ZERO,
        }
    }

    /// Forgets all sessions: the next request of a session is answered with 404. Streams stay open.
    pub fn forget_sessions(&self) {
        self.server.forget_sessions();
    }

    /// Closes all open event streams.
    pub fn close_streams(&self) {
        self.server.close_streams();
    }

    /// Returns the number of open event streams.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.server.open_streams()
    }

    /// Returns the number of messages that the server answered with 202, because the responses
    /// arrive on a stream.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.server.accepted()
    }

    /// Writes bytes to all open event streams.
    pub fn push(&self, bytes: impl Into<Vec<u8>>) {
        self.server.push(bytes.into());
    }
}

impl FakeMcpBuilder {
    /// Sets the handler of a method: a function of the request's parameters.
    #[must_use]
    pub fn on(
        mut self,
        method: &str,
        handler: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        self.handlers.insert(method.to_owned(), Box::new(handler));
        self
    }

    /// Delays the result of each `tools/call`, which is `{}`.
    #[must_use]
    pub fn with_slow_calls(self, delay: Duration) -> Self {
        self.on("tools/call", move |_| Reply::raw_result("{}").after(delay))
    }

    /// Enables a GET stream for each session. (Only [`StreamableJson`] and [`StreamableSse`]
    /// servers.)
    ///
    /// [`StreamableJson`]: Dialect::StreamableJson
    /// [`StreamableSse`]: Dialect::StreamableSse
    #[must_use]
    pub fn with_get_stream(mut self) -> Self {
        self.listens = true;
        self
    }

    /// Delays the HTTP status 202 for a message whose response arrives on a stream, unless the
    /// client disconnects first.
    #[must_use]
    pub fn accepting_after(mut self, delay: Duration) -> Self {
        self.accepts_after = delay;
        self
    }

    /// Starts the server.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[must_use]
    pub fn start(self) -> FakeMcp {
        let address: SocketAddr = self.listener.local_addr().unwrap();
        let path = match self.dialect {
            Dialect::PostSse | Dialect::GetSse | Dialect::LegacySse(_) => "/sse",
            Dialect::PlainHttp
            | Dialect::StreamableJson
            | Dialect::StreamableSse
            | Dialect::Stateless => "/mcp",
        };
        let requests = Recorder::default();
        let mut server = Server::new(self.dialect, address, self.handlers, requests.clone());
        server.listens = self.listens;
        server.accepts_after = self.accepts_after;
        let server = Arc::new(server);
        self.listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(self.listener).unwrap();
        let router = routes::router(Arc::clone(&server));
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        FakeMcp {
            url: format!("http://{address}{path}"),
            requests,
            server,
            task,
        }
    }
}

impl Drop for FakeMcp {
    fn drop(&mut self) {
        self.task.abort();
        self.server.close_streams();
    }
}
