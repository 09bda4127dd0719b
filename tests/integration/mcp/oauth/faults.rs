//! A misbehaving authorization server.

use super::*;

const METADATA: &str = "/.well-known/oauth-authorization-server";
const RESOURCE: &str = "/.well-known/oauth-protected-resource/sse";

fn with_fault(path: &str, faults: Vec<Fault>) -> FakeOAuth {
    FakeOAuth::start(OAuthRules {
        faults: [(path.to_owned(), faults)].into(),
        ..OAuthRules::default()
    })
}

fn client_credentials(server: &FakeOAuth) -> Value {
    json!({"grant": "client_credentials", "client_id": "me", "client_secret": "hush-mine",
        "issuer": server.issuer})
}

#[tokio::test]
async fn bad_answers_are_errors_with_a_code() {
    let text = "x".repeat(9000);
    let long = format!(r#"{{"error":"invalid_grant","error_description":"{text}"}}"#);
    let elsewhere = [("Location", "https://evil.example/token")];
    let moved = Fault::response_with("307 Temporary Redirect", &elsewhere, "");
    let endless = vec![Fault::head(JSON), Fault::Forever(vec![b' '; 65536])];
    let oops = |content_type, body| vec![Fault::response("500 Oops", content_type, body)];
    let bad = |body: &str| vec![Fault::response("400 Bad", JSON, body)];
    let json = |body: &str| vec![Fault::json(body)];
    let page = vec![Fault::response("200 OK", "text/html", "<p>")];
    let foreign =
        r#"{"resource":"https://evil.example","authorization_servers":["https://a.example"]}"#;
    let unusable = r#"{"access_token":"hush\r\nX: 1","token_type":"bearer"}"#;
    let mac = r#"{"access_token":"hush","token_type":"mac"}"#;
    let (denied, unavailable) = (ErrorClass::Denied, ErrorClass::Unavailable);
    for (case, path, faults, code) in [
        ("500", "/token", oops("text/html", "<p>"), unavailable),
        ("HTML", "/token", page, denied),
        ("refusal", "/token", bad(&long), denied),
        ("unknown type", "/token", json(mac), denied),
        (
            "a token that is invalid in a header",
            "/token",
            json(unusable),
            denied,
        ),
        ("endless", "/token", endless.clone(), unavailable),
        ("cut", "/token", vec![Fault::Close], unavailable),
        ("redirect", "/token", vec![moved.clone()], denied),
        ("metadata 500", METADATA, oops(JSON, ""), unavailable),
        ("endless metadata", METADATA, endless, unavailable),
        ("metadata elsewhere", RESOURCE, vec![moved], unavailable),
        ("another resource", RESOURCE, json(foreign), denied),
        ("no registration", "/register", bad("{}"), denied),
    ] {
        let server = with_fault(path, faults);
        let client = asking(&server, &Consenting::new());
        let error = roll(&client).await.unwrap_err();
        assert_eq!(error.class(), code, "{case}: {error}");
        let text = format!("{error} {error:?}");
        assert!(text.len() < 2000, "{case}: {text}");
        assert!(!text.contains("hush"), "{case}: {text}");
        let requests = server.requests.all();
        let mut tokens = requests.iter().map(token);
        assert!(!tokens.any(|token| token.starts_with("Bearer")), "{case}");
    }
}

#[tokio::test]
async fn a_silent_token_endpoint_times_out_with_the_call() {
    let server = with_fault("/token", vec![Fault::Hang]);
    let settings = client_credentials(&server);
    let mut config = oauth(&server, &settings);
    config.timeout = Duration::from_millis(500);
    let begun = Instant::now();
    let error = roll(&McpClient::new(config)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn an_endpoint_in_plain_http_gets_no_credential() {
    for endpoint in [
        "token_endpoint",
        "authorization_endpoint",
        "registration_endpoint",
    ] {
        let server = with_metadata(json!({endpoint: "http://as.example/x"}));
        let person = Consenting::new();
        let error = roll(&asking(&server, &person)).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Denied, "{endpoint}: {error}");
        assert_eq!(person.prompts(), 0, "{endpoint}");
        let insecure = matches!(oauth_error(&error), OAuthError::Endpoint(_));
        assert!(insecure || endpoint == "registration_endpoint", "{error:?}");
    }
}

#[tokio::test]
async fn a_lost_client_registration_is_repeated() {
    let (server, _person, client) = consenting(OAuthRules::refreshing());
    roll(&client).await.unwrap();
    // The server forgets all tokens and clients, as a server that stores them in memory does after
    // a restart.
    server.revoke();
    let unknown = Fault::response("401 Unauthorized", JSON, r#"{"error":"invalid_client"}"#);
    server.change(|rules| _ = rules.faults.insert("/token".to_owned(), vec![unknown]));
    roll(&client).await.unwrap_err();
    server.change(|rules| rules.faults.clear());
    roll(&client).await.unwrap();
    assert!(server.requests_to("/register").len() > 1);
}

#[tokio::test]
async fn credentials_do_not_go_to_a_guessed_token_endpoint() {
    let nothing = vec![Fault::response("404 Not Found", JSON, "")];
    let faults = [METADATA, RESOURCE].map(|path| (path.to_owned(), nothing.clone()));
    let server = FakeOAuth::start(OAuthRules {
        faults: faults.into(),
        ..OAuthRules::default()
    });
    let settings = client_credentials(&server);
    let client = McpClient::new(oauth(&server, &settings));
    let error = roll(&client).await.unwrap_err();
    assert_matches!(oauth_error(&error), OAuthError::NoPublishedMetadata);
    assert!(server.requests_to("/token").is_empty());
    // The client secret is not sent with a user's consent either, if no issuer is configured.
    let settings = json!({"client_id": "me", "client_secret": "hush-mine"});
    let mut config = oauth(&server, &settings);
    config.authorization.prompt = Some(Consenting::new());
    let error = roll(&McpClient::new(config)).await.unwrap_err();
    assert_matches!(oauth_error(&error), OAuthError::NoPublishedMetadata);
    assert!(server.requests_to("/token").is_empty());
    // Without a configured client, the default endpoints of 2025-03-26 are tried.
    let person = Consenting::answering(super::redirect);
    roll(&asking(&server, &person)).await.unwrap();
    assert_eq!(person.prompts(), 1);
}

#[tokio::test]
async fn a_prompt_that_panics_is_an_error() {
    let server = FakeOAuth::start(OAuthRules::default());
    let person = Consenting::answering(|_| panic!("on purpose"));
    let error = roll(&asking(&server, &person)).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Internal);
    assert_matches!(oauth_error(&error), OAuthError::Panicked);
}
