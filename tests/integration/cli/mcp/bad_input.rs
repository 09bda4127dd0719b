use super::*;

#[test]
fn a_bad_command_line_gives_one_clear_line_and_exit_code_2() {
    let url = "http://127.0.0.1:9/mcp";
    for (line, expected) in [
        (
            "probe",
            "no server is given: pass its URL first, or --server NAME, or -- COMMAND at the end",
        ),
        (
            "probe localhost:8000",
            "'localhost:8000' is not the URL of a server",
        ),
        ("probe ftp://x.example/", "Invalid server URL"),
        ("probe http://", "Invalid server URL"),
        (
            "probe http://u:hunter2@x.example/",
            "The server URL contains a user or password",
        ),
        ("probe URL more", "unexpected argument 'more'"),
        ("list URL toys", "cannot list 'toys'"),
        ("list tools URL tools", "unexpected argument 'tools'"),
        ("call URL", "the name of a tool is missing"),
        (
            "call URL roll nonsense",
            "'nonsense' is neither KEY=VALUE nor a JSON object",
        ),
        (
            "call URL roll {",
            "the arguments are not a JSON object: EOF",
        ),
        ("read URL", "the URI of a resource is missing"),
        ("call --server a roll -- true", "two servers are given"),
        ("call URL roll -- true", "two servers are given"),
        ("probe URL -- true", "two servers are given"),
        ("probe URL --server a", "two servers are given"),
        ("list URL -- true", "two servers are given"),
        ("list tools URL -- true", "two servers are given"),
        ("read URL memo://x -- true", "two servers are given"),
        ("probe -- ", "Invalid command: the program"),
        (
            "probe URL --cwd /",
            "--env and --cwd can only be used with a server that is a command",
        ),
        (
            "probe --header a:b -- true",
            "--header, --header-env, --bearer-env and --bearer-file can only be used with",
        ),
    ] {
        let arguments: Vec<_> = line
            .split(' ')
            .map(|word| word.replace("URL", url))
            .collect();
        let output = mcp(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let reported = failure(&output, 2);
        assert_starts_with!(reported, &format!("pillion: {expected}"));
        assert_ends_with!(reported, " (invalid_input)\n");
        assert_eq!(reported.lines().count(), 1, "{reported}");
        assert_lacks!(reported, "hunter2");
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn a_bad_option_is_rejected_with_its_valid_values() {
    let url = "http://127.0.0.1:9/mcp";
    for (options, expected) in [
        (
            ["--transport", "pigeon"],
            "Unknown transport: pigeon, expected one of ",
        ),
        (
            ["--protocol-version", "2025"],
            "Unknown MCP protocol version '2025'",
        ),
        (["--timeout", "soon"], "not a time such as 30, 500ms or 2m"),
        (["--timeout", "0"], "must be between 1 ms and one day"),
    ] {
        let output = mcp(&[&["probe", url], &options[..]].concat());
        assert_contains!(failure(&output, 2), expected);
    }
}

#[test]
fn a_command_line_that_cannot_be_parsed_gives_a_json_error_with_json_output() {
    let url = "http://127.0.0.1:9/mcp";
    let cases: [(&[&str], &str); 5] = [
        (
            &["probe", url, "--json", "--transport", "pigeon"],
            "invalid value 'pigeon' for '--transport <TRANSPORT>': ",
        ),
        (
            &["probe", url, "--timeout", "soon", "--json"],
            "invalid value 'soon' for '--timeout <TIME>': not a time such as 30, 500ms or 2m",
        ),
        (
            &["--json", "probe", url, "--loud"],
            "unexpected argument '--loud' found",
        ),
        (&["--json", "dance"], "unrecognized subcommand 'dance'"),
        (
            &["--json"],
            "'pillion mcp' requires a subcommand but one was not provided",
        ),
    ];
    for (arguments, expected) in cases {
        let output = mcp(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = stdout_json(&output);
        assert_eq!(error["success"], false);
        assert_eq!(error["error_code"], "invalid_input");
        let reported = error["error"].text();
        assert_starts_with!(reported, expected);
        assert_eq!(reported.lines().count(), 1, "{reported}");
        assert!(stderr(&output).contains("--help"), "{arguments:?}");
    }
    // The arguments after `--` belong to the started server.
    let output = mcp(&["probe", "--loud", "--", "server", "--json"]);
    assert_eq!(stdout(&output), "");
    // With `--help`, the other arguments are not checked, and the command succeeds.
    let output = mcp(&["probe", "--json", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert_contains!(stdout(&output), "Usage: ");
}

#[test]
fn the_help_names_every_transport() {
    let output = mcp(&["probe", "http://127.0.0.1:9/mcp", "--transport", "pigeon"]);
    let reported = stderr(&output);
    let (_, names) = reported.split_once("expected one of ").unwrap();
    let names: Vec<_> = names.lines().next().unwrap().split(", ").collect();
    assert_eq!(names.len(), 8, "{reported}");
    let help = stdout(&mcp(&["probe", "--help"]));
    for name in names {
        assert!(help.contains(name), "{name}: {help}");
    }
}
