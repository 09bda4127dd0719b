use super::mcp;
use crate::program::{stderr, stdout};

#[test]
fn a_wrong_command_line_is_one_clear_line_and_exit_code_2() {
    let url = "http://127.0.0.1:9/mcp";
    let cases: [(&[&str], &str); 22] = [
        (
            &["probe"],
            "which server? Give its URL first, or --server NAME, or -- COMMAND at the end",
        ),
        (
            &["probe", "localhost:8000"],
            "'localhost:8000' is no URL of a server",
        ),
        (&["probe", "ftp://x.example/"], "Invalid server URL"),
        (&["probe", "http://"], "Invalid server URL"),
        (
            &["probe", "http://u:hunter2@x.example/"],
            "The server URL holds a user or password",
        ),
        (&["probe", url, "more"], "'more' is one word too many"),
        (
            &["list", url, "toys"],
            "nothing called 'toys' can be listed",
        ),
        (
            &["list", "tools", url, "tools"],
            "'tools' is one word too many",
        ),
        (&["call", url], "the name of a tool is missing"),
        (
            &["call", url, "roll", "nonsense"],
            "'nonsense' is neither KEY=VALUE nor a JSON object",
        ),
        (
            &["call", url, "roll", "{"],
            "the arguments are no JSON object: EOF",
        ),
        (&["read", url], "the URI of a resource is missing"),
        (
            &["call", "--server", "a", "roll", "--", "true"],
            "two servers",
        ),
        (&["call", url, "roll", "--", "true"], "two servers"),
        (&["probe", url, "--", "true"], "two servers"),
        (&["probe", url, "--server", "a"], "two servers"),
        (&["list", url, "--", "true"], "two servers"),
        (&["list", "tools", url, "--", "true"], "two servers"),
        (&["read", url, "memo://x", "--", "true"], "two servers"),
        (&["probe", "--", ""], "Invalid command: the program"),
        (
            &["probe", url, "--cwd", "/"],
            "--env and --cwd can only go with a server that is a command",
        ),
        (
            &["probe", "--header", "a: b", "--", "true"],
            "--header, --header-env, --bearer-env and --bearer-file can only go with",
        ),
    ];
    for (arguments, expected) in cases {
        let output = mcp(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told = stderr(&output);
        assert!(told.starts_with(&format!("pillion: {expected}")), "{told}");
        assert!(told.ends_with(" (invalid_input)\n"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(!told.contains("hunter2"), "{told}");
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn a_wrong_option_is_told_with_what_it_can_be() {
    let url = "http://127.0.0.1:9/mcp";
    for (options, expected) in [
        (["--transport", "pigeon"], "`streamable_http`"),
        (
            ["--protocol-version", "2025"],
            "Unknown MCP protocol version '2025'",
        ),
        (["--timeout", "soon"], "not a number of seconds"),
        (["--timeout", "0"], "not between 1 ms and a day"),
    ] {
        let output = mcp(&[&["probe", url], &options[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
