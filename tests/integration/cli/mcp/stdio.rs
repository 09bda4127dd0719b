//! `pillion mcp` with servers that are local programs.

use pillion_testkit::fake_stdio;

use super::*;

/// Runs `pillion mcp ... -- python3 ...` with the fake server.
fn with_fake(arguments: &[&str], flags: &[&str]) -> std::process::Output {
    let (program, fake) = fake_stdio(flags);
    let fake: Vec<_> = fake.iter().map(String::as_str).collect();
    let arguments = [arguments, &["--", program], &fake].concat();
    let path = std::env::var("PATH").unwrap();
    mcp_with(
        &arguments,
        &[("PATH", &path), ("KEY", "hunter2"), ("OTHER", "1")],
    )
}

#[test]
fn a_program_is_probed_listed_and_called() {
    let output = with_fake(&["probe", "--json"], &[]);
    let found = stdout_json(&output);
    assert_eq!(found["transport"], "stdio");
    assert_starts_with!(found["steps"][0]["attempt"].text(), "stdio ");
    success(&with_fake(&["list", "tools"], &[]));
    let output = with_fake(&["call", "roll", "dice=1d20", "--json"], &[]);
    let result = stdout_json(&output);
    assert_eq!(
        (output.status.code(), &result["total"]),
        (Some(0), &Value::from(15))
    );
}

#[test]
fn l1_a_program_sees_only_its_configured_environment() {
    let options = [
        "call", "state", "--json", "--env", "KEY", "--env", "MODE=a=b", "--cwd", "/",
    ];
    let state = stdout_json(&with_fake(&options, &["flag"]));
    assert_eq!(state["env"]["KEY"], "hunter2");
    assert_eq!(state["env"]["MODE"], "a=b");
    assert_eq!(state["env"]["OTHER"], Value::Null);
    assert_eq!(
        (state["cwd"].as_str(), state["arguments"][0].as_str()),
        (Some("/"), Some("flag"))
    );
}

#[test]
fn a_program_that_fails_to_start_or_exits_is_reported_in_one_line() {
    let reported = failure(&with_fake(&["probe"], &["exit-at-once"]), 1);
    assert_contains!(reported, "cannot find the configuration");
    assert_eq!(reported.lines().count(), 1, "{reported}");

    let reported = failure(&mcp_with(&["probe", "--", "/nowhere/server"], &[]), 1);
    assert_starts_with!(reported, "pillion: stdio:server: ");
    let expected = "'/nowhere/server' cannot be started: No such file";
    assert_contains!(reported, expected);
    assert_eq!(reported.lines().count(), 1, "{reported}");

    let error = failure(&with_fake(&["probe", "--timeout", "2"], &["silent"]), 1);
    assert_ends_with!(error, " (timeout)\n");
}

#[test]
fn an_echoing_program_is_not_taken_for_a_server() {
    let reported = failure(&mcp_with(&["probe", "--", "/bin/cat"], &[]), 1);
    assert_contains!(reported, "it is not an MCP server");
    assert_ends_with!(reported, " (unavailable)\n");
}
