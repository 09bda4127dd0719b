//! When an authorization starts, and which responses are valid.

use super::*;

#[tokio::test]
async fn e8_the_user_authorizes_once_and_every_request_has_the_token() {
    let (server, person, client) = consenting(OAuthRules::default());
    roll(&client).await.unwrap();
    roll(&client).await.unwrap();
    assert_eq!(person.prompts(), 1);
    let calls = server.requests.calls("tools/call");
    let tokens: Vec<&str> = calls.iter().map(token).collect();
    assert_eq!(tokens, ["", "Bearer hush-access-1", "Bearer hush-access-1"]);
    let registration = server.requests_to("/register")[0].json();
    assert_eq!(registration["redirect_uris"], json!([REDIRECT_URI]));
    assert_eq!(registration["application_type"], "native");
    let form = &server.token_requests()[0];
    assert_eq!(form["resource"], server.url);
    assert_eq!(form["redirect_uri"], REDIRECT_URI);
}

#[tokio::test]
async fn e8_concurrent_calls_share_one_authorization() {
    let (server, person, client) = consenting(OAuthRules::default());
    roll_at_once(&client, 30).await;
    assert_eq!(person.prompts(), 1);
    assert_eq!(server.requests_to("/token").len(), 1);
}

#[tokio::test]
async fn e8_without_a_user_the_call_is_denied_and_no_client_is_registered() {
    let server = FakeOAuth::start(OAuthRules::default());
    let client = McpClient::new(oauth(&server, &json!({})));
    let error = roll(&client).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Denied);
    assert_contains!(
        error.to_string(),
        "the server requires a user's authorization"
    );
    assert_matches!(oauth_error(&error), OAuthError::NoPrompt);
    assert!(server.requests_to("/register").is_empty());
}

/// Returns a redirect with the parameters of an error.
fn error_redirect(request: &AuthorizationRequest, error: &str, issuer: &str) -> String {
    let (uri, state) = (&request.redirect_uri, parameter(request, "state"));
    format!("{uri}?{error}&state={state}&iss={issuer}")
}

#[tokio::test]
async fn an_authorization_response_for_another_request_is_refused() {
    type Responder = fn(&super::AuthorizationRequest) -> String;
    type Check = fn(&OAuthError) -> bool;
    let is_wrong_issuer: Check = |error| matches!(error, OAuthError::WrongIssuer);
    let cases: [(&str, Responder, Check); 5] = [
        (
            "another state",
            |request| {
                let (uri, iss) = (&request.redirect_uri, issuer(request));
                format!("{uri}?code=c&state=x&iss={iss}")
            },
            |error| matches!(error, OAuthError::WrongState),
        ),
        (
            "another issuer",
            |request| format!("{}&iss=https://evil.example", redirect(request)),
            is_wrong_issuer,
        ),
        ("no issuer", redirect, is_wrong_issuer),
        (
            "a refusal",
            |request| {
                let error = "error=access_denied&error_description=not+today";
                error_redirect(request, error, &issuer(request))
            },
            |error| {
                let expected = "access_denied (not today)";
                matches!(error, OAuthError::Denied { error } if error == expected)
            },
        ),
        (
            "a refusal of another issuer",
            |request| {
                let error = "error=login&error_description=evil";
                error_redirect(request, error, "https://e.example")
            },
            is_wrong_issuer,
        ),
    ];
    for (case, response, expected) in cases {
        let server = FakeOAuth::start(OAuthRules::default());
        let client = asking(&server, &Consenting::answering(response));
        let error = roll(&client).await.unwrap_err();
        assert!(expected(oauth_error(&error)), "{case}: {error}");
        assert_eq!(error.class(), ErrorClass::Denied, "{case}");
        assert!(server.requests_to("/token").is_empty(), "{case}");
    }
}

#[tokio::test]
async fn without_pkce_no_authorization_is_started() {
    for methods in [json!(null), json!(["plain"])] {
        let server = with_metadata(json!({"code_challenge_methods_supported": methods}));
        let person = Consenting::new();
        let error = roll(&asking(&server, &person)).await.unwrap_err();
        assert_matches!(oauth_error(&error), OAuthError::PkceUnsupported);
        assert_eq!(person.prompts(), 0);
    }
}

#[tokio::test]
async fn the_token_endpoint_may_be_at_another_origin_than_its_issuer() {
    let other = FakeOAuth::start(OAuthRules::default());
    let server = with_metadata(json!({"token_endpoint": format!("{}/token", other.issuer)}));
    // The fake MCP server does not know the other one's tokens.
    let client = asking(&server, &Consenting::new());
    roll(&client).await.unwrap_err();
    let forms = other.token_requests();
    assert_eq!(forms[0]["grant_type"], "authorization_code");
    assert!(server.token_requests().is_empty());
}

#[tokio::test]
async fn a_sign_in_page_at_another_origin_needs_iss_or_a_configured_issuer() {
    let server = with_metadata(json!({
        "authorization_endpoint": "https://login.example/authorize",
        "authorization_response_iss_parameter_supported": null,
    }));
    let person = Consenting::answering(redirect);
    let error = roll(&asking(&server, &person)).await.unwrap_err();
    assert_matches!(
        oauth_error(&error),
        OAuthError::ForeignAuthorizationEndpoint { .. }
    );
    assert_eq!(person.prompts(), 0);
    let settings = json!({"issuer": server.issuer});
    let client = McpClient::new(prompted(&server, &settings, &person));
    roll(&client).await.unwrap();
    let announced = json!(true);
    let name = "authorization_response_iss_parameter_supported";
    server.change(|rules| rules.metadata[name] = announced);
    let person = Consenting::answering(|request| {
        let issuer = request.server.as_str().trim_end_matches("/sse");
        format!("{}&iss={issuer}", redirect(request))
    });
    roll(&asking(&server, &person)).await.unwrap();
    assert_eq!(person.prompts(), 1);
}

#[tokio::test]
async fn scopes_accumulate_when_a_server_requires_more() {
    let (server, person, client) = consenting(OAuthRules::with_scopes("read", "write"));
    roll(&client).await.unwrap();
    assert_eq!(person.prompts(), 2);
    let forms = server.token_requests();
    assert_eq!(forms[0]["code"], "hush-code-read");
    assert_eq!(forms[1]["code"], "hush-code-read write more-0");
}

#[tokio::test]
async fn a_scope_that_was_not_granted_is_not_requested_again() {
    for (greedy, prompts_by_call) in [(false, [2, 0]), (true, [3, 2])] {
        let server = FakeOAuth::start(OAuthRules {
            scope: Some("read".to_owned()),
            call_scope: Some("write".to_owned()),
            narrow: true,
            greedy,
            ..OAuthRules::default()
        });
        let person = Consenting::new();
        let client = asking(&server, &person);
        for prompts in prompts_by_call {
            let before = person.prompts();
            let error = roll(&client).await.unwrap_err();
            assert_eq!(error.class(), ErrorClass::Denied);
            assert_eq!(error.http_status(), Some(403));
            assert_eq!(person.prompts() - before, prompts, "greedy: {greedy}");
        }
    }
}

#[tokio::test]
async fn a_configured_client_is_used_with_one_authorization_server_only() {
    let home = FakeOAuth::start(OAuthRules::default());
    let away = FakeOAuth::start(OAuthRules::default());
    let person = Consenting::new();
    let settings = json!({"client_id": "me", "client_secret": "hush-mine"});
    let client = McpClient::new(prompted(&home, &settings, &person));
    roll(&client).await.unwrap();
    home.revoke();
    home.change(|rules| rules.other_issuer = Some(away.issuer.clone()));
    let error = roll(&client).await.unwrap_err();
    let expected = away.issuer.clone();
    assert_matches!(oauth_error(&error), OAuthError::ForeignClient { found_issuer } if *found_issuer == expected);
    assert_eq!(person.prompts(), 1);
    let is_bare = |request: &Recorded| token(request).is_empty() && request.body.is_empty();
    assert!(away.requests.all().iter().all(is_bare));
}

#[tokio::test]
async fn the_time_of_the_user_does_not_count_for_the_server() {
    let server = FakeOAuth::start(OAuthRules::default());
    let person = Consenting::after(Duration::from_millis(1500));
    let mut config = prompted(&server, &json!({}), &person);
    config.transport = TransportKind::Auto;
    // The shorter timeout limits the wait of the detection to one second.
    config.timeout = Duration::from_secs(4);
    roll(&McpClient::new(config)).await.unwrap();
    assert_eq!(person.prompts(), 1);
    let probes = server.requests.calls("server/discover");
    assert_eq!(token(probes.last().unwrap()), "Bearer hush-access-1");
}

#[tokio::test]
async fn an_authorization_may_take_longer_than_a_call() {
    let server = FakeOAuth::start(OAuthRules::default());
    let person = Consenting::after(Duration::from_millis(1200));
    let mut config = prompted(&server, &json!({}), &person);
    config.transport = TransportKind::Auto;
    config.timeout = Duration::from_millis(200);
    let client = McpClient::new(config);
    let mut calls = 0;
    while let Err(error) = roll(&client).await {
        assert_eq!(error.class(), ErrorClass::Timeout, "{error}");
        calls += 1;
        assert!(calls < 100);
    }
    assert!(calls > 1);
    assert_eq!(person.prompts(), 1);
}

#[tokio::test]
async fn a_late_refusal_of_the_user_is_not_requested_again() {
    // The first step of the detection waits for a quarter of the deadline, the call for all of it.
    for timeout in [Duration::from_secs(4), Duration::from_millis(400)] {
        let server = FakeOAuth::start(OAuthRules::default());
        let person = Consenting {
            thinks: Duration::from_millis(1500),
            redirect: |request| error_redirect(request, "error=access_denied", &issuer(request)),
            prompts: AtomicUsize::new(0),
        };
        let person = Arc::new(person);
        let mut config = prompted(&server, &json!({}), &person);
        config.transport = TransportKind::Auto;
        config.timeout = timeout;
        let client = McpClient::new(config);
        let error = loop {
            match roll(&client).await.unwrap_err() {
                error if error.class() == ErrorClass::Timeout => {}
                error => break error,
            }
        };
        assert_matches!(oauth_error(&error), OAuthError::Denied { .. });
        assert_eq!(person.prompts(), 1, "{timeout:?}");
        assert!(server.token_requests().is_empty());
    }
}
