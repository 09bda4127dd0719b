//! A sidecar that is stopped (`SIGSTOP`) for longer than a timeout, and then continues: what arrived
//! meanwhile is read before the timeout counts.

use pillion_testkit::Reply;

use super::*;
use crate::workers::{Worker, greet};

/// The timeout that passes while the sidecar is stopped, and the time for which it is stopped.
const TIMEOUT_MS: u64 = 1_500;
const STOP: Duration = Duration::from_millis(3_500);

/// Time for the sidecar to reach the state in which it is stopped.
const SETTLE: Duration = Duration::from_millis(400);

fn stop_while(daemon: &Daemon, work: impl FnOnce()) {
    daemon.signal(Signal::SIGSTOP);
    work();
    thread::sleep(STOP);
    daemon.signal(Signal::SIGCONT);
}

fn request(token: &str, line: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

fn read_all(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(read.is_ok(), "{read:?}: {text}");
    text
}

fn assert_ok(response: &str) {
    assert_starts_with!(response, "HTTP/1.1 200");
}

#[test]
fn l3_requests_that_arrive_while_the_sidecar_is_stopped_authenticate_their_connections() {
    let server = Server::start(&format!("authentication_timeout_ms = {TIMEOUT_MS}"));
    let connect = |_| server.connect();
    let mut with_request: Vec<TcpStream> = (0..10).map(connect).collect();
    let mut with_half: Vec<TcpStream> = (0..5).map(connect).collect();
    let mut silent = server.connect();
    let text = request(READER, "GET /api/v1/tools/", "");
    let (first, second) = text.split_at(30);
    for stream in &mut with_half {
        stream.write_all(first.as_bytes()).unwrap();
    }
    thread::sleep(SETTLE);
    stop_while(&server.daemon, || {
        for stream in &mut with_request {
            stream.write_all(text.as_bytes()).unwrap();
        }
        for stream in &mut with_half {
            stream.write_all(second.as_bytes()).unwrap();
        }
    });
    for stream in with_request.iter_mut().chain(&mut with_half) {
        assert_ok(&read_all(stream));
    }
    // A connection that sends nothing is still closed.
    assert!(silent.read(&mut [0; 8]).is_ok_and(|count| count == 0));
}

#[test]
fn c2_idle_connections_and_bodies_survive_a_stop() {
    let server = Server::start(&format!(
        "[http]\nidle_timeout_ms = {TIMEOUT_MS}\nbody_timeout_ms = {TIMEOUT_MS}"
    ));
    let execute = "POST /api/v1/tools/execute/calculator";
    let body = r#"{"expression": "2 + 2"}"#;
    let text = request(RUNNER, execute, body);
    // Each stream has sent a part of its request before the sidecar is stopped: nothing, a part of
    // the head, the head, and a part of the body.
    let head = text.len() - body.len();
    for sent in [0, 20, head, head + 5] {
        let mut tcp = server.connect();
        let mut unix = UnixStream::connect(&server.daemon.socket).unwrap();
        // Both connections have served a request.
        for stream in [&mut tcp as &mut dyn ReadWrite, &mut unix] {
            let keep = request(RUNNER, "GET /healthz", "").replace("connection: close\r\n", "");
            stream.write_all(keep.as_bytes()).unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(&text.as_bytes()[..sent]).unwrap();
        }
        thread::sleep(SETTLE);
        stop_while(&server.daemon, || {
            tcp.write_all(&text.as_bytes()[sent..]).unwrap();
            unix.write_all(&text.as_bytes()[sent..]).unwrap();
        });
        for stream in [&mut tcp as &mut dyn ReadWrite, &mut unix] {
            let response = read_all(&mut &mut *stream);
            assert!(response.contains(r#""success":true"#), "{sent}: {response}");
        }
    }
}

trait ReadWrite: Read + Write {}
impl<S: Read + Write> ReadWrite for S {}

#[test]
fn c2_responses_that_arrive_while_the_sidecar_is_stopped_are_in_time() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let servers = [
        ("json", Dialect::StreamableJson),
        ("stream", Dialect::StreamableSse),
    ]
    .map(|(label, dialect)| {
        let server = FakeMcp::start_with(dialect, "tools/call", |_| {
            let result = json!({"content": [{"type": "text", "text": "in time"}]});
            // The result arrives while the sidecar is stopped.
            Reply::result(&result).after(Duration::from_millis(1_000))
        });
        let toml = server_entry(label, &server.url, "");
        (server, toml)
    });
    let toml = servers.each_ref().map(|(_, toml)| toml.as_str()).concat();
    let server = Server::start(&format!("[executor]\ntimeout_ms = {TIMEOUT_MS}\n{toml}"));
    let mut worker = Worker::connect(&server.daemon.socket, &greet());
    eventually("the tools are listed", || {
        let (_, _, list) = server.authorized(RUNNER, "GET /api/v1/tools/", "");
        list.contains("json_roll") && list.contains("stream_roll") && list.contains("greet")
    });
    let tools = ["json_roll", "stream_roll", "greet"];
    let mut calls = tools.map(|tool| {
        let mut stream = server.connect();
        let line = format!("POST /api/v1/tools/execute/{tool}");
        let text = request(RUNNER, &line, r#"{"name": "Ann"}"#);
        stream.write_all(text.as_bytes()).unwrap();
        stream
    });
    let call = worker.read().unwrap();
    thread::sleep(SETTLE);
    stop_while(&server.daemon, || {
        let result = json!({"content": [{"type": "text", "text": "in time"}]});
        worker.respond(&call, &result);
    });
    for (tool, stream) in tools.iter().zip(&mut calls) {
        let response = read_all(stream);
        assert!(response.contains("in time"), "{tool}: {response}");
    }
}
