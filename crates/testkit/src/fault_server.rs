use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::{Recorded, Recorder, Reply};

/// One step of a raw answer, below HTTP.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Sends the bytes.
    Send(Vec<u8>),
    /// Sends the bytes a number of times.
    Times(usize, Vec<u8>),
    /// Sends the bytes repeatedly until the client disconnects.
    Forever(Vec<u8>),
    /// Waits for a duration, or until the client disconnects.
    Wait(Duration),
    /// Waits until the test notifies the server.
    WaitFor(Arc<Notify>),
    /// Sends nothing more, and keeps the connection open.
    Hang,
    /// Closes the connection. Without this step, the server answers the next request on the
    /// connection.
    Close,
}

impl Fault {
    /// Returns a step that sends a complete HTTP response, with a status such as `200 OK`, a
    /// content type and a body.
    #[must_use]
    pub fn response(status: &str, content_type: &str, body: impl AsRef<[u8]>) -> Self {
        Self::response_with(status, &[("Content-Type", content_type)], body)
    }

    /// Returns a step that sends a complete HTTP response with these headers.
    #[must_use]
    pub fn response_with(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        Self::Send(http_response(status, headers, body.as_ref()))
    }

    /// Returns a step that sends a complete HTTP response with this status and a body in plain
    /// text.
    #[must_use]
    pub fn text(status: &str, body: impl AsRef<[u8]>) -> Self {
        Self::response(status, "text/plain", body)
    }

    /// Returns a step that sends a complete HTTP response with status 200 and a body in JSON.
    #[must_use]
    pub fn json(body: impl AsRef<[u8]>) -> Self {
        Self::response("200 OK", "application/json", body)
    }

    /// Returns a step that sends a complete HTTP response with status 200 and the JSON-RPC response
    /// to the request.
    #[must_use]
    pub fn reply(request: &Recorded, reply: &Reply) -> Self {
        Self::json(reply.response(&request.rpc_id()))
    }

    /// Returns a step that sends a redirect with a status such as `307 Temporary Redirect`.
    #[must_use]
    pub fn redirect(status: &str, location: &str) -> Self {
        Self::response_with(status, &[("Location", location)], "")
    }

    /// Returns a step that sends a message as an event of a stream.
    #[must_use]
    pub fn event(message: impl Display) -> Self {
        Self::Send(format!("data: {message}\n\n").into_bytes())
    }

    /// Returns a step that sends the head of a response whose body ends with the connection.
    #[must_use]
    pub fn head(content_type: &str) -> Self {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nConnection: close\r\n\r\n");
        Self::Send(head.into_bytes())
    }
}

/// Returns a complete HTTP response with these headers.
pub(crate) fn http_response(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut response = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        response.push_str(&format!("{name}: {value}\r\n"));
    }
    response.push_str("\r\n");
    [response.as_bytes(), body].concat()
}

type Script = dyn Fn(&Recorded) -> Vec<Fault> + Send + Sync;

/// A server on a raw TCP socket that answers each request with scripted bytes.
#[derive(Debug)]
pub struct FaultServer {
    /// The URL that clients connect to.
    pub url: String,
    /// The requests received so far.
    pub requests: Recorder,
    in_progress: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl FaultServer {
    /// Starts a server that answers each request with the steps of `script`.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start(script: impl Fn(&Recorded) -> Vec<Fault> + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::from_std(crate::listen()).unwrap(), script)
    }

    /// Starts a server that answers each request with the steps of `script`, on a socket that is
    /// already bound.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn on(
        listener: TcpListener,
        script: impl Fn(&Recorded) -> Vec<Fault> + Send + Sync + 'static,
    ) -> Self {
        let address: SocketAddr = listener.local_addr().unwrap();
        let requests = Recorder::default();
        let recorder = requests.clone();
        let in_progress = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&in_progress);
        let script: Arc<Script> = Arc::new(script);
        let task = tokio::spawn(async move {
            // Dropping the set with this task closes all connections.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (script, recorder) = (Arc::clone(&script), recorder.clone());
                connections.spawn(serve(stream, script, recorder, Arc::clone(&counter)));
            }
        });
        Self {
            url: format!("http://{address}/sse"),
            requests,
            in_progress,
            task,
        }
    }

    /// Returns the number of requests in progress: requests whose answer has not ended, and whose
    /// client is not known to have disconnected.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.in_progress.load(Ordering::SeqCst)
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Counts a request as in progress until this value is dropped.
struct InProgress(Arc<AtomicUsize>);

impl InProgress {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counter))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(
    mut stream: TcpStream,
    script: Arc<Script>,
    recorder: Recorder,
    counter: Arc<AtomicUsize>,
) {
    let mut unread = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut unread).await {
        let _in_progress = InProgress::new(&counter);
        recorder.add(request.clone());
        for fault in script(&request) {
            if !run_step(&mut stream, fault).await {
                return;
            }
        }
    }
}

/// Runs one step of an answer; returns `false` if the connection is closed.
async fn run_step(stream: &mut TcpStream, fault: Fault) -> bool {
    match fault {
        Fault::Send(bytes) => stream.write_all(&bytes).await.is_ok(),
        Fault::Times(times, bytes) => {
            for _ in 0..times {
                if stream.write_all(&bytes).await.is_err() {
                    return false;
                }
            }
            true
        }
        Fault::Forever(bytes) => {
            while stream.write_all(&bytes).await.is_ok() {}
            false
        }
        Fault::Wait(time) => tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = wait_for_disconnect(stream) => false,
        },
        Fault::WaitFor(notify) => {
            notify.notified().await;
            true
        }
        Fault::Hang => {
            // Reads and discards until the client disconnects.
            while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
            false
        }
        Fault::Close => false,
    }
}

/// Waits until the client disconnects; never returns if the client sends more data.
async fn wait_for_disconnect(stream: &TcpStream) {
    if stream.peek(&mut [0]).await.is_ok_and(|read| read > 0) {
        std::future::pending::<()>().await;
    }
}

/// Reads one request with a `Content-Length` body; `None` at the end of the connection.
pub(crate) async fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<Recorded> {
    let head_end = loop {
        if let Some(at) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        read_more(stream, unread).await?;
    };
    let head = String::from_utf8_lossy(&unread[..head_end]).into_owned();
    unread.drain(..head_end + 4);
    let mut lines = head.lines();
    let mut request_line = lines.next()?.split(' ');
    let (method, path) = (request_line.next()?.into(), request_line.next()?.into());
    let headers: HeaderMap = lines
        .filter_map(|line| line.split_once(": "))
        .filter_map(|(name, value)| {
            let name = HeaderName::try_from(name).ok()?;
            Some((name, HeaderValue::try_from(value).ok()?))
        })
        .collect();
    let length = headers
        .get("content-length")
        .and_then(|length| length.to_str().ok()?.parse().ok())
        .unwrap_or(0);
    while unread.len() < length {
        read_more(stream, unread).await?;
    }
    Some(Recorded {
        method,
        path,
        headers,
        body: Bytes::from_iter(unread.drain(..length)),
    })
}

async fn read_more(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<()> {
    let read = stream.read_buf(unread).await.ok()?;
    (read > 0).then_some(())
}
