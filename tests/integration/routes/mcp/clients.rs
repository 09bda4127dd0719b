//! Third-party clients that list and call through the sidecar.

use std::net::{Shutdown, TcpListener};

use super::*;
use crate::program::pillion_path;

/// Starts a bridge to a Unix socket, for clients without support for Unix sockets, and returns its
/// URL.
pub fn bridge(socket: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let socket = socket.to_owned();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = UnixStream::connect(&socket).unwrap();
            let (to_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                forward(client, &to_server);
                drop(to_server.shutdown(Shutdown::Both));
            });
            thread::spawn(move || {
                forward(server, &to_client);
                drop(to_client.shutdown(Shutdown::Both));
            });
        }
    });
    url
}

fn forward(mut from: impl Read, mut to: impl Write) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}

/// Runs a client of `tests/peers` until it exits. Returns its output, or `None` if it is not
/// installed.
pub fn run(client: &str, arguments: &[&str]) -> Option<String> {
    let (program, before) = Peer::command(client)?;
    let output = Command::new(program)
        .args(before)
        .args(arguments)
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    Some(stdout(&output))
}

fn with_peer(peer: &Peer) -> Sidecar {
    let url = &peer.url;
    Sidecar::with_config(&detected_entry("memos", url, ""))
}

#[test]
fn python_clients_of_both_protocol_eras_list_call_and_read() {
    // The requested tools are those of servers of both protocol eras.
    for peer in ["mcp2-http", "mcp1-http"] {
        let Some(peer) = Peer::new(peer) else { return };
        let sidecar = with_peer(&peer);
        let url = bridge(&sidecar.socket);
        let arguments = [&*url, "memo://for/Ada", "A memo for Ada", "greet"];
        let Some(printed) = run("client-python", &arguments) else {
            return;
        };
        for client in ["mcp auto: ", "mcp legacy: ", "fastmcp http: "] {
            assert_contains!(printed, client);
        }
    }
}

#[test]
fn the_inspector_of_both_protocol_eras_lists_and_calls() {
    let sidecar = Sidecar::start();
    let url = bridge(&sidecar.socket);
    for era in ["legacy", "auto", "modern"] {
        let inspect = |more: &[&str]| {
            let arguments = [&*url, "--transport", "http", "--protocol-era", era];
            run("client-inspector", &[&arguments[..], more].concat())
        };
        let Some(listed) = inspect(&["--method", "tools/list"]) else {
            return;
        };
        assert!(listed.contains("\"calculator\""), "{era}: {listed}");
        let call = ["--method", "tools/call", "--tool-name", "calculator"];
        let called = inspect(&[&call[..], &["--tool-arg", "expression=6*7"]].concat());
        assert!(called.unwrap().contains("\"42\""), "{era}");
    }
}

#[test]
fn a_client_over_standard_streams_calls_too() {
    let program = pillion_path().to_str().unwrap();
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&config, "[store]\nlocation = \"memory\"\n").unwrap();
    let config = config.path().to_str().unwrap();
    let arguments = [
        "--stdio",
        program,
        "mcp-stdio",
        "--standalone",
        "--config",
        config,
    ];
    if let Some(printed) = run("client-python", &arguments) {
        assert_contains!(printed, "fastmcp stdio: ");
    }
}
