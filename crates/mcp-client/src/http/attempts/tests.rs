use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use parking_lot::Mutex;
use pillion_egress::{KeepAliveEstimate, PoolUse};
use std::time::Duration;

use super::*;
use crate::ServerConfig;

const WHOLE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
const CUT: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{}";

/// A server that keeps connections open, and records on which connection each request arrives.
struct Server {
    link: HttpLink,
    served: Served,
}

/// The numbers of the connections over which the requests arrived.
type Served = Arc<Mutex<Vec<usize>>>;

impl Server {
    /// Starts a server that closes the connection during the response to request number `cut`,
    /// counted from 0.
    async fn start(cut: Option<usize>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let served = Served::default();
        let requests = Arc::clone(&served);
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, number, cut, Arc::clone(&requests)));
            }
        });
        let mut link =
            HttpLink::new(&ServerConfig::new("x", &url).unwrap(), &Arc::default()).unwrap();
        link.direct_client = None;
        Self { link, served }
    }

    /// Sends a tool call, and returns the number of the connection that carried the call.
    async fn call(&self) -> usize {
        let (link, headers) = (&self.link, self.link.message_headers());
        let sent = link.post(&link.url, headers, Bytes::from("{}"), RepeatSafety::Never);
        let _ = link.read_body(sent.await.unwrap()).await;
        *self.served.lock().last().unwrap()
    }

    fn keep_alive(&self) -> &KeepAliveEstimate {
        self.link.reachability.keep_alive()
    }
}

async fn serve(mut stream: TcpStream, number: usize, cut: Option<usize>, requests: Served) {
    let mut read = Vec::new();
    loop {
        while !read.ends_with(b"\r\n\r\n{}") {
            if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                return;
            }
        }
        read.clear();
        let is_cut = cut == Some(requests.lock().len());
        requests.lock().push(number);
        let response = if is_cut { CUT } else { WHOLE };
        if stream.write_all(response).await.is_err() || is_cut {
            return;
        }
    }
}

#[tokio::test]
async fn frequent_calls_keep_connections_again_after_a_cut_off_response() {
    let server = Server::start(Some(1)).await;
    let first = server.call().await;
    sleep(Duration::from_millis(60)).await;
    assert_eq!(server.call().await, first, "the response that is cut off");
    // The client behaves as after a second cut-off response on a connection that was never idle.
    server.keep_alive().note_broken(Duration::ZERO);
    for _ in 0..5 {
        let before = server.served.lock().iter().max().copied();
        assert!(Some(server.call().await) > before, "a new connection");
        sleep(Duration::from_millis(5)).await;
    }
    // The client forgets the close, as it does after a while.
    server.keep_alive().forget_closes();
    assert!(!server.keep_alive().is_proven());
    for _ in 0..40 {
        server.call().await;
        sleep(Duration::from_millis(5)).await;
    }
    assert!(server.keep_alive().is_proven());
    let last = server.call().await;
    for _ in 0..20 {
        assert_eq!(server.call().await, last);
    }
}

#[tokio::test]
async fn a_cut_off_response_over_a_new_connection_says_nothing_about_kept_ones() {
    let server = Server::start(Some(0)).await;
    server.call().await;
    let pending = server
        .link
        .reachability
        .choose_pool_use(ConnectionChoice::Any);
    let pool_use = pending.await;
    let PoolUse::Pooled { max_idle, .. } = pool_use else {
        panic!("{pool_use:?}");
    };
    assert_eq!(max_idle, Duration::MAX);
}

#[tokio::test]
async fn a_connection_above_the_idle_limit_is_replaced_by_one_that_is_kept() {
    let server = Server::start(None).await;
    server.keep_alive().note_reused();
    server.keep_alive().note_closed(Duration::from_secs(4));
    for _ in 0..2 {
        assert_eq!(server.call().await, 0);
    }
    for number in 1..3 {
        sleep(Duration::from_millis(2100)).await;
        for _ in 0..3 {
            assert_eq!(server.call().await, number);
        }
    }
}
