use pillion_client::ClientError;

use crate::prelude::*;

#[test]
fn the_sidecar_exits_after_calls_in_flight() {
    let mut sidecar = Sidecar::start();
    let client = sidecar.client();
    let call = std::thread::spawn(move || {
        client.execute("sleep", &json!({"ms": 1500}), &Caller::default())
    });
    sidecar.wait_for_sleeps(1);
    sidecar.stop();
    // No new connection is served while the call runs.
    let late = sidecar.client();
    eventually("new connections are refused", || {
        matches!(
            late.fetch(route::HEALTH),
            Err(ClientError::NotRunning { .. })
        )
    });
    assert!(!call.is_finished());
    assert!(call.join().unwrap().unwrap().is_success());
    assert_eq!(sidecar.end().cut_off_connections, 0);
}

#[test]
fn idle_connections_do_not_delay_the_shutdown() {
    let sidecar = Sidecar::start();
    let _silent = UnixStream::connect(&sidecar.socket).unwrap();
    let client = sidecar.client();
    client.fetch(route::HEALTH).unwrap();
    let started = Instant::now();
    assert_eq!(sidecar.end().cut_off_connections, 0);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn after_the_grace_period_calls_are_aborted() {
    let sidecar = Sidecar::with_config("[shutdown]\ngrace_period_ms = 200");
    let client = sidecar.client();
    let call = std::thread::spawn(move || {
        client.execute("sleep", &json!({"ms": 25_000}), &Caller::default())
    });
    sidecar.wait_for_sleeps(1);
    let started = Instant::now();
    assert_eq!(sidecar.end().cut_off_connections, 1);
    assert!(started.elapsed() < Duration::from_secs(10));
    let error = call.join().unwrap().unwrap_err();
    assert_matches!(error, ClientError::Disconnected { .. });
}

#[test]
fn sigterm_and_sigint_exit_with_0() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut daemon = Daemon::start();
        daemon.signal(signal);
        assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
        assert!(!daemon.socket.exists());
        assert_contains!(daemon.log(), "\"message\":\"Stopped\"");
    }
}

/// A call whose head was sent, so that its request is in flight; the body follows later.
pub struct CallInFlight(UnixStream);

impl CallInFlight {
    pub fn begin(daemon: &Daemon) -> Self {
        let mut stream = daemon.connect();
        let head = "POST /api/v1/tools/execute/calculator HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 23\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        Self(stream)
    }

    /// Sends the body. Returns the response, which has to have the result.
    pub fn finish(mut self) -> String {
        self.0.write_all(b"{\"expression\": \"2 + 2\"}").unwrap();
        let mut response = String::new();
        self.0.read_to_string(&mut response).unwrap();
        assert_contains!(response, "\"result\":4");
        response
    }
}

#[test]
fn sigterm_lets_a_request_in_flight_finish() {
    let mut daemon = Daemon::start();
    let call = CallInFlight::begin(&daemon);
    daemon.signal(Signal::SIGTERM);
    daemon.wait_for_log("\"message\":\"Stopping\"");
    call.finish();
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn the_socket_of_a_killed_sidecar_is_replaced() {
    let mut daemon = Daemon::start();
    daemon.kill();
    assert!(daemon.socket.exists());
    let again = daemon.again();
    let client = pillion_client::Client::new(&again.socket);
    assert_eq!(client.fetch(route::HEALTH).unwrap().status, "ok");
}
