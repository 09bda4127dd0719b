//! A server that drops all TCP packets.

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::*;

/// A listener with a full backlog: the system drops packets of further connections, like a
/// firewall.
struct Blackhole {
    port: u16,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Blackhole {
    async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        let timeout = Duration::from_millis(500);
        while let Ok(stream) = tokio::time::timeout(timeout, TcpStream::connect(address)).await {
            queued.push(stream.unwrap());
            assert!(queued.len() < 64, "the queue is never full");
        }
        Self {
            port: address.port(),
            _listener: listener,
            _queued: queued,
        }
    }
}

#[tokio::test]
async fn c2_a_call_to_an_unreachable_peer_ends_at_the_deadline() {
    let blackhole = Blackhole::new().await;
    for (scheme, transport) in [
        ("http", TransportKind::Auto),
        ("http", TransportKind::StreamableHttp),
        ("http", TransportKind::LegacySse),
        ("https", TransportKind::StreamableHttp),
        ("ws", TransportKind::WebSocket),
    ] {
        let url = format!("{scheme}://127.0.0.1:{}/mcp", blackhole.port);
        let mut config = ServerConfig::new("blackhole", &url).unwrap();
        config.transport = transport;
        config.timeout = Duration::from_millis(700);
        let client = McpClient::new(config);
        let before = Instant::now();
        let error = client.call_tool("roll", &json!({})).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Timeout, "{transport:?}: {error}");
        assert!(before.elapsed() < Duration::from_secs(5), "{transport:?}");
        // Disconnecting does not wait for the blackhole.
        let before = Instant::now();
        client.disconnect().await;
        assert!(before.elapsed() < Duration::from_secs(5), "{transport:?}");
    }
}
