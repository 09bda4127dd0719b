use secrecy::ExposeSecret;

use super::client::{Form, OAuthClient};
use super::discovery::AuthorizationServer;
use super::dpop::Dpop;
use super::error::short;
use super::tokens::TokenResponse;
use super::web::Web;
use super::{AuthorizationResponse, OAuthError, PendingAuthorization};

/// Exchanges the authorization code for tokens (OAuth 2.1 section 4.1).
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

/// Returns the authorization code, if the response belongs to this authorization request. The state
/// and the issuer are checked first, even before an error in the response is used (MCP 2026-07-28,
/// authorization response validation).
fn code(
    server: &AuthorizationServer,
    state: &str,
    response: AuthorizationResponse,
) -> Result<String, OAuthError> {
    if state.is_empty() || response.state() != Some(state) {
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
