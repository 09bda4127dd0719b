//! No server process outlives its client, whichever of them ends first.

use super::*;

/// Returns the IDs of a program's processes, after it has started three more.
async fn family(client: &McpClient) -> Vec<u64> {
    let fork = call(client, "fork", json!({})).await;
    let mut pids: Vec<_> = fork["pids"]
        .items()
        .iter()
        .filter_map(|pid| pid.as_u64())
        .collect();
    assert_eq!(pids.len(), 3);
    // The process group belongs to the supervisor.
    let state = call(client, "state", json!({})).await;
    pids.extend([
        state["pid"].as_u64().unwrap(),
        state["group"].as_u64().unwrap(),
    ]);
    assert!(pids.iter().all(|&pid| exists(pid)));
    pids
}

async fn gone(case: &str, pids: &[u64]) {
    eventually(case, || !pids.iter().any(|&pid| exists(pid))).await;
}

const STUBBORN: &[&str] = &["ignore-term", "ignore-end"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e9_disconnecting_ends_the_program_and_all_its_children() {
    for flags in [&[][..], STUBBORN] {
        let client = fake(flags);
        let pids = family(&client).await;
        client.disconnect().await;
        gone("after disconnecting", &pids).await;
        let error = roll(&client).await.unwrap_err();
        assert_matches!(error.kind(), McpErrorKind::Disconnected);
        client.connect().await.unwrap();
        roll(&client).await.unwrap();
    }
}

#[tokio::test]
async fn e9_a_program_has_time_to_exit() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("goodbye");
    let mut command = pillion_mcp_client::StdioCommand::new("/bin/sh");
    let script =
        r#"while read -r line; do echo '{"id":1,"result":{}}'; done; sleep 0.3; echo done > "$0""#;
    command.args = vec!["-c".into(), script.into(), file.display().to_string()];
    let mut config = pillion_mcp_client::ServerConfig::for_command("polite", command);
    config.handshake = pillion_mcp_client::Handshake::Never;
    let client = McpClient::new(config);
    roll(&client).await.unwrap();
    client.disconnect().await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "done\n");
}

#[tokio::test]
async fn e9_dropping_the_client_ends_the_program_and_all_its_children() {
    for flags in [&[][..], STUBBORN] {
        let client = fake(flags);
        let pids = family(&client).await;
        drop(client);
        gone("after dropping", &pids).await;
    }
}

#[test]
fn e9_dropping_the_client_outside_a_runtime_ends_the_program() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    // The client ends first: its tasks no longer run, so the pipes stay open.
    let (first, client) = (runtime(), fake(STUBBORN));
    let pids = first.block_on(family(&client));
    drop(client);
    runtime().block_on(gone("after dropping the client", &pids));
    // The runtime ends first.
    let (first, client) = (runtime(), fake(&[]));
    let pids = first.block_on(family(&client));
    drop(first);
    runtime().block_on(gone("after dropping the runtime", &pids));
    drop(client);
    // The process exits without waiting for the program, as the extension does.
    let (first, client) = (runtime(), fake(&[]));
    let pids = first.block_on(family(&client));
    first.shutdown_background();
    runtime().block_on(gone("after shutting down in the background", &pids));
    drop(client);
}

#[tokio::test]
async fn e9_a_program_that_exits_takes_its_children_with_it() {
    let client = fake(&[]);
    let pids = family(&client).await;
    client.call_tool("kill", &json!({})).await.unwrap_err();
    gone("after its own end", &pids).await;
}

#[tokio::test]
async fn e9_a_cancelled_connection_attempt_leaves_no_process() {
    let name = format!("pillion-test-{}", std::process::id());
    for _ in 0..5 {
        let client = McpClient::new(fake_config(&["silent", &name]));
        let connecting = client.connect();
        let timeout = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(timeout, connecting).await.is_err());
    }
    let running = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
            .filter(|line| String::from_utf8_lossy(line).contains(&name))
            .count()
    };
    eventually("the end of all five", || running() == 0).await;
}

#[tokio::test]
async fn e9_the_end_of_one_client_does_not_affect_the_program_of_another() {
    let (one, other) = (fake(&[]), fake(&[]));
    let before = pid(&other).await;
    roll(&one).await.unwrap();
    drop(one);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(pid(&other).await, before);
}
