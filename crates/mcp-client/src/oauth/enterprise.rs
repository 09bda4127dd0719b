use secrecy::{ExposeSecret, SecretString};

use super::OAuthError;
use super::client::{OAuthClient, RequestForm};
use super::config::IdentityProvider;
use super::token_request::TokenEndpoint;
use super::web::WebClient;

const ID_JAG_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Exchanges the user's ID token for an identity assertion for the authorization server
/// `audience` (extension `enterprise-managed-authorization`, section 4).
pub(super) async fn request_identity_assertion(
    provider: &IdentityProvider,
    web_client: &WebClient,
    audience: &TokenEndpoint,
    scopes: &[String],
) -> Result<SecretString, OAuthError> {
    let endpoint = TokenEndpoint {
        issuer: provider.token_endpoint.to_string(),
        url: provider.token_endpoint.clone(),
        // The client secret is sent as a form parameter, as in the example of the extension,
        // because all identity providers support that.
        auth_methods: Some(vec!["client_secret_post".to_owned()]),
        resource: audience.resource.clone(),
    };
    let id_token = provider.id_token.expose_secret().to_owned();
    let mut form: RequestForm = vec![
        (
            "grant_type",
            "urn:ietf:params:oauth:grant-type:token-exchange".to_owned(),
        ),
        ("requested_token_type", ID_JAG_TOKEN_TYPE.to_owned()),
        ("audience", audience.issuer.clone()),
        ("subject_token", id_token),
        (
            "subject_token_type",
            "urn:ietf:params:oauth:token-type:id_token".to_owned(),
        ),
    ];
    if !scopes.is_empty() {
        form.push(("scope", scopes.join(" ")));
    }
    let client =
        OAuthClient::with_secret(provider.client_id.clone(), provider.client_secret.clone());
    let request = endpoint.request(web_client, Some(&client), None, &form);
    let response = request.await?;
    if response.issued_token_type.as_deref() != Some(ID_JAG_TOKEN_TYPE) {
        return Err(OAuthError::NoIdentityAssertion);
    }
    Ok(response.access_token)
}
