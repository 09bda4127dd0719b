//! The client with the real servers of `tests/peers` that require OAuth.

use pillion_mcp_client::{
    Authentication, InMemoryTokenStore, OAuthCredentials, PromptError, TokenKey, TokenStore,
};

use super::*;

/// A browser: these servers consent to everything and redirect at once.
struct Browser;

impl AuthorizationPrompt for Browser {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        Box::pin(async move {
            let redirects = reqwest::redirect::Policy::none();
            let client = reqwest::Client::builder()
                .no_proxy()
                .redirect(redirects)
                .build()
                .unwrap();
            let response = client.get(request.url).send().await.unwrap();
            let location = response.headers().get("location");
            let redirect_uri = location.ok_or(PromptError::Abandoned)?.to_str().unwrap();
            Ok(AuthorizationResponse::from_redirect(redirect_uri)?)
        })
    }
}

#[tokio::test]
async fn e8_real_servers_give_tokens_and_refresh_them() {
    for (name, refreshes) in [("sdk-oauth", false), ("fastmcp-oauth", true)] {
        let Some(peer) = Peer::new(name) else { return };
        let store = Arc::new(InMemoryTokenStore::default());
        let mut config = config(&peer.url, TransportKind::Auto);
        let settings = json!({"type": "oauth", "redirect_uri": REDIRECT_URI});
        config.authentication = serde_json::from_value(settings).unwrap();
        config.authorization.token_store = Some(Arc::<InMemoryTokenStore>::clone(&store));
        let mut asking = config.clone();
        asking.authorization.prompt = Some(Arc::new(Browser));
        let client = McpClient::new(asking);
        assert!(!client.list_tools().await.unwrap().is_empty(), "{name}");
        client.disconnect().await;
        if refreshes {
            end_access_token(&store, &config).await;
        }
        // No user is available now.
        let client = McpClient::new(config);
        assert!(!client.list_tools().await.unwrap().is_empty(), "{name}");
        client.disconnect().await;
    }
}

/// Makes the token expire.
async fn end_access_token(store: &InMemoryTokenStore, config: &ServerConfig) {
    let Authentication::OAuth(oauth) = &config.authentication else {
        panic!()
    };
    let key = TokenKey::new(config.url().unwrap(), oauth);
    let stored = store.load(&key).await.unwrap().unwrap();
    let mut stored: Value = serde_json::to_value(stored).unwrap();
    stored["tokens"]["expires_at"] = 1.into();
    stored["tokens"]["access_token"] = "ended".into();
    let stored: OAuthCredentials = serde_json::from_value(stored).unwrap();
    store.save(&key, stored).await.unwrap();
}
