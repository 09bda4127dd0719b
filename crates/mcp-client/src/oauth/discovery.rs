use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig, StateStore,
    StoredAuthorizationState,
};
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

use super::OAuthError;
use super::challenge::Challenge;
use super::error::SdkError;
use super::token_request::TokenEndpoint;
use super::web::Web;

/// The authorization server of an MCP server, discovered by the SDK: protected resource metadata
/// (RFC 9728), then authorization server metadata (RFC 8414) or OpenID Connect discovery. For
/// servers of revision 2025-03-26, the metadata at the MCP server's origin, or the default
/// endpoints there.
pub(super) struct AuthorizationServer {
    pub(super) sdk: AuthorizationManager,
    pub(super) token: TokenEndpoint,
    /// The scopes of the first request: from the challenge, or else from the metadata.
    pub(super) first_scopes: Vec<String>,
    metadata: AuthorizationMetadata,
    /// Whether the server has published metadata; otherwise its endpoints are assumed.
    pub(super) is_published: bool,
    verifier: Arc<Mutex<Option<SecretString>>>,
}

impl AuthorizationServer {
    pub(super) async fn discover(
        web: &Web,
        server: &Url,
        challenge: &Challenge,
    ) -> Result<Self, OAuthError> {
        let discovery = |error| OAuthError::Discovery(SdkError::new(error));
        let requests = Arc::new(web.clone());
        let made = AuthorizationManager::new_with_oauth_http_client(server.clone(), requests).await;
        let mut sdk = made.map_err(discovery)?;
        let header = challenge.to_header();
        let found = sdk.resolve_metadata_from_challenge(Some(&header)).await;
        let found = found.map_err(discovery)?;
        let is_published = found.source.is_discovered();
        let metadata = found.metadata;
        let url = web.check(&metadata.token_endpoint)?;
        let verifier = Arc::new(Mutex::new(None));
        sdk.set_state_store(VerifierStore(Arc::clone(&verifier)));
        let mut unchecked = metadata.clone();
        // Checked by `check_for_authorization`, and only before asking a user: the SDK ignores
        // missing PKCE support, and requires response types even for grants that have none.
        unchecked.response_types_supported = None;
        unchecked.code_challenge_methods_supported = Some(vec!["S256".to_owned()]);
        sdk.set_metadata(unchecked);
        let first_scopes = sdk.select_initial_scopes(&[]).await;
        let origin = server.origin().ascii_serialization();
        let mut found = Self {
            token: TokenEndpoint {
                issuer: metadata.issuer.clone().unwrap_or(origin),
                url,
                auth_methods: strings(&metadata, "token_endpoint_auth_methods_supported"),
                resource: None,
            },
            sdk,
            first_scopes,
            metadata,
            is_published,
            verifier,
        };
        found.token.resource = found.resource().await?;
        Ok(found)
    }

    /// Returns the resource identifier, which the SDK exposes only in authorization requests.
    async fn resource(&mut self) -> Result<Option<String>, OAuthError> {
        let request = OAuthClientConfig::new("-", "http://localhost/");
        let (url, _) = self.authorization_request(request, &[]).await?;
        let mut pairs = url.query_pairs();
        Ok(pairs.find_map(|(name, value)| (name == "resource").then(|| value.into_owned())))
    }

    /// Returns the authorization URL for the user, and its PKCE verifier.
    pub(super) async fn authorization_request(
        &mut self,
        client: OAuthClientConfig,
        scopes: &[String],
    ) -> Result<(Url, SecretString), OAuthError> {
        let failed = |error| OAuthError::AuthorizationRequest(SdkError::new(error));
        self.sdk.configure_client(client).map_err(failed)?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = self.sdk.get_authorization_url(&scopes).await;
        let url = url.map_err(failed)?;
        let url = Url::parse(&url).map_err(|error| failed(AuthError::UrlError(error)))?;
        let verifier = self.verifier.lock().take();
        Ok((url, verifier.ok_or(OAuthError::NoCode)?))
    }

    /// Checks that an authorization request is safe: the server announces PKCE with S256, and the
    /// URL is protected. Servers without metadata predate that announcement.
    pub(super) fn check_for_authorization(&self, web: &Web) -> Result<(), OAuthError> {
        let methods = self.metadata.code_challenge_methods_supported.as_ref();
        let has_pkce = methods.is_some_and(|all| all.iter().any(|method| method == "S256"));
        if self.is_published && !has_pkce {
            return Err(OAuthError::PkceUnsupported);
        }
        web.check(&self.metadata.authorization_endpoint).map(drop)
    }

    pub(super) fn supports_registration(&self) -> bool {
        self.metadata.registration_endpoint.is_some()
    }

    pub(super) fn supports_metadata_documents(&self) -> bool {
        self.flag("client_id_metadata_document_supported")
    }

    /// Returns whether an authorization response has this issuer (RFC 9207 section 2.4), compared
    /// as strings. The issuer may be missing if the server does not announce it.
    pub(super) fn is_issuer_of(&self, response_issuer: Option<&str>) -> bool {
        match response_issuer {
            Some(issuer) => self.metadata.issuer.as_deref() == Some(issuer),
            None => !self.flag("authorization_response_iss_parameter_supported"),
        }
    }

    /// Returns whether the server can bind tokens to an ES256 key (RFC 9449 section 5.1).
    pub(super) fn binds_tokens(&self) -> bool {
        let algorithms = strings(&self.metadata, "dpop_signing_alg_values_supported");
        algorithms.is_some_and(|all| all.iter().any(|algorithm| algorithm == "ES256"))
    }

    fn flag(&self, name: &str) -> bool {
        let value = self.metadata.additional_fields.get(name);
        value.and_then(Value::as_bool).unwrap_or(false)
    }
}

fn strings(metadata: &AuthorizationMetadata, name: &str) -> Option<Vec<String>> {
    let values = metadata.additional_fields.get(name)?.as_array()?;
    let texts = values.iter().filter_map(Value::as_str);
    Some(texts.map(str::to_owned).collect())
}

/// Takes the PKCE verifier from the SDK, which does not make the token request.
struct VerifierStore(Arc<Mutex<Option<SecretString>>>);

#[async_trait::async_trait]
impl StateStore for VerifierStore {
    async fn save(&self, _: &str, state: StoredAuthorizationState) -> Result<(), AuthError> {
        *self.0.lock() = Some(SecretString::from(state.pkce_verifier));
        Ok(())
    }

    async fn load(&self, _: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        Ok(None)
    }

    async fn delete(&self, _: &str) -> Result<(), AuthError> {
        Ok(())
    }
}
