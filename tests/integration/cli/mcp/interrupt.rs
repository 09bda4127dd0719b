use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::*;

/// Runs an endless call, and ends the command with a signal.
async fn interrupted(signal: Signal) -> (FakeMcp, std::process::Output) {
    let server = FakeMcp::builder(Dialect::StreamableJson)
        .with_slow_calls(Duration::from_secs(600))
        .start();
    let child = pillion(&["mcp", "call", &server.url, "roll", "--timeout", "10m"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the call has come", || {
        !server.requests.calls("tools/call").is_empty()
    });
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    let ended = tokio::task::spawn_blocking(|| child.wait_with_output());
    (server, ended.await.unwrap().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_cancels_the_call_at_the_server() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let (server, output) = interrupted(signal).await;
        assert_eq!(output.status.code(), Some(code));
        let expected = "pillion: interrupted by a signal (cancelled)\n";
        assert_eq!(stderr(&output), expected);
        let call = server.requests.first("tools/call");
        let cancelled = server.requests.calls("notifications/cancelled");
        assert_eq!(cancelled[0].json()["params"]["requestId"], call["id"]);
        assert_eq!(server.requests.all().last().unwrap().method, "DELETE");
    }
}
