//! Tokens that expire or are revoked.

use super::*;

#[tokio::test]
async fn an_expired_token_is_refreshed_once_for_all_calls() {
    let (server, person, client) = consenting(OAuthRules {
        expires_in: Some(1),
        token_delay: Duration::from_millis(100),
        ..OAuthRules::refreshing()
    });
    roll(&client).await.unwrap();
    server.change(|rules| rules.expires_in = Some(3600));
    tokio::time::sleep(Duration::from_millis(1100)).await;
    roll_at_once(&client, 30).await;
    assert_eq!(person.prompts(), 1);
    let grants = server.token_requests();
    assert_eq!(grants.len(), 2, "{grants:?}");
    assert_eq!(grants[1]["refresh_token"], "hush-refresh-1");
    // The token is refreshed before use, not after a rejection.
    let calls = server.requests.calls("tools/call");
    let unauthorised = calls.iter().filter(|call| token(call).is_empty());
    assert_eq!((unauthorised.count(), calls.len()), (1, 32));
}

#[tokio::test]
async fn a_revoked_token_is_refreshed_and_the_call_retried() {
    let (server, person, client) = consenting(OAuthRules::refreshing());
    roll(&client).await.unwrap();
    server.revoke();
    roll_at_once(&client, 10).await;
    assert_eq!(person.prompts(), 1);
    let grants = server.token_requests();
    assert_eq!(grants.len(), 2, "{grants:?}");
    assert_eq!(grants[1]["refresh_token"], "hush-refresh-1");
    assert_eq!(grants[1]["resource"], server.url);
}

#[tokio::test]
async fn a_rejected_refresh_token_starts_a_new_authorization() {
    let (server, person, client) = consenting(OAuthRules::refreshing());
    roll(&client).await.unwrap();
    server.revoke();
    server.revoke_refresh_tokens();
    roll(&client).await.unwrap();
    assert_eq!(person.prompts(), 2);
    // The client is not registered again.
    assert_eq!(server.requests_to("/register").len(), 1);
}

#[tokio::test]
async fn a_server_that_rejects_every_token_is_not_retried_endlessly() {
    let (server, person, client) = consenting(OAuthRules::default());
    roll(&client).await.unwrap();
    server.change(|rules| {
        let challenge = [("WWW-Authenticate", "Bearer error=\"invalid_token\"")];
        let rejection = pillion_testkit::Fault::response_with("401 Unauthorized", &challenge, "");
        rules.faults.insert("/sse".to_owned(), vec![rejection]);
    });
    let error = roll(&client).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Denied);
    assert_eq!(error.http_status(), Some(401));
    assert_eq!(person.prompts(), 2);
    // A later call does not start another authorization, because that token was never accepted.
    roll(&client).await.unwrap_err();
    assert_eq!(person.prompts(), 2);
}

#[tokio::test]
async fn a_cancelled_call_does_not_lose_the_token() {
    let server = FakeOAuth::start(OAuthRules {
        token_delay: Duration::from_millis(600),
        ..OAuthRules::refreshing()
    });
    let person = Consenting::new();
    let mut config = super::oauth(&server, &serde_json::json!({}));
    let prompt = std::sync::Arc::<Consenting>::clone(&person);
    config.authorization.prompt = Some(prompt);
    config.timeout = Duration::from_millis(300);
    let client = pillion_mcp_client::McpClient::new(config);
    let error = roll(&client).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    super::super::eventually("a token was given", || server.token_requests().len() == 1).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    roll(&client).await.unwrap();
    assert_eq!(person.prompts(), 1);
    let calls = server.requests.calls("tools/call");
    assert_eq!(token(calls.last().unwrap()), "Bearer hush-access-1");
}
