use secrecy::ExposeSecret;

use super::client::{OAuthClient, RequestForm};
use super::discovery::AuthorizationServer;
use super::dpop::DpopKey;
use super::error::shorten_to_line;
use super::tokens::TokenResponse;
use super::web::WebClient;
use super::{AuthorizationResponse, OAuthError, PendingAuthorization};

/// Exchanges the authorization code for tokens (OAuth 2.1 section 4.1).
pub(super) async fn exchange_code(
    server: &AuthorizationServer,
    web_client: &WebClient,
    client: &OAuthClient,
    dpop: Option<&DpopKey>,
    pending: &PendingAuthorization,
    response: AuthorizationResponse,
) -> Result<TokenResponse, OAuthError> {
    let code = check_response(server, &pending.state, response)?;
    let form: RequestForm = vec![
        ("grant_type", "authorization_code".to_owned()),
        ("code", code),
        ("code_verifier", pending.verifier.expose_secret().to_owned()),
        ("redirect_uri", pending.redirect_uri.clone()),
    ];
    let endpoint = &server.token_endpoint;
    endpoint
        .request(web_client, Some(client), dpop, &form)
        .await
}

/// Returns the authorization code of a response to this authorization request. Checks the state and
/// the issuer before reading any other parameter, including an error (MCP 2026-07-28, authorization
/// response validation).
fn check_response(
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
    if let Some(denial) = response.error {
        let mut error = shorten_to_line(&denial);
        if let Some(description) = response.error_description {
            error.push_str(&format!(" ({})", shorten_to_line(&description)));
        }
        return Err(OAuthError::Denied { error });
    }
    let code = response.code.ok_or(OAuthError::NoCode)?;
    Ok(code.expose_secret().to_owned())
}
