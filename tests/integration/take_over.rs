use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};

use crate::prelude::*;
use crate::program::Guarded;
use crate::shutdown::CallInFlight;

/// Makes calls in a loop, on a reused connection and on new ones, until stopped. Every call has to
/// succeed.
fn calls(socket: &std::path::Path, stop: &AtomicBool, keep: bool) -> usize {
    let reused = Client::new(socket);
    let mut calls = 0;
    while !stop.load(Ordering::Relaxed) {
        let fresh;
        let client = if keep {
            &reused
        } else {
            fresh = Client::new(socket);
            &fresh
        };
        let arguments = json!({"expression": "6 * 7"});
        let response = client
            .execute("calculator", &arguments, &Caller::default())
            .unwrap_or_else(|error| panic!("call {calls}: {error}"));
        assert!(response.is_success(), "{response:?}");
        calls += 1;
    }
    calls
}

#[test]
fn no_call_fails_while_one_sidecar_takes_over_from_another_three_times() {
    let mut daemon = Daemon::start();
    let socket = daemon.socket.clone();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let callers = [true, false, true, false].map(|keep| {
            scope.spawn({
                let (socket, stop) = (&socket, &stop);
                move || calls(socket, stop, keep)
            })
        });
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(300));
            let next = daemon.successor();
            // The predecessor exits by itself, successfully.
            assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
            assert_contains!(daemon.log(), "Another sidecar has taken over");
            daemon = next;
        }
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        for caller in callers {
            assert!(caller.join().unwrap() > 10);
        }
    });
    // The last sidecar owns the socket, as if it had bound the socket.
    let output = program::run(&["serve", "--socket", socket.to_str().unwrap()], &[]);
    assert_contains!(program::stderr(&output), "already serves");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn a_call_in_flight_finishes_in_its_original_sidecar() {
    let mut daemon = Daemon::start();
    let call = CallInFlight::begin(&daemon);
    let next = daemon.successor();
    assert_eq!(daemon.get("/healthz").status, 200);
    std::thread::sleep(Duration::from_millis(100));
    assert_contains!(call.finish().to_lowercase(), "connection: close");
    assert_eq!(daemon.wait().code(), Some(0));
    drop(next);
}

#[test]
fn f4_calls_of_the_old_sidecar_are_not_interrupted_in_the_call_log() {
    let server = McpServer::echo();
    let toml = detected_entry("far", &server.url, "timeout_ms = 3000");
    let daemon = Daemon::with_config(&toml);
    let client = daemon.client();
    client.fetch(route::LIST_TOOLS).unwrap();
    let count = |status: &str| {
        let client = daemon.client();
        let request = client.request(route::LIST_TOOL_CALLS, []);
        let response = request.query([("status", status)]).send().unwrap();
        response.decode().unwrap().calls.len()
    };
    server.set_mood(Mood::Asleep);
    let call =
        std::thread::spawn(move || client.execute("far_echo", &json!({}), &Caller::default()));
    eventually("the call runs", || count("running") == 1);
    let next = daemon.successor();
    assert_eq!((count("running"), count("interrupted")), (1, 0));
    assert!(!call.join().unwrap().unwrap().is_success());
    eventually("its end is recorded", || count("error") == 1);
    drop(next);
}

#[test]
fn a_successor_with_a_bad_configuration_changes_nothing() {
    let daemon = Daemon::start();
    let socket = daemon.socket.to_str().unwrap();
    let output = program::run(
        &["serve", "--take-over", "--socket", socket],
        &[("PILLION__EXECUTOR__TIMEOUT_MS", "soon")],
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(daemon.get("/healthz").status, 200);
}

#[test]
fn a_takeover_without_a_running_sidecar_is_a_start() {
    let mut daemon = Daemon::start();
    daemon.kill();
    let next = daemon.successor();
    assert_eq!(next.get("/healthz").status, 200);
}

/// A minimal service manager that holds the socket and receives notifications.
struct Manager {
    directory: tempfile::TempDir,
    listener: UnixListener,
    notices: UnixDatagram,
}

impl Manager {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("s")).unwrap();
        let notices = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        notices
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self {
            directory,
            listener,
            notices,
        }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("s")
    }

    fn start(&self) -> Guarded {
        // The shell duplicates its standard input to descriptor 3.
        let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve --config pillion.toml --socket \"$1\" 3<&0 </dev/null";
        std::fs::write(
            self.directory.path().join("pillion.toml"),
            "# No settings.\n",
        )
        .unwrap();
        let program = pillion(&[]).get_program().to_owned();
        let listener: OwnedFd = self.listener.try_clone().unwrap().into();
        let mut command = std::process::Command::new("sh");
        command
            .arg("-c")
            .arg(script)
            .arg(program)
            .arg(self.socket())
            .env_clear()
            .env("PILLION__STORE__LOCATION", self.directory.path().join("db"))
            .env("NOTIFY_SOCKET", self.directory.path().join("notify"))
            .current_dir(self.directory.path())
            .stdin(Stdio::from(listener))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Guarded::spawn(&mut command)
    }

    /// Returns the next notification that the service manager receives.
    fn hear(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.notices.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }
}

fn signal(child: &std::process::Child, signal: Signal) {
    let id = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(id, signal).unwrap();
}

#[test]
fn under_a_service_manager_that_holds_the_socket_no_call_fails_while_it_restarts() {
    let manager = Manager::new();
    let socket = manager.socket();
    let stop = AtomicBool::new(false);
    let mut child = manager.start();
    assert_contains!(manager.hear(), "READY=1");
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| calls(&socket, &stop, false));
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(200));
            signal(&child, Signal::SIGTERM);
            assert_contains!(manager.hear(), "STOPPING=1");
            assert_eq!(child.wait().unwrap().code(), Some(0));
            assert!(socket.exists());
            child = manager.start();
            assert_contains!(manager.hear(), "READY=1");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(caller.join().unwrap() > 3);
    });
}

#[test]
fn the_service_manager_is_notified_of_a_reload_and_its_outcome() {
    let manager = Manager::new();
    let child = manager.start();
    assert_contains!(manager.hear(), "READY=1");
    signal(&child, Signal::SIGHUP);
    assert_contains!(manager.hear(), "RELOADING=1", "MONOTONIC_USEC=");
    assert_contains!(manager.hear(), "READY=1");
    std::fs::write(manager.directory.path().join("pillion.toml"), "nonsense").unwrap();
    signal(&child, Signal::SIGHUP);
    eventually("the failed reload is reported", || {
        manager
            .hear()
            .contains("rejected the new configuration: pillion.toml:1: ")
    });
}
