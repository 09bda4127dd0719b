//! Authorization responses: what the browser may return, and when.

use pillion_testkit::OAuthRules;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn e8_every_command_continues_after_the_authorization() {
    let cases: [(&[&str], &str); 3] = [
        (&["probe"], "1 tools      roll"),
        (&["list", "tools"], "roll  roll"),
        (&["call", "roll"], "15"),
    ];
    for (words, expected) in cases {
        let server = FakeOAuth::start(OAuthRules::default());
        let output = with_browser(&server, words).await;
        let shown = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            shown.lines().any(|line| line.trim() == expected),
            "{words:?}: {shown}"
        );
        assert_eq!(server.token_requests().len(), 1, "{words:?}");
        let redirect_uri = &server.token_requests()[0]["redirect_uri"];
        assert_starts_with!(redirect_uri, "http://127.0.0.1:");
        let registration = server.requests_to("/register")[0].json();
        assert_eq!(registration["redirect_uris"][0], redirect_uri.as_str());
        let requests = server.requests_to("/sse");
        let last = requests.last().unwrap();
        assert_eq!(last.header("authorization"), "Bearer hush-access-1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_no_output_contains_a_credential() {
    let server = FakeOAuth::start(OAuthRules::refreshing());
    for option in ["--verbose", "--json"] {
        let output = with_browser(&server, &["call", "roll", option]).await;
        let shown = stdout(&output) + &stderr(&output);
        assert!(output.status.success(), "{shown}");
        assert_contains!(shown, "Open this page in a browser");
        assert_lacks!(shown, SECRET);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_authorization_ends_the_command_without_another_request() {
    for words in [&["probe"][..], &["list"], &["call", "roll"]] {
        let server = FakeOAuth::start(OAuthRules {
            refuses: true,
            ..OAuthRules::default()
        });
        let reported = failure(&with_browser(&server, words).await, 1);
        let line = format!(
            "pillion: {}: MCP request failed: the authorization server denied the authorization: \
             access_denied (denied)\n",
            server.url
        );
        assert_ends_with!(reported, &line);
        assert_eq!(reported.matches("Open this page").count(), 1, "{reported}");
        assert!(server.token_requests().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_page_shows_the_outcome_and_no_part_of_the_response() {
    for (refuses, expected) in [
        (false, "received the authorization"),
        (true, "was not granted"),
    ] {
        let server = FakeOAuth::start(OAuthRules {
            refuses,
            ..OAuthRules::default()
        });
        let running = Running::start(&["call", &server.url, "roll", "--oauth", "--json"], &[]);
        let page = open(running.page()).await;
        assert_eq!(page.status(), 200);
        assert_eq!(page.headers()["cache-control"], "no-store");
        let state = parameter(page.url(), "state");
        let text = page.text().await.unwrap();
        assert_contains!(text, expected);
        assert_lacks!(text, &state, SECRET);
        let output = running.output();
        assert_eq!(output.status.success(), !refuses);
        if refuses {
            let error = stdout_json(&output);
            assert_eq!(error["error_code"], "denied");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_with_another_state_or_issuer_is_refused() {
    for (name, value, expected) in [
        ("state", "forged", "belongs to another request"),
        ("iss", "https://evil.example", "an issuer other than"),
    ] {
        let server = FakeOAuth::start(OAuthRules::default());
        let running = Running::start(&["call", &server.url, "roll", "--oauth"], &[]);
        let genuine = way_back(running.page()).await;
        let mut forged = genuine.clone();
        forged.set_query(None);
        for (key, genuine) in genuine.query_pairs() {
            let value = if key == name { value } else { &genuine };
            forged.query_pairs_mut().append_pair(&key, value);
        }
        open(forged).await;
        let reported = failure(&running.output(), 1);
        let last = reported.lines().last().unwrap();
        assert!(
            last.contains(expected) && last.ends_with(" (denied)"),
            "{reported}"
        );
        assert!(server.token_requests().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_wait() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let server = FakeOAuth::start(OAuthRules::default());
        let running = Running::start(&["call", &server.url, "roll", "--oauth"], &[]);
        running.page();
        running.signal(signal);
        let output = running.output();
        assert_eq!(output.status.code(), Some(code));
        let reported = stderr(&output);
        assert_ends_with!(reported, "\npillion: interrupted by a signal (cancelled)\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_the_user_does_not_count_for_the_timeout() {
    for transport in ["streamable-http", "post-sse"] {
        for refuses in [false, true] {
            let server = FakeOAuth::start(OAuthRules {
                refuses,
                ..OAuthRules::default()
            });
            let arguments = ["call", &server.url, "roll", "--oauth", "--timeout", "1"];
            let options = ["--transport", transport];
            let running = Running::start(&[&arguments[..], &options].concat(), &[]);
            let page = running.page();
            tokio::time::sleep(Duration::from_millis(2500)).await;
            open(page).await;
            let output = running.output();
            let reported = stderr(&output);
            assert_eq!(output.status.success(), !refuses, "{reported}");
            assert_eq!(reported.matches("Open this page").count(), 1, "{reported}");
            assert_eq!(
                reported.contains("access_denied (denied)"),
                refuses,
                "{reported}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_more_scopes_starts_another_authorization() {
    let server = FakeOAuth::start(OAuthRules::with_scopes("read", "write"));
    let running = Running::start(&["call", &server.url, "roll", "--oauth"], &[]);
    let first = running.page();
    assert_eq!(parameter(&first, "scope"), "read");
    let back = way_back(first.clone()).await;
    open(back.clone()).await;
    let second = running.page_number(1);
    // Reloading the first page has no effect.
    assert_eq!(open(back).await.status(), 400);
    assert_eq!(parameter(&second, "scope"), "read write more-0");
    open(second).await;
    let output = running.output();
    assert_eq!(stdout(&output), "15\n", "{}", stderr(&output));
}
