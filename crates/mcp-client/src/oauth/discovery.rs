use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, OAuthClientConfig, StateStore, StoredAuthorizationState,
};
use secrecy::SecretString;
use url::Url;

use super::OAuthError;
use super::binding::IssuerBinding;
use super::challenge::ParsedChallenge;
use super::error::{SdkError, shorten_to_line};
use super::issuer::Issuer;
use super::metadata::ServerMetadata;
use super::resource::ProtectedResource;
use super::token_request::TokenEndpoint;
use super::web::WebClient;

/// Maximum number of authorization servers to try for one MCP server.
const MAX_CANDIDATES: usize = 10;

/// An authorization server whose metadata comes from its own well-known addresses (RFC 8414, OpenID
/// Connect Discovery). An MCP server of revision 2025-03-26 is its own authorization server, with
/// metadata or default endpoints at its origin.
pub(super) struct AuthorizationServer {
    pub(super) token_endpoint: TokenEndpoint,
    /// The scopes of the first authorization: from the challenge, or else from the metadata.
    pub(super) initial_scopes: Vec<String>,
    /// Whether the server has published metadata; otherwise its endpoints are the default ones.
    pub(super) is_published: bool,
    issuer: Issuer,
    metadata: ServerMetadata,
}

impl AuthorizationServer {
    /// Discovers the authorization server of an MCP server. If the client is bound to an issuer,
    /// uses only that issuer and fetches nothing from any other issuer.
    pub(super) async fn discover(
        web_client: &WebClient,
        server: &Url,
        challenge: &ParsedChallenge,
        binding: &IssuerBinding,
    ) -> Result<Self, OAuthError> {
        let resource = ProtectedResource::discover(web_client, server, challenge).await?;
        let mut authorization_server = if resource.authorization_servers.is_empty() {
            Self::find_server_at_origin(web_client, server, binding).await?
        } else {
            Self::find_named_server(web_client, &resource, binding).await?
        };
        authorization_server.initial_scopes =
            authorization_server.select_initial_scopes(challenge, resource.scopes);
        authorization_server.token_endpoint.resource = Some(resource.identifier);
        Ok(authorization_server)
    }

    /// Returns the authorization server with this issuer, without a request to the MCP server. Used
    /// to refresh tokens and to complete an authorization.
    pub(super) async fn for_issuer(
        web_client: &WebClient,
        server: &Url,
        issuer: &str,
        resource: Option<String>,
    ) -> Result<Self, OAuthError> {
        let issuer = Issuer::parse(issuer)?;
        let published_metadata =
            ServerMetadata::fetch(web_client, &issuer, &[issuer.as_str()]).await?;
        let is_published = published_metadata.is_some();
        let metadata = match published_metadata {
            Some(metadata) => metadata,
            None if issuer.is_origin_of(server) => ServerMetadata::for_unpublished(&issuer),
            None => return Err(no_metadata_error(&issuer)),
        };
        let mut authorization_server = Self::new(web_client, issuer, metadata, is_published)?;
        authorization_server.token_endpoint.resource = resource;
        Ok(authorization_server)
    }

    /// Returns the first usable authorization server that a resource names.
    async fn find_named_server(
        web_client: &WebClient,
        resource: &ProtectedResource,
        binding: &IssuerBinding,
    ) -> Result<Self, OAuthError> {
        let named_issuers = &resource.authorization_servers;
        let is_named = |issuer: &Issuer| named_issuers.iter().any(|named| named == issuer.as_str());
        let candidates: Vec<Result<Issuer, OAuthError>> = match binding.issuer() {
            Some(bound_issuer) if is_named(bound_issuer) => vec![Ok(bound_issuer.clone())],
            Some(_) => return Err(binding.rejection_error(&named_issuers[0])),
            None => {
                let first_issuers = named_issuers.iter().take(MAX_CANDIDATES);
                first_issuers.map(|issuer| Issuer::parse(issuer)).collect()
            }
        };
        let mut first_error = None;
        for candidate in candidates {
            let error = match candidate {
                Ok(issuer) => {
                    let accepted_issuers = [issuer.as_str()];
                    match ServerMetadata::fetch(web_client, &issuer, &accepted_issuers).await? {
                        Some(metadata) => return Self::new(web_client, issuer, metadata, true),
                        None => no_metadata_error(&issuer),
                    }
                }
                Err(error) => error,
            };
            first_error.get_or_insert(error);
        }
        Err(first_error.unwrap_or_else(|| binding.rejection_error(&named_issuers[0])))
    }

    /// Returns the authorization server at the MCP server's own origin. The origin has the same
    /// well-known addresses with and without a final slash, so the metadata document decides which
    /// of the two forms is the issuer.
    async fn find_server_at_origin(
        web_client: &WebClient,
        server: &Url,
        binding: &IssuerBinding,
    ) -> Result<Self, OAuthError> {
        let origin = Issuer::from_origin(server)?;
        let origin_with_slash = format!("{}/", origin.as_str());
        let (expected_issuer, accepted_issuers) = match binding.issuer() {
            Some(bound_issuer) if !bound_issuer.is_origin_of(server) => {
                return Err(binding.rejection_error(origin.as_str()));
            }
            Some(bound_issuer) => (bound_issuer, vec![bound_issuer.as_str()]),
            None => (&origin, vec![origin.as_str(), &origin_with_slash]),
        };
        let published_metadata =
            ServerMetadata::fetch(web_client, expected_issuer, &accepted_issuers).await?;
        let Some(metadata) = published_metadata else {
            let metadata = ServerMetadata::for_unpublished(expected_issuer);
            return Self::new(web_client, expected_issuer.clone(), metadata, false);
        };
        let issuer = Issuer::parse(metadata.issuer.as_deref().unwrap_or_default())?;
        Self::new(web_client, issuer, metadata, true)
    }

    fn new(
        web_client: &WebClient,
        issuer: Issuer,
        metadata: ServerMetadata,
        is_published: bool,
    ) -> Result<Self, OAuthError> {
        Ok(Self {
            token_endpoint: TokenEndpoint {
                issuer: issuer.as_str().to_owned(),
                url: web_client.parse_allowed_url(&metadata.token_endpoint)?,
                auth_methods: metadata.token_endpoint_auth_methods_supported.clone(),
                resource: None,
            },
            initial_scopes: Vec::new(),
            is_published,
            issuer,
            metadata,
        })
    }

    /// Selects the scopes of the first authorization: from the challenge, or else from the
    /// resource's metadata (MCP scope selection strategy). Adds `offline_access` if the
    /// authorization server supports that scope.
    fn select_initial_scopes(
        &self,
        challenge: &ParsedChallenge,
        default_scopes: Vec<String>,
    ) -> Vec<String> {
        const OFFLINE_SCOPE: &str = "offline_access";
        let mut scopes = if challenge.scopes.is_empty() {
            default_scopes
        } else {
            challenge.scopes.clone()
        };
        let has_offline = |scopes: &Vec<String>| scopes.iter().any(|scope| scope == OFFLINE_SCOPE);
        let supported_scopes = self.metadata.scopes_supported.as_ref();
        let supports_offline_access = supported_scopes.is_some_and(has_offline);
        if supports_offline_access && !scopes.is_empty() && !has_offline(&scopes) {
            scopes.push(OFFLINE_SCOPE.to_owned());
        }
        scopes
    }

    /// Returns the SDK's manager for this authorization server. The manager gets the validated
    /// metadata, so that the SDK does not fetch any metadata.
    pub(super) async fn new_sdk_manager(
        &self,
        web_client: &WebClient,
    ) -> Result<AuthorizationManager, AuthError> {
        let http_client = Arc::new(web_client.clone());
        let url = self.issuer.url().clone();
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(url, http_client).await?;
        manager.set_metadata(self.metadata.to_sdk_metadata());
        Ok(manager)
    }

    /// Returns the authorization URL for the user, and its PKCE verifier.
    pub(super) async fn build_authorization_request(
        &self,
        web_client: &WebClient,
        client: OAuthClientConfig,
        scopes: &[String],
    ) -> Result<(Url, SecretString), OAuthError> {
        let to_error = |error| OAuthError::AuthorizationRequest(SdkError::new(error));
        let verifier_slot = Arc::new(Mutex::new(None));
        let mut manager = self.new_sdk_manager(web_client).await.map_err(to_error)?;
        manager.set_state_store(VerifierStore(Arc::clone(&verifier_slot)));
        manager.configure_client(client).map_err(to_error)?;
        let scope_names: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url_request = manager.get_authorization_url(&scope_names);
        let url_text = url_request.await.map_err(to_error)?;
        let mut url =
            Url::parse(&url_text).map_err(|error| to_error(AuthError::UrlError(error)))?;
        self.set_resource(&mut url);
        let verifier = verifier_slot.lock().take();
        Ok((url, verifier.ok_or(OAuthError::NoCode)?))
    }

    /// Sets the parameter `resource` of an authorization URL (RFC 8707). The SDK sets another
    /// value, because the SDK does not know the resource's metadata.
    fn set_resource(&self, url: &mut Url) {
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let other_pairs = pairs.iter().filter(|(name, _)| name != "resource");
        let mut query = url.query_pairs_mut();
        query.clear().extend_pairs(other_pairs);
        if let Some(resource) = &self.token_endpoint.resource {
            query.append_pair("resource", resource);
        }
    }

    /// Checks that an authorization request is safe: the server announces PKCE with S256, and
    /// Pillion could detect a response from another server (RFC 9700 section 4.4). A server without
    /// metadata is not checked, because such a server cannot announce anything.
    pub(super) fn check_authorization_support(
        &self,
        web_client: &WebClient,
        binding: &IssuerBinding,
    ) -> Result<(), OAuthError> {
        if self.is_published && !self.metadata.has_pkce() {
            return Err(OAuthError::PkceUnsupported);
        }
        let endpoint_text = self
            .metadata
            .authorization_endpoint
            .as_deref()
            .ok_or(OAuthError::NoAuthorizationEndpoint)?;
        let endpoint = web_client.parse_allowed_url(endpoint_text)?;
        let is_foreign = endpoint.origin() != self.issuer.url().origin();
        if is_foreign
            && !self.metadata.announces_issuer()
            && !matches!(binding, IssuerBinding::ConfiguredIssuer(_))
        {
            let issuer = shorten_to_line(self.issuer.as_str());
            return Err(OAuthError::ForeignAuthorizationEndpoint { issuer });
        }
        Ok(())
    }

    pub(super) fn supports_registration(&self) -> bool {
        self.metadata.registration_endpoint.is_some()
    }

    pub(super) fn supports_metadata_documents(&self) -> bool {
        self.metadata.client_id_metadata_document_supported == Some(true)
    }

    /// Returns whether the issuer in an authorization response is the issuer of this server (RFC
    /// 9207 section 2.4). Issuers are compared as strings. A missing issuer is accepted, unless the
    /// server announces that its responses name the issuer.
    pub(super) fn is_issuer_of(&self, response_issuer: Option<&str>) -> bool {
        match response_issuer {
            Some(issuer) => self.issuer.as_str() == issuer,
            None => !self.metadata.announces_issuer(),
        }
    }

    pub(super) fn binds_tokens(&self) -> bool {
        self.metadata.binds_tokens()
    }
}

fn no_metadata_error(issuer: &Issuer) -> OAuthError {
    let issuer = shorten_to_line(issuer.as_str());
    OAuthError::NoMetadata { issuer }
}

/// Receives the PKCE verifier that the SDK generates, because Pillion makes the token request
/// itself.
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
