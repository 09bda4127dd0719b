//! `--oauth` with the real servers of `tests/peers` that require OAuth.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn e8_real_servers_work_after_an_authorization() {
    for (name, call, response) in [
        ("sdk-oauth", ["greet", "name=Ada"], "Hello, Ada!\n"),
        ("fastmcp-oauth", ["echo", "text=hi"], "hi\n"),
    ] {
        let Some(peer) = Peer::new(name) else { return };
        let arguments = [&["call", peer.url.as_str()], &call[..]].concat();
        let output = mcp(&arguments);
        assert_contains!(failure(&output, 1), "--oauth");
        let running = Running::start(&[&arguments[..], &["--oauth"]].concat(), &[]);
        assert_eq!(open(running.page()).await.status(), 200, "{name}");
        let output = running.output();
        assert_eq!(stdout(&output), response, "{}", stderr(&output));
    }
}
