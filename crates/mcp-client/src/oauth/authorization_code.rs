use rmcp::transport::auth::OAuthClientConfig;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::client::{Form, OAuthClient};
use super::discovery::AuthorizationServer;
use super::dpop::Dpop;
use super::error::short;
use super::tokens::TokenResponse;
use super::web::Web;
use super::{
    AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, OAuthError,
    PendingAuthorization,
};

/// Prompts the user, and exchanges the authorization code (OAuth 2.1 section 4.1).
pub(super) struct AuthorizationCode<'a> {
    pub(super) web: &'a Web,
    pub(super) prompt: &'a dyn AuthorizationPrompt,
    pub(super) client: &'a OAuthClient,
    /// The client secret from dynamic registration, if any.
    pub(super) registered_secret: Option<SecretString>,
    pub(super) redirect_uri: &'a str,
    pub(super) scopes: &'a [String],
    pub(super) dpop: Option<&'a Dpop>,
    /// The URL of the MCP server.
    pub(super) server: &'a Url,
}

impl AuthorizationCode<'_> {
    pub(super) async fn obtain(
        &self,
        server: &AuthorizationServer,
    ) -> Result<TokenResponse, OAuthError> {
        let request = OAuthClientConfig::new(self.client.id.clone(), self.redirect_uri);
        let (url, verifier) = server
            .authorization_request(self.web, request, self.scopes)
            .await?;
        let state = url
            .query_pairs()
            .find(|(name, _)| name == "state")
            .map(|(_, state)| state.into_owned());
        let pending = PendingAuthorization {
            state: state.unwrap_or_default(),
            issuer: server.token.issuer.clone(),
            redirect_uri: self.redirect_uri.to_owned(),
            scopes: self.scopes.to_vec(),
            client_id: self.client.id.clone(),
            client_secret: self.registered_secret.clone(),
            verifier,
            resource: server.token.resource.clone(),
            dpop: self.dpop.is_some(),
        };
        let authorization = self.prompt.authorize(AuthorizationRequest {
            url,
            redirect_uri: self.redirect_uri.to_owned(),
            server: self.server.clone(),
            scopes: self.scopes.to_vec(),
            pending: pending.clone(),
        });
        let response = authorization.await?;
        exchange(server, self.web, self.client, self.dpop, &pending, response).await
    }
}

/// Exchanges the authorization code for tokens.
pub(super) async fn exchange(
    server: &AuthorizationServer,
    web: &Web,
    client: &OAuthClient,
    dpop: Option<&Dpop>,
    pending: &PendingAuthorization,
    response: AuthorizationResponse,
) -> Result<TokenResponse, OAuthError> {
    let code = code(server, &pending.state, response)?;
    let form: Form = vec![
        ("grant_type", "authorization_code".to_owned()),
        ("code", code),
        ("code_verifier", pending.verifier.expose_secret().to_owned()),
        ("redirect_uri", pending.redirect_uri.clone()),
    ];
    server.token.request(web, Some(client), dpop, &form).await
}

/// Returns the authorization code, if the response belongs to this request. The state and the
/// issuer are checked first, even before an error is used (MCP 2026-07-28, authorization response
/// validation).
fn code(
    server: &AuthorizationServer,
    state: &str,
    response: AuthorizationResponse,
) -> Result<String, OAuthError> {
    if state.is_empty() || !response.has_state(state) {
        return Err(OAuthError::WrongState);
    }
    if !server.is_issuer_of(response.issuer.as_deref()) {
        return Err(OAuthError::WrongIssuer);
    }
    if let Some(error) = response.error {
        let error = match response.error_description {
            Some(description) => format!("{} ({})", short(&error), short(&description)),
            None => short(&error),
        };
        return Err(OAuthError::Denied { error });
    }
    let code = response.code.ok_or(OAuthError::NoCode)?;
    Ok(code.expose_secret().to_owned())
}
