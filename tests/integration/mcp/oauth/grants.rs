//! Grants without user interaction.

use pillion_mcp_client::ServerConfigError;

use super::*;

#[tokio::test]
async fn client_credentials_are_renewed_without_a_refresh_token() {
    let server = FakeOAuth::start(OAuthRules {
        expires_in: Some(1),
        ..OAuthRules::default()
    });
    let settings = json!({
        "grant": "client_credentials", "client_id": "me", "client_secret": "hush-mine",
        "issuer": server.issuer, "scopes": ["read"],
    });
    let client = McpClient::new(oauth(&server, &settings));
    roll(&client).await.unwrap();
    server.change(|rules| rules.expires_in = Some(3600));
    tokio::time::sleep(Duration::from_millis(1100)).await;
    roll(&client).await.unwrap();
    roll(&client).await.unwrap();
    let calls = server.requests.calls("tools/call");
    assert_eq!(token(&calls[0]), "");
    let mut tokens = calls[1..].iter().map(token);
    assert!(tokens.all(|token| token.starts_with("Bearer hush-")));
    assert_eq!(server.token_requests().len(), 2);
    // Metadata is requested once.
    let metadata = server.requests_to("/.well-known/oauth-authorization-server");
    assert_eq!(metadata.len(), 1);
    let requests = server.requests_to("/token");
    for (form, request) in server.token_requests().iter().zip(requests) {
        assert_eq!(form["scope"], "read");
        assert_eq!(form["resource"], server.url);
        assert!(!form.contains_key("client_secret"));
        assert_starts_with!(request.header("authorization"), "Basic ");
    }
}

#[tokio::test]
async fn the_server_cannot_widen_the_configured_scopes_without_a_user() {
    let server = FakeOAuth::start(OAuthRules::with_scopes("root", "admin"));
    let grants = [
        json!({"grant": "client_credentials", "client_secret": "hush-mine"}),
        json!({"grant": "jwt_bearer", "assertion": "hush-assertion"}),
    ];
    for (count, mut settings) in grants.into_iter().enumerate() {
        settings["client_id"] = json!("me");
        settings["issuer"] = json!(server.issuer);
        settings["scopes"] = json!(["read", "write"]);
        let client = McpClient::new(oauth(&server, &settings));
        let error = roll(&client).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Denied, "{error}");
        let forms = server.token_requests();
        assert!(forms.len() > count, "no token was requested");
        let mut scopes = forms.iter().map(|form| &form["scope"]);
        assert!(scopes.all(|scope| scope == "read write"), "{forms:?}");
    }
}

#[tokio::test]
async fn an_assertion_file_is_read_for_each_request() {
    let server = FakeOAuth::start(OAuthRules::default());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "hush-first\n").unwrap();
    let settings = json!({
        "grant": "jwt_bearer", "client_id": "me", "assertion_file": file,
        "issuer": server.issuer});
    let client = McpClient::new(oauth(&server, &settings));
    roll(&client).await.unwrap();
    std::fs::write(&file, "hush-second\n").unwrap();
    server.revoke();
    roll(&client).await.unwrap();
    let forms = server.token_requests();
    let assertions: Vec<&str> = forms
        .iter()
        .map(|form| form["assertion"].as_str())
        .collect();
    assert_eq!(assertions, ["hush-first", "hush-second"]);
    assert_eq!(forms[0]["client_id"], "me");
}

#[tokio::test]
async fn a_grant_without_a_required_setting_is_rejected_by_name() {
    let server = FakeOAuth::start(OAuthRules::default());
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    for (settings, missing) in [
        (json!({"grant": "client_credentials"}), "client_id"),
        (
            json!({"grant": "client_credentials", "client_id": "c"}),
            "client_secret",
        ),
        (
            json!({"grant": "client_credentials", "client_id": "c", "private_key": key}),
            "private_key",
        ),
        (json!({"grant": "jwt_bearer"}), "assertion"),
        (json!({"grant": "jwt_bearer", "assertion": "a"}), "issuer"),
        (
            json!({"grant": "jwt_bearer", "assertion": "a", "issuer": "as.example"}),
            "issuer",
        ),
        (
            json!({"grant": "client_credentials", "client_id": "c", "client_secret": "s"}),
            "issuer",
        ),
        (
            json!({"grant": "enterprise", "client_id": "c"}),
            "idp_token_endpoint",
        ),
        (
            json!({"client_metadata_url": "http://x.example/c"}),
            "client_metadata_url",
        ),
    ] {
        let error = oauth(&server, &settings).validate().unwrap_err();
        assert_eq!(error, ServerConfigError::OAuth { key: missing });
    }
}

/// Starts a server whose protected resource metadata names the authorization server `other`.
fn naming_another(other: &FakeOAuth) -> FakeOAuth {
    FakeOAuth::start(OAuthRules {
        other_issuer: Some(other.issuer.clone()),
        ..OAuthRules::default()
    })
}

#[tokio::test]
async fn no_grant_sends_requests_to_another_issuer() {
    let other = FakeOAuth::start(OAuthRules::default());
    let server = naming_another(&other);
    for mut settings in [
        json!({"grant": "jwt_bearer", "assertion": "hush-jwt"}),
        json!({"grant": "jwt_bearer", "assertion": "hush-jwt", "client_id": "me"}),
        json!({"grant": "client_credentials", "client_id": "me", "client_secret": "hush-mine"}),
        json!({
            "grant": "enterprise", "client_id": "me", "idp_client_id": "me",
            "idp_token_endpoint": format!("{}/token", server.issuer), "id_token": "hush-id"}),
        // The first client would register itself; the second one is registered.
        json!({}),
        json!({"client_id": "me", "client_secret": "hush-mine"}),
    ] {
        settings["issuer"] = server.issuer.clone().into();
        let mut config = oauth(&server, &settings);
        let person = Consenting::new();
        config.authorization.prompt = Some(std::sync::Arc::<Consenting>::clone(&person));
        let error = roll(&McpClient::new(config)).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Denied);
        let OAuthError::ForeignIssuer {
            found_issuer,
            configured_issuer,
        } = oauth_error(&error)
        else {
            panic!("{settings}: {error}");
        };
        assert_eq!(found_issuer, &other.issuer);
        assert_eq!(configured_issuer, &server.issuer);
        assert_eq!(person.prompts(), 0);
    }
    for fake in [&server, &other] {
        assert!(fake.token_requests().is_empty());
        assert!(fake.requests_to("/register").is_empty());
    }
}

#[tokio::test]
async fn an_assertion_without_a_client_is_sent_to_the_configured_issuer() {
    let server = FakeOAuth::start(OAuthRules::default());
    let settings = json!({
        "grant": "jwt_bearer", "assertion": "hush-jwt", "issuer": server.issuer});
    let client = McpClient::new(oauth(&server, &settings));
    roll(&client).await.unwrap();
    assert_eq!(server.token_requests()[0]["assertion"], "hush-jwt");
    // The assertion is not sent to another authorization server that the MCP server names later.
    let other = FakeOAuth::start(OAuthRules::default());
    server.change(|rules| rules.other_issuer = Some(other.issuer.clone()));
    server.revoke();
    let error = roll(&client).await.unwrap_err();
    assert_matches!(oauth_error(&error), OAuthError::ForeignIssuer { .. });
    assert!(other.token_requests().is_empty());
}
