use rmcp::transport::auth::OAuthClientConfig;
use secrecy::{ExposeSecret, SecretString};

use super::client::OAuthClient;
use super::discovery::AuthorizationServer;
use super::error::SdkError;
use super::{ClientRegistration, OAuthConfig, OAuthCredentials, OAuthError};

const CLIENT_NAME: &str = "Pillion";

/// A server that keeps naming new authorization servers does not fill the store.
const MOST_REGISTRATIONS: usize = 20;

/// The client to authorise with at this server, in the order that the specification has
/// (client registration): configured, by a client id metadata document, registered before,
/// registered now. What is new is noted in `credentials`, by issuer.
pub(super) async fn client_for(
    server: &mut AuthorizationServer,
    config: &OAuthConfig,
    redirect_uri: &str,
    scopes: &[String],
    credentials: &mut OAuthCredentials,
) -> Result<OAuthClient, OAuthError> {
    if let Some(client) = config.client()? {
        bind(
            &server.token.issuer,
            config,
            &client,
            redirect_uri,
            credentials,
        )?;
        return Ok(client);
    }
    if let Some(url) = &config.client_metadata_url
        && server.takes_metadata_documents()
    {
        return Ok(OAuthClient::with_secret(url.clone(), None));
    }
    let known = credentials.registrations.get(&server.token.issuer);
    let known = known.filter(|known| known.redirect_uri == redirect_uri);
    let registration = match known {
        Some(known) => known.clone(),
        None => register(server, config, redirect_uri, scopes).await?,
    };
    let client = OAuthClient::with_secret(
        registration.client_id.clone(),
        registration.client_secret.clone(),
    );
    let registrations = &mut credentials.registrations;
    registrations.insert(server.token.issuer.clone(), registration);
    while registrations.len() > MOST_REGISTRATIONS {
        registrations.pop_first();
    }
    Ok(client)
}

/// A configured client belongs to one authorization server: the configured one, or the
/// first that it was used at. No other ever sees it.
pub(super) fn bind(
    issuer: &str,
    config: &OAuthConfig,
    client: &OAuthClient,
    redirect_uri: &str,
    credentials: &mut OAuthCredentials,
) -> Result<(), OAuthError> {
    let registrations = &mut credentials.registrations;
    let mut bound = registrations
        .iter()
        .filter(|(_, registration)| registration.client_id == client.id);
    let is_bound_elsewhere = bound.next().is_some_and(|(bound, _)| bound != issuer);
    // A configured issuer was already compared after discovery.
    if is_bound_elsewhere && config.issuer.is_none() {
        let found = super::error::short(issuer);
        return Err(OAuthError::ForeignClient { found });
    }
    // The secret stays in the configuration.
    let registration = ClientRegistration {
        client_id: client.id.clone(),
        client_secret: None,
        redirect_uri: redirect_uri.to_owned(),
    };
    registrations.insert(issuer.to_owned(), registration);
    Ok(())
}

/// Dynamic registration (RFC 7591), by the SDK: as a native application, for the redirect
/// goes to this machine (OpenID Connect Registration 1.0, `application_type`), else as web.
async fn register(
    server: &mut AuthorizationServer,
    config: &OAuthConfig,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<ClientRegistration, OAuthError> {
    if !server.registers_clients() {
        return Err(OAuthError::NoClient);
    }
    let failed = |error| OAuthError::Registration(SdkError::new(error));
    // The SDK takes the type from the client that is configured.
    let application_type = if is_native(redirect_uri) {
        "native"
    } else {
        "web"
    };
    let placeholder = OAuthClientConfig::new("-", redirect_uri);
    let placeholder = placeholder.with_application_type(application_type);
    server.sdk.configure_client(placeholder).map_err(failed)?;
    let name = config.client_name.as_deref().unwrap_or(CLIENT_NAME);
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let registered = server
        .sdk
        .register_client(name, redirect_uri, &scopes)
        .await;
    let registered = registered.map_err(failed)?;
    let secret = registered.client_secret.map(SecretString::from);
    Ok(ClientRegistration {
        client_id: registered.client_id,
        client_secret: secret.filter(|secret| !secret.expose_secret().is_empty()),
        redirect_uri: redirect_uri.to_owned(),
    })
}

/// Whether a redirect stays on the person's machine: a loopback address, or a scheme of the
/// application's own.
fn is_native(redirect_uri: &str) -> bool {
    url::Url::parse(redirect_uri).is_ok_and(|url| match url.scheme() {
        "http" | "https" => url
            .host()
            .is_some_and(|host| super::web::is_loopback(&host)),
        _ => true,
    })
}
