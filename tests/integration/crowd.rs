use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::prelude::*;

const IDLE: usize = 1_000;
const BUSY: usize = 200;

/// Raises the descriptor limit of this process and its children to the maximum.
fn raise_limit() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

#[test]
fn a_thousand_idle_connections_do_not_affect_two_hundred_busy_ones() {
    raise_limit();
    let daemon = Daemon::with_config("[http]\nmax_connections = 1500\n");
    let idle: Vec<_> = (0..IDLE)
        .map(|_| UnixStream::connect(&daemon.socket).unwrap())
        .collect();
    let open = || {
        let status = daemon.get("/api/v1/status").json();
        status["connections"].as_u64().unwrap()
    };
    eventually("all of them are open", || open() > IDLE as u64);
    thread::scope(|scope| {
        for number in 0..BUSY {
            let socket = &daemon.socket;
            scope.spawn(move || {
                for _ in 0..5 {
                    let body = format!("{{\"expression\": \"{number} + 1\"}}");
                    let response = socket.post("/api/v1/tools/execute/calculator", body).json();
                    let sum = &response["result"]["data"]["result"];
                    assert_eq!(sum.as_u64(), Some(number as u64 + 1), "{response}");
                }
            });
        }
    });
    let status = daemon.get("/api/v1/status").json();
    assert_eq!(status["calls"]["total"], BUSY * 5);
    assert_eq!(status["calls"]["failed"], 0);
    drop(idle);
    eventually("all connections are closed", || open() < 50);
    let status = daemon.get("/api/v1/status").json();
    let descriptors = status["process"]["open_descriptors"].as_u64().unwrap();
    assert!(
        descriptors < 100,
        "{descriptors} descriptors are still open"
    );
}
