use super::*;

const SECRET: &str = "hunter2-hush";

#[tokio::test(flavor = "multi_thread")]
async fn l1_credentials_are_read_from_variables_and_files_and_never_shown() {
    let server = FakeMcp::start(Dialect::StreamableJson);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{SECRET}").unwrap();
    let file = file.path().to_str().unwrap();
    let variables = [("TOKEN", SECRET)];
    let bearer = format!("Bearer {SECRET}");
    let cases: [(&[&str], &str, &str); 4] = [
        (&["--bearer-env", "TOKEN"], "authorization", &bearer),
        (&["--bearer-file", file], "authorization", &bearer),
        (&["--header-env", "X-Key: TOKEN"], "x-key", SECRET),
        (&["--header", "X-Tenant: t1"], "x-tenant", "t1"),
    ];
    for (options, header, value) in cases {
        let arguments = [&["call", server.url.as_str(), "roll", "--verbose"], options].concat();
        let output = mcp_with(&arguments, &variables);
        assert!(output.status.success(), "{}", stderr(&output));
        let requests = server.requests.all();
        assert_eq!(
            requests.last().unwrap().header(header),
            value,
            "{options:?}"
        );
        assert_lacks!(stdout(&output) + &stderr(&output), SECRET);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_server_is_selected_by_name() {
    let server = FakeMcp::start(Dialect::StreamableJson);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(
        file,
        "[[mcp_servers]]\nlabel = \"dice\"\nurl = \"{}\"\nauthentication = {{ type = \"bearer\", token_env = \"TOKEN\" }}",
        server.url
    )
    .unwrap();
    let file = file.path().to_str().unwrap();
    let variables = [("TOKEN", SECRET), ("PILLION_CONFIG", file)];
    success(&mcp_with(&["call", "--server", "dice", "roll"], &variables));
    let requests = server.requests.all();
    let expected = format!("Bearer {SECRET}");
    assert_eq!(requests[0].header("authorization"), expected);

    assert_eq!(
        failure(&mcp_with(&["probe", "--server", "cards"], &variables), 2),
        "pillion: the configuration has no MCP server 'cards'; its servers: dice (not_found)\n"
    );
    let output = mcp_with(
        &["call", "--server", "dice", &server.url, "roll"],
        &variables,
    );
    assert_contains!(stderr(&output), "two servers");
    let text = "PILLION_CONFIG";
    assert_contains!(stderr(&mcp(&["probe", "--server", "dice"])), text);
}

#[test]
fn l1_a_missing_credential_is_reported_without_its_value() {
    let url = "http://127.0.0.1:9/mcp";
    let cases: [(&[&str], &str); 5] = [
        (
            &["--bearer-env", "NOPE"],
            "the environment variable NOPE is not set, or empty",
        ),
        (
            &["--bearer-file", "/nowhere/token"],
            "cannot read the credential in /nowhere/token: ",
        ),
        (
            &["--bearer-file", "/dev/null"],
            "the credential in /dev/null is empty",
        ),
        (
            &["--header", "hunter2-hush"],
            "--header must have the form NAME:VALUE",
        ),
        (&["--header", "X Y: hunter2-hush"], "Invalid header 'X Y'"),
    ];
    for (options, expected) in cases {
        let reported = failure(&mcp(&[&["probe", url], options].concat()), 2);
        assert_starts_with!(reported, &format!("pillion: {expected}"));
        assert_lacks!(reported, "hunter2");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_variables_of_the_selected_server_matter() {
    let server = FakeMcp::start(Dialect::StreamableJson);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let authentication = "authentication = { type = \"bearer\", token_env = \"UNSET\" }";
    writeln!(
        file,
        "[[mcp_servers]]\nlabel = \"cards\"\nurl = \"{url}\"\n{authentication}\n\
         [[mcp_servers]]\nlabel = \"dice\"\nurl = \"{url}\"\n\
         [[mcp_servers]]\nlabel = \"files\"\ncommand = \"x\"\nenv_from = {{ KEY = \"UNSET\" }}",
        url = server.url
    )
    .unwrap();
    let variables = [("PILLION_CONFIG", file.path().to_str().unwrap())];
    success(&mcp_with(&["call", "--server", "dice", "roll"], &variables));
    // The configuration of this server requires the environment variable.
    assert_contains!(
        failure(
            &mcp_with(&["call", "--server", "cards", "roll"], &variables),
            2
        ),
        "the environment variable UNSET is not set"
    );
    let output = mcp_with(&["probe", "--server", "chess"], &variables);
    assert_contains!(stderr(&output), "its servers: cards, dice, files");
}
