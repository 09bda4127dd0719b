use crate::prelude::*;

fn after_some_calls() -> Daemon {
    let daemon = Daemon::start();
    for expression in ["1 + 1", "1 / 0"] {
        let arguments = format!("{{\"expression\": \"{expression}\"}}");
        daemon.post("/api/v1/tools/execute/calculator", arguments);
    }
    daemon
}

#[test]
fn status_prints_a_table_or_json() {
    let daemon = after_some_calls();
    let output = daemon.run(&["status"]);
    let text = stdout(&output);
    assert_starts_with!(text, "pillion ");
    assert_contains!(text, "calls: 2 finished, 1 failed, 0 in flight");
    let row = text
        .lines()
        .find(|line| line.starts_with("calculator"))
        .unwrap();
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!(words[1..3], ["2", "1"], "{text}");
    let status = stdout_json(&daemon.run(&["status", "--json"]));
    assert_eq!(status["calls"]["total"], 2);
    assert_eq!(status["status"], "ready");
}

#[test]
fn calls_are_listed_since_some_time_ago() {
    let daemon = after_some_calls();
    let count = |filter: &[&str]| {
        let output = daemon.run(&[&["calls", "list"], filter].concat());
        stdout(&output).lines().count() - 1
    };
    assert_eq!(count(&["--from", "1h"]), 2);
    assert_eq!(count(&["--from", "7d", "--until", "1h"]), 0);
    failure(&daemon.run(&["calls", "list", "--from", "soon"]), 1);
}

#[test]
fn status_without_a_sidecar_reports_that_none_runs() {
    let error = failure(&run(&["status", "--socket", "/nowhere/s"], &[]), 1);
    assert_contains!(error, "/nowhere/s");
}

#[test]
fn a_file_that_is_not_a_socket_is_not_reported_as_a_stopped_sidecar() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let expected = format!("the sidecar at {path}: the file is not a socket");
    for command in ["status", "mcp-stdio"] {
        let error = failure(&run(&[command, "--socket", path], &[]), 1);
        assert_contains!(error, &expected);
    }
    let output = run(&["serve", "--socket", path], &[]);
    assert_contains!(stderr(&output), "is not a socket");
    assert!(!Path::new(&format!("{path}.lock")).exists());
}

#[test]
fn a_missing_item_is_reported_with_the_command_that_lists_the_items() {
    let daemon = Daemon::start();
    for (what, error) in [
        ("calls", "There is no recorded call 'nope'"),
        ("approvals", "There is no approval 'nope'"),
    ] {
        assert_eq!(
            failure(&daemon.run(&[what, "show", "nope"]), 1),
            format!("pillion: {error} (not_found); `pillion {what} list` shows all ids\n")
        );
    }
}

#[test]
fn events_without_a_sidecar_or_of_unknown_types_give_a_clear_error() {
    let error = failure(&run(&["events", "--socket", "/nowhere/s"], &[]), 1);
    assert_contains!(error, "not running");
    let daemon = Daemon::start();
    let error = failure(&daemon.run(&["events", "--types", "nope"]), 1);
    assert_contains!(error, "(invalid_input)");
    assert_lacks!(error, '{');
}

#[test]
fn top_shows_rates() {
    let daemon = after_some_calls();
    let options = ["--interval-ms", "100", "--count", "2"];
    let text = stdout(&daemon.run(&[&["top"], &options[..]].concat()));
    assert_eq!(text.matches("CALLS/S").count(), 2, "{text}");
    let output = daemon.run(&[&["top", "--json"], &options[..]].concat());
    let looks: Vec<Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(looks.len(), 2);
    assert_eq!(looks[0]["tools"][0]["calls_per_second"], 0.0);
}

#[test]
fn completions_are_valid_shell_scripts() {
    for (shell, sign) in [
        ("bash", "complete -F _pillion"),
        ("zsh", "#compdef pillion"),
        ("fish", "complete -c pillion"),
    ] {
        let output = run(&["completions", shell], &[]);
        assert!(stdout(&output).contains(sign), "{shell}");
    }
    // Bash accepts its script, if Bash is installed.
    let script = stdout(&run(&["completions", "bash"], &[]));
    let checked = std::process::Command::new("bash")
        .args(["-n", "-c", &script])
        .status();
    assert!(checked.map_or(true, |status| status.success()));
}
