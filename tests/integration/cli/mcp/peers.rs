//! `pillion mcp` with the real servers of `tests/peers`.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn everything_over_streamable_http_and_over_sse() {
    for (name, transport) in [
        ("everything", "streamable_http"),
        ("everything-sse", "legacy_sse"),
    ] {
        let Some(peer) = Peer::new(name) else { return };
        let found = stdout_json(&mcp(&["probe", &peer.url, "--json"]));
        assert_eq!(found["transport"], transport);
        assert_contains!(found["offers"]["prompts"].to_string(), "args-prompt");
        let call = |words: &[&str]| stdout(&mcp(&[&["call", peer.url.as_str()], words].concat()));
        let expected = "The sum of 2 and 3 is 5.\n";
        assert_eq!(call(&["get-sum", "a=2", "b=3"]), expected);
        assert_eq!(call(&["echo", "message=5"]), "Echo: 5\n");
        assert_contains!(call(&["get-tiny-image"]), "[image image/png, ");
        let filled = mcp(&["prompt", &peer.url, "args-prompt", "city=Paris"]);
        assert_eq!(stdout(&filled), "user: What's weather in Paris?\n");
        let read = mcp(&["read", &peer.url, "demo://resource/dynamic/text/1"]);
        assert_starts_with!(stdout(&read), "Resource 1: ");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_progress_notification_is_one_line_if_requested() {
    let Some(peer) = Peer::new("everything") else {
        return;
    };
    let long = [
        "call",
        peer.url.as_str(),
        "trigger-long-running-operation",
        "duration=1",
        "steps=2",
    ];
    let output = mcp(&[&long[..], &["--verbose"]].concat());
    let reported = stderr(&output);
    let lines = reported
        .lines()
        .filter(|line| line.starts_with("pillion: progress: "));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        ["pillion: progress: 1 of 2", "pillion: progress: 2 of 2"]
    );
    assert_eq!(stderr(&mcp(&long)), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn python_of_2026_07_28_and_behind_a_token() {
    if let Some(peer) = Peer::new("mcp2-http") {
        let output = mcp(&["probe", &peer.url]);
        assert_contains!(stdout(&output), "revision      2026-07-28\n");
        assert_eq!(
            stdout(&mcp(&["call", &peer.url, "add", "a=1", "b=2"])),
            "3\n"
        );
    }
    if let Some(peer) = Peer::new("fastmcp-bearer") {
        let error = failure(&mcp(&["list", "tools", &peer.url]), 1);
        assert_ends_with!(error, "(denied)\n");
        let output = mcp_with(
            &["list", "tools", &peer.url, "--bearer-env", "T"],
            &[("T", "let-me-in")],
        );
        assert_starts_with!(stdout(&output), "add ");
    }
}
