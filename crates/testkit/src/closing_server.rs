//! An MCP server that closes its connections, or restarts, without announcing it.

mod protocol;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::fault_server::{http_response, read_request};

/// When a [`ClosingServer`] closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseTime {
    /// The server closes the connection directly after a response.
    AfterResponse,
    /// The server closes the connection after this idle time.
    AfterIdle(Duration),
    /// The server closes the connection when the first bytes of a request have arrived, without
    /// reading them.
    AtFirstByte,
    /// The server closes the connection after reading a part of a request's head.
    InHead,
    /// The server closes the connection after reading a whole request, instead of responding.
    InsteadOfResponse,
    /// The server closes the connection after sending a part of the response.
    InResponse,
}

/// How a [`ClosingServer`] closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseKind {
    /// The server ends its side, and discards what still arrives: the client reads the end of the
    /// stream.
    Fin,
    /// The server closes the socket: like `Fin`, but unread data, or data that still arrives,
    /// causes a reset.
    Close,
    /// The server resets the connection: the client reads an error.
    Reset,
}

/// How a [`ClosingServer`] behaves.
#[derive(Debug, Clone, Copy)]
pub struct ClosingRules {
    /// When the server closes a connection.
    pub time: CloseTime,
    /// How the server closes a connection.
    pub kind: CloseKind,
    /// The number of the only request, counted from 0, at which the server closes the connection,
    /// even a new one. If `None`, the server closes at each request that is not the first of its
    /// connection.
    pub only: Option<usize>,
    /// Whether the server closes the connection at every request, even on a new connection.
    pub always: bool,
    /// Whether the server has no handshake (revision 2026-07-28).
    pub stateless: bool,
    /// Whether responses are event streams.
    pub streams: bool,
    /// Whether the server redirects its first request within the origin, so that Pillion uses its
    /// full HTTP client instead of the direct one.
    pub redirects: bool,
    /// How long a tool call takes.
    pub work: Duration,
}

impl Default for ClosingRules {
    /// Returns rules under which the server closes no connection.
    fn default() -> Self {
        Self {
            time: CloseTime::AfterResponse,
            kind: CloseKind::Fin,
            only: Some(usize::MAX),
            always: false,
            stateless: false,
            streams: false,
            redirects: false,
            work: Duration::ZERO,
        }
    }
}

/// An MCP server that closes its connections without announcing it, and counts what it receives.
/// Runs on a separate thread, and can restart at the same address.
#[derive(Debug)]
pub struct ClosingServer {
    /// The URL that clients connect to.
    pub url: String,
    address: SocketAddr,
    state: Arc<State>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    rules: ClosingRules,
    has_redirected: AtomicBool,
    requests: AtomicUsize,
    connections: AtomicUsize,
    /// The number of times that each tool call was received completely, by the call's argument
    /// `call`.
    calls: Mutex<HashMap<i64, usize>>,
}

impl ClosingServer {
    /// Starts a server.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn start(rules: ClosingRules) -> Self {
        let listener = crate::listen();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            rules,
            has_redirected: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            calls: Mutex::default(),
        });
        let running = run(listener, Arc::clone(&state));
        Self {
            url: format!("http://{address}/mcp"),
            address,
            state,
            running: Some(running),
        }
    }

    /// Ends the server as if its process were killed: the listener and all connections are closed.
    ///
    /// # Panics
    /// If the server is not running.
    pub fn stop(&mut self) {
        let running = self.running.take().unwrap();
        let _ = running.stop.send(());
        running.thread.join().unwrap();
    }

    /// Starts the server again, at the same address.
    ///
    /// # Panics
    /// If the port is in use.
    pub fn start_again(&mut self) {
        let listener = StdListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.running = Some(run(listener, Arc::clone(&self.state)));
    }

    /// Returns how often each tool call was received completely, by the call's argument `call`.
    ///
    /// # Panics
    /// If a thread of the server has panicked.
    #[must_use]
    pub fn calls(&self) -> HashMap<i64, usize> {
        self.state.calls.lock().unwrap().clone()
    }

    /// Returns the number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for ClosingServer {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.stop();
        }
    }
}

fn run(listener: StdListener, state: Arc<State>) -> Running {
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            let mut connections = JoinSet::new();
            let accept = async {
                while let Ok((stream, _)) = listener.accept().await {
                    state.connections.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(stream, Arc::clone(&state)));
                }
            };
            tokio::select! {
                () = accept => {}
                _ = stopped => {}
            }
            // The listener closes first, as in a killed process: a client whose connection is closed
            // cannot connect again and send a second call to a server that is ending.
            drop(listener);
            drop(connections);
        });
    });
    Running { stop, thread }
}

/// Serves one connection until either end closes it.
async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let rules = state.rules;
    let mut unread = Vec::new();
    for turn in 0_usize.. {
        // The idle time counts from the last response.
        if let CloseTime::AfterIdle(idle) = rules.time
            && turn > 0
            && state.meets(state.requests.load(Ordering::SeqCst), turn)
            && tokio::time::timeout(idle, stream.readable()).await.is_err()
        {
            return close(stream, rules.kind).await;
        }
        if unread.is_empty() && stream.peek(&mut [0]).await.unwrap_or(0) == 0 {
            return;
        }
        if rules.redirects && !state.has_redirected.swap(true, Ordering::SeqCst) {
            if read_request(&mut stream, &mut unread).await.is_some() {
                // The redirect keeps the origin and applies to a POST.
                let headers = [("Location", "/mcp?b"), ("Connection", "close")];
                let redirect = http_response("307 Temporary Redirect", &headers, b"");
                let _ = stream.write_all(&redirect).await;
            }
            return;
        }
        let number = state.requests.fetch_add(1, Ordering::SeqCst);
        let meets = state.meets(number, turn);
        match rules.time {
            CloseTime::AtFirstByte if meets => return close(stream, rules.kind).await,
            CloseTime::InHead if meets => {
                let _ = stream.read(&mut [0; 20]).await;
                return close(stream, rules.kind).await;
            }
            _ => {}
        }
        let Some(request) = read_request(&mut stream, &mut unread).await else {
            return;
        };
        state.count(&request.json());
        if request.rpc_method() == "tools/call" {
            tokio::time::sleep(rules.work).await;
        }
        if rules.time == CloseTime::InsteadOfResponse && meets {
            return close(stream, rules.kind).await;
        }
        let response = protocol::response(&request, &rules);
        if rules.time == CloseTime::InResponse && meets {
            let _ = stream.write_all(&response[..response.len() - 9]).await;
            return close(stream, rules.kind).await;
        }
        if stream.write_all(&response).await.is_err() {
            return;
        }
        if rules.time == CloseTime::AfterResponse && rules.only.is_none_or(|n| n == number) {
            return close(stream, rules.kind).await;
        }
    }
}

impl State {
    /// Returns whether the server closes the connection at a request: the `number`th request of the
    /// server, and the `turn`th of its connection.
    fn meets(&self, number: usize, turn: usize) -> bool {
        match self.rules.only {
            _ if self.rules.always => true,
            Some(only) => only == number,
            None => turn > 0,
        }
    }

    fn count(&self, message: &Value) {
        if message["method"] == "tools/call"
            && let Some(call) = message["params"]["arguments"]["call"].as_i64()
        {
            *self.calls.lock().unwrap().entry(call).or_default() += 1;
        }
    }
}

async fn close(mut stream: TcpStream, kind: CloseKind) {
    const DISCARD_TIMEOUT: Duration = Duration::from_millis(50);
    match kind {
        CloseKind::Fin => {
            let _ = stream.shutdown().await;
            let discard = async { while stream.read(&mut [0; 1024]).await.is_ok_and(|n| n > 0) {} };
            let _ = tokio::time::timeout(DISCARD_TIMEOUT, discard).await;
        }
        CloseKind::Close => {}
        CloseKind::Reset => stream.set_zero_linger().unwrap(),
    }
}
