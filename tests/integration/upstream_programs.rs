//! MCP servers that the sidecar runs as programs: killed during a call, and counted after many
//! clients have disconnected.

use nix::sys::signal::kill;
use nix::unistd::Pid;
use pillion_testkit::fake_stdio;

use crate::prelude::*;
use crate::processes::{command_line, descendants, exists, started_with};
use crate::program::Guarded;

const CLIENTS: usize = 20;

/// Starts a sidecar with the misbehaving server `near` and these tools of it.
fn sidecar(tools: &str) -> Daemon {
    let (program, arguments) = fake_stdio(&[&format!("list:{tools}")]);
    let toml = format!(
        "[executor]\nmax_concurrent = 64\n[[mcp_servers]]\nlabel = \"near\"\n\
         command = \"{program}\"\nargs = {}\n",
        json!(arguments)
    );
    Daemon::with_config(&toml)
}

/// Returns the outcome of a call over REST.
fn call(daemon: &Daemon, tool: &str) -> Value {
    let path = format!("/api/v1/tools/execute/near_{tool}");
    let response = daemon.post(&path, "{}").json();
    assert!(response["result"].is_object(), "{response}");
    response["result"].clone()
}

fn process_id(daemon: &Daemon) -> u32 {
    daemon.client().fetch(route::STATUS).unwrap().pid
}

/// Returns the server's processes below the sidecar.
fn servers(sidecar: u32) -> Vec<u32> {
    let mut all = descendants(sidecar);
    all.retain(|&id| command_line(id).starts_with("python3 "));
    all
}

/// Returns the processes of the server: its own, its group's, and three that it starts now.
fn family(daemon: &Daemon) -> Vec<u64> {
    let forked = call(daemon, "fork")["data"]["pids"].clone();
    let state = call(daemon, "state")["data"].clone();
    let forked = forked.items().iter();
    let ids: Vec<_> = [&state["pid"], &state["group"]]
        .into_iter()
        .chain(forked)
        .map(|id| id.as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), 5);
    assert!(ids.iter().all(|&id| exists(id)), "{ids:?}");
    ids
}

/// Returns how many calls the server's process has received, this one included.
fn calls_seen(daemon: &Daemon) -> usize {
    let result = call(daemon, "seen");
    let seen = result["data"]["seen"].items().iter();
    seen.filter(|method| *method == "tools/call").count()
}

#[test]
fn e9_a_program_killed_during_a_call_fails_it_and_the_next_call_restarts_it() {
    let daemon = sidecar("state,fork,silent,seen");
    let id = process_id(&daemon);
    for round in 0..3 {
        let old = family(&daemon);
        let before = calls_seen(&daemon);
        thread::scope(|scope| {
            let rest = scope.spawn(|| call(&daemon, "silent"));
            let mcp = scope.spawn(|| {
                let params = json!({"name": "near_silent", "arguments": {}});
                ask(&daemon.socket, "tools/call", params)["result"].clone()
            });
            let mut calls = 0;
            eventually("both calls have reached the server", || {
                calls += 1;
                calls_seen(&daemon) == before + calls + 2
            });
            kill(Pid::from_raw(old[0].try_into().unwrap()), Signal::SIGKILL).unwrap();
            let rest = rest.join().unwrap();
            assert_json!(rest["error_code"], "unavailable");
            let reported = rest["error"].text();
            assert_contains!(reported, "(signal: 9 (SIGKILL))");
            let mcp = mcp.join().unwrap();
            assert_json!(mcp["isError"], true);
            assert_json!(mcp["_meta"]["pillion/error_code"], "unavailable");
            assert_json!(mcp["content"][0]["text"], *reported);
        });
        // Another process of the server serves the next call, in both interfaces.
        if round % 2 == 0 {
            assert_eq!(call(&daemon, "roll")["data"]["total"], 15);
        } else {
            let params = json!({"name": "near_roll", "arguments": {}});
            let result = ask(&daemon.socket, "tools/call", params)["result"].clone();
            assert_json!(result["structuredContent"]["total"], 15);
        }
        let new = call(&daemon, "state")["data"]["pid"].as_u64();
        assert_ne!(new, Some(old[0]));
        eventually("nothing of the old one is left", || {
            !old.iter().any(|&id| exists(id))
        });
        assert_eq!(servers(id).len(), 1);
    }
    // The remaining processes are the supervisor and the server: every ended process was waited
    // for.
    eventually("there are two processes", || descendants(id).len() == 2);
}

/// Starts a client of `pillion mcp-stdio` whose first call has been answered.
fn stdio_client(daemon: &Daemon) -> Guarded {
    let mut command: Command = pillion(&["mcp-stdio"]);
    command.arg("--socket").arg(&daemon.socket);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = Guarded::spawn(piped.stderr(Stdio::null()));
    let hello = json!({"jsonrpc": "2.0", "id": "h", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let params = json!({"name": "near_roll", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params});
    write!(client.stdin.as_ref().unwrap(), "{hello}\n{call}\n").unwrap();
    let lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let responses = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let response = { responses }
        .find(|response| response["id"] == "c")
        .unwrap();
    assert_json!(response["result"]["structuredContent"]["total"], 15);
    client
}

#[test]
fn e9_clients_that_disconnect_abruptly_leave_no_process() {
    let daemon = sidecar("silent");
    let id = process_id(&daemon);
    let params = |tool: &str| json!({"name": tool, "arguments": {}});
    let silent = json!({"jsonrpc": "2.0", "id": "s", "method": "tools/call",
        "params": params("near_silent")});
    for number in 0..CLIENTS {
        let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
        let result = session.ask("tools/call", params("near_roll"))["result"].clone();
        assert_json!(result["structuredContent"]["total"], 15);
        // Some of the clients subscribe, and disconnect with an open subscription.
        if number % 2 == 0 {
            drop(session.listen());
        }
    }
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(stdio_client(&daemon));
    }
    let socket = daemon.socket.to_str().unwrap();
    let bridges = || started_with(&["mcp-stdio", socket]);
    assert_eq!(bridges().len(), CLIENTS);
    // The clients connect to the sidecar, and start no processes.
    for client in &clients {
        assert!(descendants(client.id()).is_empty());
    }
    assert_eq!(servers(id).len(), 1);
    // Half of the clients have a running call.
    for client in clients.iter().step_by(2) {
        writeln!(client.stdin.as_ref().unwrap(), "{silent}").unwrap();
    }
    let in_flight = || daemon.recorded("?status=running").len();
    eventually("their calls run", || in_flight() == CLIENTS / 2);
    for client in &mut clients {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    eventually("their calls have ended with them", || in_flight() == 0);
    assert!(bridges().is_empty());
    assert_eq!(servers(id).len(), 1);
    assert_eq!(descendants(id).len(), 2, "what keeps the server, and it");
    assert_eq!(call(&daemon, "roll")["data"]["total"], 15);
}

#[test]
fn noise_of_a_program_is_a_warning_once() {
    let (program, arguments) = fake_stdio(&[
        "list:roll",
        "before-line:secret-noise",
        "before-message:50%\r",
    ]);
    let toml = format!(
        "[[mcp_servers]]\nlabel = \"near\"\ncommand = \"{program}\"\nargs = {}\n",
        json!(arguments)
    );
    let daemon = Daemon::with_config(&toml);
    for _ in 0..3 {
        assert_eq!(call(&daemon, "roll")["data"]["total"], 15);
    }
    let log = daemon.log();
    let warning = "MCP server `near` writes other text between its JSON-RPC messages";
    assert_eq!(log.matches(warning).count(), 1, "{log}");
    assert_lacks!(log, "secret-noise");
}
