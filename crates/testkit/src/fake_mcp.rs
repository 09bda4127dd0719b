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

/// The ways in which servers speak MCP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialect {
    /// `POST /sse` answers `data: {json}\n\n`; there is no `initialize`.
    PostSse,
    /// `POST /mcp` answers JSON.
    PlainHttp,
    /// `GET /sse` is a stream; `POST /sse` answers 202 and the response comes there.
    GetSse,
    /// `GET /sse` announces an endpoint; `POST` there answers 202, the response comes on
    /// the stream. `POST /sse` answers 405.
    LegacySse(Endpoint),
    /// `POST /mcp` with sessions, answering JSON.
    StreamableJson,
    /// `POST /mcp` with sessions, answering an event stream.
    StreamableSse,
    /// `POST /mcp` of revision 2026-07-28: no handshake, every request checked for what
    /// it must say of itself; `subscriptions/listen` opens a stream.
    Stateless,
}

/// The form of the endpoint that a legacy server announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// `/messages?session=1`
    Relative,
    /// `http://127.0.0.1:PORT/messages?session=1`
    Absolute,
    /// This very text.
    Text(String),
}

/// A fake MCP server.
///
/// It knows `initialize`, `ping`, `tools/list` (one tool, `roll`) and `tools/call` (always
/// `{"total":15,"rolls":[15]}`), unless the builder says otherwise.
#[derive(Debug)]
pub struct FakeMcp {
    /// Where clients connect to.
    pub url: String,
    /// What they sent.
    pub requests: Recorder,
    server: Arc<Server>,
    task: JoinHandle<()>,
}

/// A fake MCP server that has not started.
pub struct FakeMcpBuilder {
    dialect: Dialect,
    listener: TcpListener,
    handlers: server::Handlers,
    listens: bool,
    accepts_after: Duration,
}

impl FakeMcp {
    /// A server of this dialect with every answer at its default.
    #[must_use]
    pub fn start(dialect: Dialect) -> Self {
        Self::builder(dialect).start()
    }

    /// A server of this dialect.
    ///
    /// # Panics
    /// When there is no free port.
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

    /// Forgets every session: the next request in one is answered with 404. Streams stay
    /// open.
    pub fn forget_sessions(&self) {
        self.server.forget_sessions();
    }

    /// Ends every open event stream.
    pub fn close_streams(&self) {
        self.server.close_streams();
    }

    /// How many event streams are open.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.server.open_streams()
    }

    /// How many messages were answered with 202 by a server that answers on a stream.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.server.accepted()
    }

    /// Writes bytes into every open event stream.
    pub fn push(&self, bytes: impl Into<Vec<u8>>) {
        self.server.push(bytes.into());
    }
}

impl FakeMcpBuilder {
    /// Answers one method by a function of its parameters.
    #[must_use]
    pub fn on(
        mut self,
        method: &str,
        handler: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        self.handlers.insert(method.to_owned(), Box::new(handler));
        self
    }

    /// Has a GET stream for each session. (Of [`StreamableJson`] and [`StreamableSse`]
    /// servers.)
    ///
    /// [`StreamableJson`]: Dialect::StreamableJson
    /// [`StreamableSse`]: Dialect::StreamableSse
    #[must_use]
    pub fn with_get_stream(mut self) -> Self {
        self.listens = true;
        self
    }

    /// Takes so long for the 202 to a message that is answered on a stream, unless the client
    /// goes away before.
    #[must_use]
    pub fn accepting_after(mut self, delay: Duration) -> Self {
        self.accepts_after = delay;
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
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
