//! Clients that read slowly, and clients that read nothing.

use nix::sys::socket::{setsockopt, sockopt};
use pillion_testkit::Reply;
use tokio::runtime::Runtime;

use super::*;

const MIB: usize = 1024 * 1024;

/// An MCP server with its own runtime.
struct Far {
    _server: FakeMcp,
    _runtime: Runtime,
}

/// Starts a server with a tool whose result has `bytes` bytes. Also returns the configuration, in
/// which the tool is `far_roll`.
fn large_tool(bytes: usize) -> (Far, String) {
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.enter();
    let text = "0123456789abcdef".repeat(bytes / 16);
    let result = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    let server = FakeMcp::start_with(Dialect::StreamableJson, "tools/call", move |_| {
        Reply::raw_result(&result)
    });
    let toml = server_entry("far", &server.url, "");
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
    // The time before the response begins is not that of the reader, so it does not count.
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
    assert_lacks!(server.daemon.log(), "the client stopped reading");
}

/// A client that reads `bytes` bytes, then pauses for `pause`, repeatedly.
struct SlowReader {
    stream: Box<dyn Stream>,
    bytes: usize,
    pause: Duration,
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

impl SlowReader {
    fn new(stream: impl Stream + 'static, bytes: usize, pause: Duration) -> Self {
        Self {
            stream: Box::new(stream),
            bytes,
            pause,
        }
    }

    /// Reads slowly during `during`, then the rest. Returns the size of the response.
    fn run(mut self, during: Duration) -> usize {
        ask(&mut self.stream);
        let mut buffer = vec![0; self.bytes];
        let mut total = self.stream.read(&mut buffer).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < during {
            thread::sleep(self.pause);
            total += self.stream.read(&mut buffer).unwrap();
        }
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        total + rest.len()
    }
}

/// Readers of several rates, over TCP and the Unix socket, with large and small receive buffers.
fn readers_of_all_rates(server: &Server) -> Vec<SlowReader> {
    let tenth = Duration::from_millis(100);
    let tcp = || server.connect();
    let small = |stream: TcpStream| {
        setsockopt(&stream, sockopt::RcvBuf, &4096).unwrap();
        stream
    };
    let unix = || UnixStream::connect(&server.daemon.socket).unwrap();
    vec![
        // 100 B/s, 1 kB/s, 3 kB/s, 10 kB/s, and bursts.
        SlowReader::new(tcp(), 10, tenth),
        SlowReader::new(tcp(), 100, tenth),
        SlowReader::new(tcp(), 300, tenth),
        SlowReader::new(tcp(), 1_000, tenth),
        SlowReader::new(tcp(), 1_000, 15 * tenth),
        SlowReader::new(small(tcp()), 10, tenth),
        SlowReader::new(small(tcp()), 300, tenth),
        SlowReader::new(unix(), 10, tenth),
        SlowReader::new(unix(), 300, tenth),
    ]
}

/// Asserts that all readers get their whole responses, although they read slowly for `seconds`.
fn assert_all_served(server: &Server, seconds: u64, bytes: usize) {
    let during = Duration::from_secs(seconds);
    let readers: Vec<_> = readers_of_all_rates(server)
        .into_iter()
        .map(|reader| thread::spawn(move || reader.run(during)))
        .collect();
    for (number, reader) in readers.into_iter().enumerate() {
        let total = reader.join().expect("the reader got its response");
        assert!(total > bytes, "reader {number}: {total}");
    }
    assert_lacks!(server.daemon.log(), "the client stopped reading");
}

#[test]
fn h6_readers_of_all_rates_are_served() {
    let bytes = 4 * MIB;
    let (_far, far) = large_tool(bytes);
    // The environment variable extends the test beyond the default write timeout.
    let long = std::env::var_os("PILLION_LONG_TESTS").is_some();
    let (timeout_ms, seconds) = if long { (30_000, 150) } else { (2_500, 11) };
    let server = Server::start(&format!(
        "[http]\nwrite_timeout_ms = {timeout_ms}\nmax_waiting_bytes = 400000000\n{far}"
    ));
    assert_all_served(&server, seconds, 2 * bytes);
    let mut stuck = server.connect();
    ask(&mut stuck);
    eventually("the client that reads nothing is disconnected", || {
        let log = server.daemon.log();
        log.contains("the client stopped reading")
    });
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

#[test]
fn h6_slow_readers_are_served_when_too_much_waits_for_them() {
    let bytes = 2 * MIB;
    let (_far, far) = large_tool(bytes);
    // The responses have 25 MB together.
    let server = Server::start(&format!("[http]\nmax_waiting_bytes = 16000000\n{far}"));
    let tenth = Duration::from_millis(100);
    let rates = [500, 1_000, 2_000, 4_000];
    let readers: Vec<_> = (0..12)
        .map(|number| {
            let rate = rates[number % rates.len()];
            let reader = match number / rates.len() {
                // The client of the Unix socket is another principal.
                0 => {
                    let stream = UnixStream::connect(&server.daemon.socket).unwrap();
                    SlowReader::new(stream, rate, tenth)
                }
                _ => SlowReader::new(server.connect(), rate, tenth),
            };
            thread::spawn(move || reader.run(Duration::from_secs(5)))
        })
        .collect();
    for (number, reader) in readers.into_iter().enumerate() {
        let total = reader.join().expect("the reader got its response");
        assert!(total > 2 * bytes, "reader {number}: {total}");
    }
    assert_lacks!(server.daemon.log(), "the client stopped reading");
}

/// Opens `count` connections whose clients request a large result and read nothing.
fn stuck_readers(server: &Server, count: usize) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = server.connect();
        ask(&mut stream);
        stream
    };
    (0..count).map(open).collect()
}

/// Returns how long a batch of `count` calls of the large tool takes, and its results.
fn batch(server: &Server, count: usize, mode: &str) -> (Duration, Vec<Value>) {
    let calls: Vec<_> = (0..count)
        .map(|number| json!({"id": number.to_string(), "name": "far_roll", "arguments": {}}))
        .collect();
    let body = json!({"calls": calls, "mode": mode}).to_string();
    let began = Instant::now();
    let (_, _, response) = server.authorized(RUNNER, "POST /api/v1/tools/batch-execute", &body);
    let mut response: Value = serde_json::from_str(&response).unwrap();
    let Value::Array(results) = response["results"].take() else {
        panic!("{response:.500}");
    };
    (began.elapsed(), results)
}

#[test]
fn h6_the_results_of_a_batch_do_not_wait_for_each_other() {
    let (_far, far) = large_tool(4 * MIB);
    let server = Server::start(&format!("[http]\nmax_waiting_bytes = 20000000\n{far}"));
    // The first call makes the sidecar list the tool.
    ask(&mut server.connect());
    for mode in ["sequential", "parallel"] {
        let (took, results) = batch(&server, 6, mode);
        // The batch ends before the deadlines of its calls.
        assert!(took < Duration::from_secs(28), "{mode}: {took:?}");
        let is_stored = |result: &&Value| result.to_string().contains("stored_result");
        let stored = results.iter().filter(is_stored).count();
        // The results that do not fit are stored, and none is lost.
        assert!(
            results.iter().all(|result| result["success"] == true),
            "{results:.500?}"
        );
        assert!((1..6).contains(&stored), "{mode}: {stored} are stored");
    }
}

#[test]
fn h6_the_memory_for_stuck_readers_is_limited() {
    for (count, bytes) in [(120, 8 * MIB), (124, 1_800 * 1024)] {
        let (_far, far) = large_tool(bytes);
        let server = Server::start(&format!("max_connections = 200\n{far}"));
        // The first call makes the sidecar list the tool, and lets the process reach its usual
        // size.
        let execute = "POST /api/v1/tools/execute/far_roll";
        let (_, _, response) = server.authorized(RUNNER, execute, "{}");
        assert!(response.len() > 2 * bytes);
        let before = server.daemon.memory_bytes("VmHWM");
        let stuck = stuck_readers(&server, count);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(8) {
            // Another principal gets its responses at once.
            let (requested_at, calculator) =
                (Instant::now(), "POST /api/v1/tools/execute/calculator");
            let sum = server.authorized(ADMIN, calculator, r#"{"expression": "2 + 2"}"#);
            assert_contains!(sum.2, r#""success":true,"#);
            assert!(requested_at.elapsed() < Duration::from_secs(28));
            thread::sleep(Duration::from_millis(500));
        }
        let (_, _, response) = server.authorized(ADMIN, execute, "{}");
        assert!(response.len() > 2 * bytes, "{response:.200}");
        let grown = (server.daemon.memory_bytes("VmHWM") - before) / MIB as u64;
        // The growth is at most the limit, and what the running calls need to read and build their
        // results.
        assert!(
            grown < 64 + 110,
            "{count} readers of {bytes} bytes: {grown} MiB"
        );
        drop(stuck);
    }
}
