//! OAuth tokens in a token store.

use pillion_mcp_client::{
    InMemoryTokenStore, OAuthCredentials, PendingAuthorization, PromptError, StoreFuture, TokenKey,
    TokenStore, TokenStoreError,
};

use super::*;

fn client(
    server: &FakeOAuth,
    store: &Arc<InMemoryTokenStore>,
    person: Option<&Arc<Consenting>>,
) -> McpClient {
    let mut config = oauth(server, &json!({}));
    config.authorization.token_store = Some(Arc::<InMemoryTokenStore>::clone(store));
    if let Some(person) = person {
        config.authorization.prompt = Some(Arc::<Consenting>::clone(person));
    }
    McpClient::new(config)
}

#[tokio::test]
async fn another_client_uses_the_stored_tokens_without_an_authorization() {
    let server = FakeOAuth::start(OAuthRules::refreshing());
    let store = Arc::new(InMemoryTokenStore::default());
    roll(&client(&server, &store, Some(&Consenting::new())))
        .await
        .unwrap();
    roll(&client(&server, &store, None)).await.unwrap();
    assert_eq!(server.token_requests().len(), 1);
    // The stored refresh token and its client are used when the access token has expired.
    server.revoke();
    roll(&client(&server, &store, None)).await.unwrap();
    let refresh = &server.token_requests()[1];
    assert_eq!(refresh["refresh_token"], "hush-refresh-1");
    let request = &server.requests_to("/token")[1];
    assert_starts_with!(request.header("authorization"), "Basic ");
    // The new refresh token has replaced the used one.
    server.revoke();
    roll(&client(&server, &store, None)).await.unwrap();
    let expected = "hush-refresh-2";
    assert_eq!(server.token_requests()[2]["refresh_token"], expected);
}

/// A prompt whose authorization response goes to another client.
struct Deferring(Mutex<Option<AuthorizationRequest>>);

impl AuthorizationPrompt for Deferring {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        *self.0.lock().unwrap() = Some(request);
        Box::pin(async { Err(PromptError::Deferred) })
    }
}

#[tokio::test]
async fn another_client_can_finish_an_authorization() {
    let server = FakeOAuth::start(OAuthRules {
        refresh: true,
        scope: Some("mcp:read".to_owned()),
        ..OAuthRules::default()
    });
    let prompt = Arc::new(Deferring(Mutex::new(None)));
    let mut config = oauth(&server, &json!({}));
    config.authorization.prompt = Some(Arc::<Deferring>::clone(&prompt));
    let error = roll(&McpClient::new(config)).await.unwrap_err();
    let OAuthError::Prompt(PromptError::Deferred) = oauth_error(&error) else {
        panic!("{error}");
    };
    let request = prompt.0.lock().unwrap().take().unwrap();
    assert_lacks!(format!("{request:?}"), "hush");
    let stored = serde_json::to_string(&request.pending).unwrap();

    let store = Arc::new(InMemoryTokenStore::default());
    let pending = || serde_json::from_str::<PendingAuthorization>(&stored).unwrap();
    let foreign = AuthorizationResponse::new("hush-code-x", "of another", None);
    let rejected = client(&server, &store, None)
        .finish_authorization(pending(), foreign)
        .await;
    assert_matches!(oauth_error(&rejected.unwrap_err()), OAuthError::WrongState);

    let address = format!("{}&iss={}", redirect(&request), issuer(&request));
    let response = AuthorizationResponse::from_redirect(&address).unwrap();
    let other = client(&server, &store, None);
    other
        .finish_authorization(pending(), response)
        .await
        .unwrap();
    roll(&other).await.unwrap();
    // A third client uses the store and the registered client.
    server.revoke();
    roll(&client(&server, &store, None)).await.unwrap();
    assert_eq!(server.token_requests().len(), 2);
}

/// A token store that cannot be read or written.
struct Broken;

impl TokenStore for Broken {
    fn load<'a>(&'a self, _: &'a TokenKey) -> StoreFuture<'a, Option<OAuthCredentials>> {
        Box::pin(async { Err(TokenStoreError::new("no disk")) })
    }

    fn save<'a>(&'a self, _: &'a TokenKey, _: OAuthCredentials) -> StoreFuture<'a, ()> {
        Box::pin(async { Err(TokenStoreError::new("no disk")) })
    }

    fn clear<'a>(&'a self, _: &'a TokenKey) -> StoreFuture<'a, ()> {
        Box::pin(async { Err(TokenStoreError::new("no disk")) })
    }
}

#[tokio::test]
async fn an_unreadable_token_store_is_an_error_without_an_authorization() {
    let server = FakeOAuth::start(OAuthRules::default());
    let person = Consenting::new();
    let mut config = prompted(&server, &json!({}), &person);
    config.authorization.token_store = Some(Arc::new(Broken));
    let error = roll(&McpClient::new(config)).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unavailable);
    let expected = "the token store failed: no disk";
    assert_eq!(oauth_error(&error).to_string(), expected);
    assert_eq!(person.prompts(), 0);
}
