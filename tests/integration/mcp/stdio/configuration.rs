//! What a program inherits from its configuration and from Pillion.

use std::os::fd::AsRawFd;

use super::*;

fn with_command(change: impl FnOnce(&mut StdioCommand)) -> McpClient {
    let mut config = fake_config(&["one argument; $HOME `x`"]);
    let pillion_mcp_client::Endpoint::Command(command) = &mut config.endpoint else {
        panic!()
    };
    change(command);
    McpClient::new(config)
}

#[tokio::test]
async fn e7_a_program_has_only_its_configured_environment() {
    let state = call(&fake(&[]), "state", json!({})).await;
    // Python may set this variable itself.
    let mut env = state["env"].as_object().unwrap().clone();
    env.remove("LC_CTYPE");
    assert_eq!(json!(env), json!({"PATH": StdioCommand::DEFAULT_PATH}));

    let (ours, value) = std::env::vars().find(|(name, _)| name != "PATH").unwrap();
    let configured = with_command(|command| {
        command.env.insert("API_KEY".into(), "s3cret".into());
        command.inherit_env = vec![ours.clone(), "NOT_SET_ANYWHERE".into()];
        command.cwd = Some("/".into());
    });
    let state = call(&configured, "state", json!({})).await;
    assert_eq!(state["env"]["API_KEY"], "s3cret");
    assert_eq!(state["env"][&ours], value);
    assert_eq!(state["env"]["PATH"], StdioCommand::DEFAULT_PATH);
    assert_eq!(state["env"].get("NOT_SET_ANYWHERE"), None);
    assert_eq!(state["cwd"], "/");
    // No shell has interpreted the arguments.
    assert_eq!(state["arguments"], json!(["one argument; $HOME `x`"]));
}

#[tokio::test]
async fn e7_descriptors_blocked_signals_and_process_group_are_not_inherited() {
    // The descriptor is open without close-on-exec, as PHP's sockets are.
    let (leaked, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let leaky = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    nix::fcntl::fcntl(&leaked, leaky).unwrap();
    nix::sys::signal::SigSet::all().thread_block().unwrap();
    let state = call(&fake(&[]), "state", json!({})).await;
    let descriptors = state["descriptors"].items();
    assert!(!descriptors.contains(&json!(leaked.as_raw_fd())), "{state}");
    // The last descriptor is that of the directory which the program reads to list its descriptors.
    assert_eq!(descriptors.len(), 4, "{state}");
    assert_eq!(state["blocked_signals"], "0000000000000000");
    let ours = nix::unistd::getpgrp().as_raw();
    assert_ne!(state["group"], json!(ours));
}

#[tokio::test]
async fn e7_a_program_that_cannot_start_fails_at_once() {
    let command = StdioCommand::new("no-such-program-anywhere");
    let nowhere = McpClient::new(ServerConfig::for_command("x", command));
    let error = nowhere.list_tools().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unavailable);
    assert_matches!(error.kind(), McpErrorKind::Spawn { .. });
    let text = "MCP request failed: 'no-such-program-anywhere' cannot be started: \
                No such file or directory (os error 2)";
    assert_eq!(error.to_string(), text);
    // A wrong directory is the most frequent error in a path.
    let elsewhere = StdioCommand::new("/no/such/directory/server");
    let elsewhere = McpClient::new(ServerConfig::for_command("x", elsewhere));
    let error = elsewhere.list_tools().await.unwrap_err().to_string();
    assert_contains!(error, "'/no/such/directory/server' cannot be started");
    let directory = with_command(|command| command.cwd = Some("/no/such/directory".into()));
    let error = directory.list_tools().await.unwrap_err().to_string();
    let text = "the working directory '/no/such/directory' is not a directory";
    assert_contains!(error, text);
    let null = with_command(|command| command.args.push("a\0b".into()));
    let error = null.list_tools().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::InvalidInput);
}

#[tokio::test]
async fn c2_a_silent_program_times_out() {
    let mut config = fake_config(&["silent"]);
    config.timeout = Duration::from_millis(400);
    let client = McpClient::new(config);
    let before = std::time::Instant::now();
    let error = client.list_tools().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(before.elapsed() < Duration::from_secs(10));
}
