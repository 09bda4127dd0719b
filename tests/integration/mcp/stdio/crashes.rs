//! Programs that exit while they are in use.

use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::*;

/// Kills the process with this ID.
fn end(id: impl TryInto<i32, Error: std::fmt::Debug>) {
    kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn e9_a_program_that_dies_during_a_call_fails_it_with_its_last_stderr_line_and_restarts() {
    let mut config = fake_config(&[]);
    if let pillion_mcp_client::Endpoint::Command(command) = &mut config.endpoint {
        command.env.insert("KEY".into(), "s3cret".into());
    }
    let client = McpClient::new(config);
    let error = client.call_tool("crash", &json!({})).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unavailable);
    assert_eq!(
        error.to_string(),
        "MCP request failed: the server's process ended (exit status: 3): \
         the disk is full: key [redacted]"
    );
    roll(&client).await.unwrap();
}

#[tokio::test]
async fn e9_all_calls_of_a_killed_program_fail_and_the_next_call_restarts_it() {
    let client = fake(&[]);
    let first = pid(&client).await;
    let waiting = [(); 3].map(|()| {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool("silent", &json!({})).await })
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    end(first);
    for call in waiting {
        let error = call.await.unwrap().unwrap_err();
        assert_contains!(error.to_string(), "(signal: 9 (SIGKILL))");
    }
    let second = pid(&client).await;
    assert_ne!(first, second);
    assert!(!exists(first));
    // The process ends between two calls: the next call uses a new process.
    end(second);
    eventually("the second one's end", || !exists(second)).await;
    assert_ne!(pid(&client).await, second);
}

#[tokio::test]
async fn e9_a_program_that_crashes_repeatedly_is_backed_off_for_a_while() {
    let client = fake(&["exit-at-once"]);
    let mut rejected = None;
    for _ in 0..10 {
        let error = client.list_tools().await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Unavailable, "{error}");
        match error.kind() {
            McpErrorKind::ProcessEnded {
                last_stderr_line, ..
            } => {
                assert_eq!(last_stderr_line, "cannot find the configuration");
            }
            McpErrorKind::KnownDown { .. } => {
                rejected = Some(error);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let error = rejected.unwrap();
    let retry_after = error.retry_after().unwrap();
    assert!(!retry_after.is_zero() && retry_after < Duration::from_secs(30));
    // The call fails at once, whatever its deadline.
    let before = Instant::now();
    let again = client.list_tools().await.unwrap_err();
    assert_matches!(again.kind(), McpErrorKind::KnownDown { .. });
    assert!(before.elapsed() < Duration::from_millis(500));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e9_calls_wait_for_a_program_that_is_killed_repeatedly() {
    let client = fake(&[]);
    let over = Arc::new(AtomicBool::new(false));
    let callers = [(); 8].map(|()| {
        let (client, over) = (client.clone(), Arc::clone(&over));
        tokio::spawn(async move {
            let mut cut_off = 0;
            while !over.load(Ordering::Relaxed) {
                if let Err(error) = roll(&client).await {
                    // The call was in progress: whether the tool ran is unknown.
                    let is_cut_off = matches!(error.kind(), McpErrorKind::ProcessEnded { .. });
                    assert!(is_cut_off, "{error}");
                    cut_off += 1;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            roll(&client).await.unwrap();
            cut_off
        })
    });
    const KILLS: usize = 10;
    for _ in 0..KILLS {
        let id = pid(&client).await;
        end(id);
        eventually("its end", || !exists(id)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        let cut_off = caller.await.unwrap();
        assert!(
            cut_off <= KILLS,
            "{cut_off} calls ended with {KILLS} programs"
        );
    }
}

#[tokio::test]
async fn e9_a_program_that_exits_after_the_handshake_is_an_error() {
    let client = fake(&["exit-after-hello"]);
    let error = client.list_tools().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unavailable, "{error}");
}

#[tokio::test]
async fn e9_a_program_that_closes_stdin_or_stdout_is_replaced() {
    for tool in ["mute", "deaf"] {
        let client = fake(&[]);
        let first = pid(&client).await;
        let _ = client.call_tool(tool, &json!({})).await;
        let mut response = roll(&client).await;
        if response.is_err() {
            // The first call after the program closed its input detects that.
            response = roll(&client).await;
        }
        response.unwrap();
        assert_ne!(pid(&client).await, first, "{tool}");
        eventually("the old one's end", || !exists(first)).await;
    }
}

#[tokio::test]
async fn e9_the_exit_is_noticed_although_another_process_holds_the_output_open() {
    let client = fake(&[]);
    let holder = call(&client, "fork-holding", json!({})).await["pids"][0]
        .as_i64()
        .unwrap();
    let error = client.call_tool("kill", &json!({})).await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::ProcessEnded { .. });
    roll(&client).await.unwrap();
    // The process left the group, so the test has to end it.
    end(holder);
}

#[tokio::test]
async fn e9_a_program_that_is_not_a_server_is_an_error() {
    for (program, args) in [("true", vec![]), ("echo", vec!["hello"])] {
        let mut command = pillion_mcp_client::StdioCommand::new(program);
        command.args = args.into_iter().map(str::to_owned).collect();
        let mut config = ServerConfig::for_command("x", command);
        config.timeout = Duration::from_secs(3);
        let error = McpClient::new(config).connect().await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Unavailable, "{program}: {error}");
    }
}
