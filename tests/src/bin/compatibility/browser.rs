use pillion_mcp_client::{
    AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, PromptError, PromptFuture,
};

/// The redirect URI. No server listens there; the redirect's URL is sufficient.
pub const REDIRECT_URI: &str = "http://127.0.0.1:9/callback";

/// A user's browser, for an authorization server that consents at once.
pub struct Browser;

impl AuthorizationPrompt for Browser {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        Box::pin(async move {
            let redirects = reqwest::redirect::Policy::none();
            let client = reqwest::Client::builder()
                .no_proxy()
                .redirect(redirects)
                .build()
                .map_err(|_| PromptError::Abandoned)?;
            let page = client
                .get(request.url)
                .send()
                .await
                .map_err(|_| PromptError::Abandoned)?;
            let location = page
                .headers()
                .get("location")
                .and_then(|location| location.to_str().ok())
                .ok_or(PromptError::Abandoned)?;
            Ok(AuthorizationResponse::from_redirect(location)?)
        })
    }
}
