use std::net::TcpListener;

use pillion_testkit::OAuthRules;

use super::*;

#[test]
fn a_bad_command_line_is_rejected_before_any_request() {
    let url = "http://127.0.0.1:9/mcp";
    let cases: [(&[&str], &str); 8] = [
        (&[url, "--client-id", "me"], "can only be used with --oauth"),
        (&[url, "--scope", "read"], "can only be used with --oauth"),
        (
            &[url, "--oauth-port", "8123"],
            "can only be used with --oauth",
        ),
        (
            &[url, "--oauth", "--client-secret-env", "SECRET"],
            "--client-secret-env can only be used with --client-id",
        ),
        (
            &[
                url,
                "--oauth",
                "--client-id",
                "me",
                "--client-secret-env",
                "NOPE",
            ],
            "the environment variable NOPE is not set, or empty",
        ),
        (
            &[url, "--oauth", "--client-metadata-url", "http://a.example/"],
            "client_metadata_url",
        ),
        (&["--oauth", "--", "true"], "a server that has a URL"),
        (&[url, "--oauth", "--oauth-port", "0"], "--oauth-port"),
    ];
    for (arguments, expected) in cases {
        let arguments = [&["probe"], arguments].concat();
        let reported = failure(&mcp_with(&arguments, &[("SECRET", "hush-mine")]), 2);
        assert_contains!(reported, expected);
        assert_lacks!(reported, "hush-");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requested_port_is_used_for_the_redirect() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let server = FakeOAuth::start(OAuthRules::default());
    let arguments = [
        "call",
        &server.url,
        "roll",
        "--oauth",
        "--oauth-port",
        &port,
    ];
    let output = mcp(&arguments);
    let reported = failure(&output, 1);
    let expected =
        format!("pillion: cannot listen on 127.0.0.1:{port} for the authorization response: ");
    assert_starts_with!(reported, &expected);
    assert_ends_with!(reported, " (unavailable)\n");
    assert!(server.requests.all().is_empty());

    drop(taken);
    let running = Running::start(&arguments, &[]);
    let page = running.page();
    let expected = format!("http://127.0.0.1:{port}/callback");
    assert_eq!(parameter(&page, "redirect_uri"), expected);
    open(page).await;
    assert_eq!(stdout(&running.output()), "15\n");
}
