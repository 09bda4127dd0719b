use rmcp::transport::auth::OAuthClientConfig;
use secrecy::{ExposeSecret, SecretString};

use super::client::OAuthClient;
use super::discovery::AuthorizationServer;
use super::error::SdkError;
use super::web::Web;
use super::{ClientRegistration, OAuthConfig, OAuthCredentials, OAuthError};

const CLIENT_NAME: &str = "Pillion";

/// Maximum number of stored registrations, in case a server keeps naming new authorization servers.
const MAX_REGISTRATIONS: usize = 20;

/// Returns the client for this authorization server, in the order of the specification (client
/// registration): configured, client id metadata document, registered before, registered now. Adds
/// new registrations to `credentials`, by issuer.
pub(super) async fn client_for(
    server: &AuthorizationServer,
    web: &Web,
    config: &OAuthConfig,
    redirect_uri: &str,
    scopes: &[String],
    credentials: &mut OAuthCredentials,
) -> Result<OAuthClient, OAuthError> {
    if let Some(client) = config.client()? {
        // `Binding` restricts the client to this authorization server.
        let registration = ClientRegistration {
            client_id: client.id.clone(),
            // The configured client secret is not stored.
            client_secret: None,
            redirect_uri: redirect_uri.to_owned(),
        };
        let issuer = server.token.issuer.clone();
        credentials.registrations.insert(issuer, registration);
        return Ok(client);
    }
    if let Some(url) = &config.client_metadata_url
        && server.supports_metadata_documents()
    {
        return Ok(OAuthClient::with_secret(url.clone(), None));
    }
    let known = credentials.registrations.get(&server.token.issuer);
    let registration = match known.filter(|known| known.redirect_uri == redirect_uri) {
        Some(known) => known.clone(),
        None => register(server, web, config, redirect_uri, scopes).await?,
    };
    let client = registration.client();
    let registrations = &mut credentials.registrations;
    registrations.insert(server.token.issuer.clone(), registration);
    while registrations.len() > MAX_REGISTRATIONS {
        registrations.pop_first();
    }
    Ok(client)
}

/// Registers the client dynamically (RFC 7591) with the SDK: as a native application if the
/// redirect goes to this machine (OpenID Connect Registration 1.0, `application_type`), otherwise
/// as a web application.
async fn register(
    server: &AuthorizationServer,
    web: &Web,
    config: &OAuthConfig,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<ClientRegistration, OAuthError> {
    if !server.supports_registration() {
        return Err(OAuthError::NoClient);
    }
    let failed = |error| OAuthError::Registration(SdkError::new(error));
    // The SDK takes the type from the configured client.
    let application_type = if is_native(redirect_uri) {
        "native"
    } else {
        "web"
    };
    let placeholder =
        OAuthClientConfig::new("-", redirect_uri).with_application_type(application_type);
    let mut sdk = server.sdk(web).await.map_err(failed)?;
    sdk.configure_client(placeholder).map_err(failed)?;
    let name = config.client_name.as_deref().unwrap_or(CLIENT_NAME);
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let registration = sdk.register_client(name, redirect_uri, &scopes).await;
    let registered = registration.map_err(failed)?;
    let secret = registered.client_secret.map(SecretString::from);
    Ok(ClientRegistration {
        client_id: registered.client_id,
        client_secret: secret.filter(|secret| !secret.expose_secret().is_empty()),
        redirect_uri: redirect_uri.to_owned(),
    })
}

/// Returns whether a redirect stays on the user's machine: a loopback address or a private URI
/// scheme.
fn is_native(redirect_uri: &str) -> bool {
    url::Url::parse(redirect_uri).is_ok_and(|url| match url.scheme() {
        "http" | "https" => url
            .host()
            .is_some_and(|host| super::web::is_loopback(&host)),
        _ => true,
    })
}
