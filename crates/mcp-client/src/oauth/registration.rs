use rmcp::transport::auth::OAuthClientConfig;
use secrecy::{ExposeSecret, SecretString};

use super::client::OAuthClient;
use super::discovery::AuthorizationServer;
use super::error::SdkError;
use super::web::{WebClient, is_loopback};
use super::{ClientRegistration, OAuthConfig, OAuthCredentials, OAuthError};

const CLIENT_NAME: &str = "Pillion";

/// Maximum number of stored registrations, in case a server keeps naming new authorization servers.
const MAX_REGISTRATIONS: usize = 20;

/// Returns the client for this authorization server: the first available one in the order of the
/// MCP specification (client registration). Adds new registrations to `credentials`, by issuer.
///
/// 1. the configured client
/// 2. the client ID metadata document
/// 3. the stored registration
/// 4. a new registration
pub(super) async fn find_or_register_client(
    server: &AuthorizationServer,
    web_client: &WebClient,
    config: &OAuthConfig,
    redirect_uri: &str,
    scopes: &[String],
    credentials: &mut OAuthCredentials,
) -> Result<OAuthClient, OAuthError> {
    if let Some(client) = config.client()? {
        // The registration is stored, so that `IssuerBinding` restricts the client to this
        // authorization server.
        let registration = ClientRegistration {
            client_id: client.id.clone(),
            // The client secret is not stored, because the configuration already contains it.
            client_secret: None,
            redirect_uri: redirect_uri.to_owned(),
        };
        let issuer = server.token_endpoint.issuer.clone();
        credentials.registrations.insert(issuer, registration);
        return Ok(client);
    }
    if let Some(url) = &config.client_metadata_url
        && server.supports_metadata_documents()
    {
        return Ok(OAuthClient::with_secret(url.clone(), None));
    }
    let stored_registration = credentials.registrations.get(&server.token_endpoint.issuer);
    let usable_registration =
        stored_registration.filter(|stored| stored.redirect_uri == redirect_uri);
    let registration = match usable_registration {
        Some(registration) => registration.clone(),
        None => register(server, web_client, config, redirect_uri, scopes).await?,
    };
    let client = registration.client();
    let registrations = &mut credentials.registrations;
    registrations.insert(server.token_endpoint.issuer.clone(), registration);
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
    web_client: &WebClient,
    config: &OAuthConfig,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<ClientRegistration, OAuthError> {
    if !server.supports_registration() {
        return Err(OAuthError::NoClient);
    }
    let to_error = |error| OAuthError::Registration(SdkError::new(error));
    // The SDK takes the application type from the client that is configured, so a placeholder with
    // this type is configured.
    let is_native = is_native_redirect(redirect_uri);
    let application_type = if is_native { "native" } else { "web" };
    let placeholder =
        OAuthClientConfig::new("-", redirect_uri).with_application_type(application_type);
    let mut manager = server.new_sdk_manager(web_client).await.map_err(to_error)?;
    manager.configure_client(placeholder).map_err(to_error)?;
    let name = config.client_name.as_deref().unwrap_or(CLIENT_NAME);
    let scope_names: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let registration = manager.register_client(name, redirect_uri, &scope_names);
    let registered_client = registration.await.map_err(to_error)?;
    let secret = registered_client.client_secret.map(SecretString::from);
    Ok(ClientRegistration {
        client_id: registered_client.client_id,
        client_secret: secret.filter(|secret| !secret.expose_secret().is_empty()),
        redirect_uri: redirect_uri.to_owned(),
    })
}

/// Returns whether a redirect stays on the user's machine: a loopback address or a private URI
/// scheme.
fn is_native_redirect(redirect_uri: &str) -> bool {
    url::Url::parse(redirect_uri).is_ok_and(|url| match url.scheme() {
        "http" | "https" => url.host().is_some_and(|host| is_loopback(&host)),
        _ => true,
    })
}
