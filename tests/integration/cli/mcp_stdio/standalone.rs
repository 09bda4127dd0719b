//! With `--standalone`, or without a running sidecar, the process serves the client itself.

use tempfile::TempDir;

use super::*;

struct StoreDirectory {
    directory: TempDir,
}

impl StoreDirectory {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    fn store(&self) -> std::path::PathBuf {
        self.directory.path().join("pillion.db")
    }

    fn client(&self) -> Client {
        let socket = self.directory.path().join("none.sock");
        let mut client = Client::for_sidecar(&socket, &self.store(), &["--standalone"]);
        client.initialize(&json!({}));
        client
    }

    /// Adds a server to the store with a sidecar that then exits.
    fn add(&self, server: &McpServer) {
        let body = json!({"name": "memos", "url": server.url}).to_string();
        let sidecar = self.sidecar();
        assert_eq!(sidecar.post("/api/v1/servers", body).status, 201);
    }

    /// Starts a sidecar on the same store.
    fn sidecar(&self) -> Daemon {
        let store = self.store();
        let variable = ("PILLION__STORE__LOCATION", store.to_str().unwrap());
        Daemon::with_variables("", &[variable])
    }
}

#[test]
fn a_named_sidecar_that_does_not_run_is_an_error() {
    let shared = StoreDirectory::new();
    let socket = shared.directory.path().join("none.sock");
    let attempt = |command: &mut Command| {
        let command = command.env("PILLION__STORE__LOCATION", shared.store());
        assert_eq!(
            failure(&command.stdin(Stdio::null()).output().unwrap(), 1),
            format!(
                "pillion: no sidecar listens on {}; start the sidecar with `pillion serve`, or \
                serve from this process with --standalone\n",
                socket.display()
            )
        );
        assert!(!shared.store().exists());
    };
    attempt(pillion(&["mcp-stdio", "--socket"]).arg(&socket));
    attempt(pillion(&["mcp-stdio"]).env("PILLION_SOCKET", &socket));
}

fn statuses(sidecar: &Daemon) -> Vec<Value> {
    let calls = sidecar.recorded("?tool=memos_echo");
    calls.iter().map(|call| call["status"].clone()).collect()
}

#[test]
fn f1_f4_stored_servers_are_used_and_calls_are_logged() {
    let (shared, server) = (StoreDirectory::new(), McpServer::echo());
    shared.add(&server);
    let mut client = shared.client();
    assert!(client.tools().contains(&"echo".to_owned()));
    assert_eq!(text(&client.call("echo", &json!({}))), "called \"echo\"");
    client.end();
    let sidecar = shared.sidecar();
    assert_eq!(statuses(&sidecar), ["success"]);
    let processes = shared.directory.path().join("processes");
    assert_eq!(std::fs::read_dir(processes).unwrap().count(), 0);
}

#[test]
fn f4_many_processes_share_a_store_and_only_calls_of_dead_ones_are_interrupted() {
    let (shared, server) = (StoreDirectory::new(), McpServer::echo());
    shared.add(&server);
    let mut long = shared.client();
    long.tools();
    server.set_mood(Mood::Asleep);
    long.send_call("echo", &json!({}));
    eventually("the call runs", || server.count("tools/call") == 1);
    // Neither another client nor a sidecar marks the running call as interrupted.
    let mut other = shared.client();
    let called = other.call("calculator", &json!({"expression": "6*7"}));
    assert_eq!(text(&called), "42");
    let sidecar = shared.sidecar();
    eventually("the running call is stored", || {
        statuses(&sidecar) == ["running"]
    });
    long.kill();
    assert_eq!(statuses(&sidecar), ["running"]);
    drop(shared.client());
    eventually("the next one has found it", || {
        statuses(&sidecar) == ["interrupted"]
    });
    other.end();
}

#[test]
fn f4_calls_interrupted_by_the_exit_are_recorded() {
    let (shared, server) = (StoreDirectory::new(), McpServer::echo());
    shared.add(&server);
    let mut client = shared.client();
    client.tools();
    server.set_mood(Mood::Asleep);
    client.send_call("echo", &json!({}));
    eventually("the call runs", || server.count("tools/call") == 1);
    kill(
        Pid::from_raw(client.child.id().cast_signed()),
        Signal::SIGTERM,
    )
    .unwrap();
    assert!(client.child.wait().unwrap().success());
    let status = statuses(&shared.sidecar()).remove(0);
    assert!(status == "cancelled" || status == "interrupted", "{status}");
}

#[test]
fn standalone_uses_no_running_sidecar() {
    let (shared, sidecar) = (StoreDirectory::new(), Daemon::start());
    let mut client = Client::for_sidecar(&sidecar.socket, &shared.store(), &["--standalone"]);
    client.initialize(&json!({}));
    let called = client.call("calculator", &json!({"expression": "6*7"}));
    assert_eq!(text(&called), "42");
    client.end();
    assert!(sidecar.recorded("").is_empty());
}
