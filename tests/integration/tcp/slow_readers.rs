//! Clients that read slowly, and clients that read nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use pillion_testkit::{Dialect, FakeMcp, Reply};
use tokio::runtime::Runtime;

use super::{RUNNER, Server};
use crate::program::eventually;

const MIB: usize = 1024 * 1024;

/// A server with its runtime.
struct Far {
    _server: FakeMcp,
    _runtime: Runtime,
}

/// Starts a server with a tool whose result has `bytes` bytes. Returns the configuration that names
/// the tool `far_roll`.
fn large_tool(bytes: usize) -> (Far, String) {
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.enter();
    let text = "0123456789abcdef".repeat(bytes / 16);
    let result = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    let server = FakeMcp::builder(Dialect::StreamableJson)
        .on("tools/call", move |_| Reply::raw_result(&result))
        .start();
    let toml = format!(
        "[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n",
        server.url
    );
    let far = Far {
        _server: server,
        _runtime: runtime,
    };
    (far, toml)
}

fn ask(stream: &mut impl Write) {
    let head = format!(
        "POST /api/v1/tools/execute/far_roll HTTP/1.1\r\nhost: localhost\r\n\
         authorization: Bearer {RUNNER}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(head.as_bytes()).unwrap();
}

/// Reads `bytes` bytes each tenth of a second during `during`, then the rest. Returns the size of
/// the response.
fn read_slowly(mut stream: impl Read, bytes: usize, during: Duration) -> usize {
    let mut buffer = vec![0; bytes];
    // The time until the response begins is the tool's time.
    let mut total = stream.read(&mut buffer).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < during {
        thread::sleep(Duration::from_millis(100));
        total += stream.read(&mut buffer).unwrap();
    }
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    total + rest.len()
}

#[test]
fn h6_a_slow_and_steady_reader_gets_its_whole_response() {
    let (_far, far) = large_tool(8 * MIB);
    let server = Server::start(&format!("[http]\nwrite_timeout_ms = 4000\n{far}"));
    let mut unix = UnixStream::connect(&server.daemon.socket).unwrap();
    let mut tcp = server.connect();
    let slow = Duration::from_secs(13);
    let totals = thread::scope(|scope| {
        // The client reads 10 kB/s over the Unix socket and 40 kB/s over TCP.
        let unix = scope.spawn(move || {
            ask(&mut unix);
            read_slowly(unix, 1_000, slow)
        });
        let tcp = scope.spawn(move || {
            ask(&mut tcp);
            read_slowly(tcp, 4_000, slow)
        });
        [unix.join().unwrap(), tcp.join().unwrap()]
    });
    for total in totals {
        assert!(total > 16 * MIB, "{total}");
    }
    let log = server.daemon.log();
    assert!(!log.contains("the client stopped reading"), "{log}");
}

#[test]
fn h6_stopped_readers_are_disconnected_when_too_much_waits_for_them() {
    let (_far, far) = large_tool(8 * MIB);
    let server = Server::start(&format!(
        "[http]\nwrite_timeout_ms = 120000\nmax_waiting_bytes = 20000000\n{far}"
    ));
    let connect = || UnixStream::connect(&server.daemon.socket).unwrap();
    let mut steady = connect();
    ask(&mut steady);
    let steady = thread::spawn(move || read_slowly(steady, 50_000, Duration::from_secs(8)));
    let stuck: Vec<_> = (0..6)
        .map(|_| {
            let mut stream = connect();
            ask(&mut stream);
            stream
        })
        .collect();
    let cut_off = || {
        let log = server.daemon.log();
        log.matches("the client stopped reading").count()
    };
    // Of these results of 8 MiB, at most three fit into the limit.
    eventually("most are cut off", || cut_off() >= 4);
    let total = steady.join().unwrap();
    assert!(total > 16 * MIB, "{total}: {}", server.daemon.log());
    assert!(cut_off() <= 6);
    drop(stuck);
}
