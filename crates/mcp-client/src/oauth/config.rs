use std::path::PathBuf;

use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use super::client::OAuthClient;
use super::issuer::Issuer;
use super::jwt::{SigningAlgorithm, SigningKey};
use crate::ServerConfigError;

/// How to obtain tokens (`"type": "oauth"`). `Debug` hides all secrets.
///
/// The MCP server names the authorization server. Without other keys than `type`, the client
/// registers itself dynamically and asks the user through an
/// [`AuthorizationPrompt`](super::AuthorizationPrompt).
///
/// ```
/// use pillion_mcp_client::{Authentication, OAuthGrant};
/// let authentication: Authentication = serde_json::from_str(r#"{
///     "type": "oauth", "grant": "client_credentials", "issuer": "https://login.example.com",
///     "client_id": "pillion", "client_secret": "s3cret", "scopes": ["mcp:read"]
/// }"#)?;
/// assert!(!format!("{authentication:?}").contains("s3cret"));
/// let Authentication::OAuth(oauth) = authentication else { panic!() };
/// assert_eq!(oauth.grant, OAuthGrant::ClientCredentials);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OAuthConfig {
    /// The grant type. Default `authorization_code`.
    pub grant: OAuthGrant,
    /// The client ID, if the client is already registered at the authorization server.
    pub client_id: Option<String>,
    /// The client secret for `client_id`.
    pub client_secret: Option<SecretString>,
    /// The issuer identifier (RFC 8414 section 2) of the only authorization server that may see
    /// this client's credentials. If an MCP server names another authorization server, Pillion
    /// fails before sending a token or registration request. Required for every grant except
    /// `authorization_code`, where a person sees the sign-in page.
    pub issuer: Option<String>,
    /// The `https` URL of a client ID metadata document. The URL becomes the client ID if the
    /// authorization server supports client ID metadata documents and no `client_id` is configured.
    pub client_metadata_url: Option<String>,
    /// The client name for dynamic registration. Default `Pillion`.
    pub client_name: Option<String>,
    /// The redirect URI for the browser, used unless the prompt provides one.
    pub redirect_uri: Option<String>,
    /// The scopes to request. Default: the scopes that the server requires. Scopes that the server
    /// requires later are added.
    pub scopes: Vec<String>,
    /// A private key in PEM, as PKCS#8 (RSA also as PKCS#1). Replaces `client_secret` for the
    /// grants `client_credentials` and `enterprise`.
    pub private_key: Option<SecretString>,
    /// The signing algorithm of `private_key`. Default `ES256`.
    pub signing_algorithm: SigningAlgorithm,
    /// The key ID (`kid`) in the client assertion, if the authorization server requires one.
    pub key_id: Option<String>,
    /// For `jwt_bearer`: the JWT that identifies this workload.
    pub assertion: Option<SecretString>,
    /// For `jwt_bearer`: a file with the JWT that identifies this workload, of at most 64 KiB. The
    /// file is read for each token request, because container platforms replace the JWT regularly.
    pub assertion_file: Option<PathBuf>,
    /// For `enterprise`: the token endpoint of the identity provider.
    pub idp_token_endpoint: Option<String>,
    /// For `enterprise`: the client ID at the identity provider.
    pub idp_client_id: Option<String>,
    /// For `enterprise`: the client secret for `idp_client_id`. Default: none.
    pub idp_client_secret: Option<SecretString>,
    /// For `enterprise`: the user's ID token from the identity provider.
    pub id_token: Option<SecretString>,
}

/// The grant by which access tokens are obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OAuthGrant {
    /// Requires the user's consent in a browser (OAuth 2.1 section 4.1).
    #[default]
    AuthorizationCode,
    /// Uses the client's own credentials (extension `oauth-client-credentials`).
    ClientCredentials,
    /// Uses a JWT that the platform issued to this workload (RFC 7523 section 2.1).
    JwtBearer,
    /// Uses the user's sign-on at an enterprise identity provider (extension
    /// `enterprise-managed-authorization`).
    Enterprise,
}

/// A grant type with all settings that this grant type requires.
pub(super) enum GrantSettings {
    AuthorizationCode,
    ClientCredentials(OAuthClient),
    JwtBearer {
        client: Option<OAuthClient>,
        assertion: AssertionSource,
    },
    Enterprise {
        client: OAuthClient,
        provider: IdentityProvider,
    },
}

/// The enterprise identity provider, and the user's ID token.
pub(super) struct IdentityProvider {
    pub(super) token_endpoint: Url,
    pub(super) client_id: String,
    pub(super) client_secret: Option<SecretString>,
    pub(super) id_token: SecretString,
}

impl GrantSettings {
    /// Returns whether the grant requires a user's consent.
    pub(super) fn needs_user(&self) -> bool {
        matches!(self, Self::AuthorizationCode)
    }
}

pub(super) enum AssertionSource {
    Value(SecretString),
    File(PathBuf),
}

impl OAuthConfig {
    /// Returns the grant type with all settings that this grant type requires.
    ///
    /// # Errors
    /// [`ServerConfigError::OAuth`] with the name of a missing or invalid key.
    pub(super) fn resolve_grant(&self) -> Result<GrantSettings, ServerConfigError> {
        let key_error = |key| ServerConfigError::OAuth { key };
        if let Some(url) = &self.client_metadata_url {
            // The MCP specification requires the URL of a client ID metadata document to have a
            // path (client registration).
            let parsed_url = Url::parse(url).ok();
            parsed_url
                .filter(|url| url.scheme() == "https" && url.path().len() > 1)
                .ok_or(key_error("client_metadata_url"))?;
        }
        let grant = match self.grant {
            OAuthGrant::AuthorizationCode => GrantSettings::AuthorizationCode,
            OAuthGrant::ClientCredentials => {
                let client = self.client()?.ok_or(key_error("client_id"))?;
                if !client.is_confidential() {
                    return Err(key_error("client_secret"));
                }
                GrantSettings::ClientCredentials(client)
            }
            OAuthGrant::JwtBearer => {
                let assertion = match (&self.assertion, &self.assertion_file) {
                    (Some(value), _) => AssertionSource::Value(value.clone()),
                    (None, Some(path)) => AssertionSource::File(path.clone()),
                    (None, None) => return Err(key_error("assertion")),
                };
                GrantSettings::JwtBearer {
                    client: self.client()?,
                    assertion,
                }
            }
            OAuthGrant::Enterprise => {
                let endpoint_text = self.idp_token_endpoint.as_deref();
                let endpoint = Url::parse(endpoint_text.ok_or(key_error("idp_token_endpoint"))?);
                let client_id = self.idp_client_id.clone();
                GrantSettings::Enterprise {
                    client: self.client()?.ok_or(key_error("client_id"))?,
                    provider: IdentityProvider {
                        token_endpoint: endpoint.map_err(|_| key_error("idp_token_endpoint"))?,
                        client_id: client_id.ok_or(key_error("idp_client_id"))?,
                        client_secret: self.idp_client_secret.clone(),
                        id_token: self.id_token.clone().ok_or(key_error("id_token"))?,
                    },
                }
            }
        };
        // An issuer is required for grants without a user. Without an issuer, the MCP server would
        // choose who receives the secret or the assertion.
        let issuer = self.issuer.as_deref().map(Issuer::parse);
        match issuer {
            Some(Err(_)) => Err(key_error("issuer")),
            None if !grant.needs_user() => Err(key_error("issuer")),
            _ => Ok(grant),
        }
    }

    /// Returns the client that the configuration names; `None` if the configuration has no
    /// `client_id`.
    pub(super) fn client(&self) -> Result<Option<OAuthClient>, ServerConfigError> {
        let Some(id) = self.client_id.clone() else {
            return Ok(None);
        };
        let Some(pem) = &self.private_key else {
            let client = OAuthClient::with_secret(id, self.client_secret.clone());
            return Ok(Some(client));
        };
        let key = SigningKey::from_pem(pem, self.signing_algorithm, self.key_id.clone())
            .map_err(|_| ServerConfigError::OAuth { key: "private_key" })?;
        Ok(Some(OAuthClient::with_key(id, key)))
    }

    pub(crate) fn validate(&self) -> Result<(), ServerConfigError> {
        self.resolve_grant().map(drop)
    }
}
