use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, OAuthClientConfig, StateStore, StoredAuthorizationState,
};
use secrecy::SecretString;
use url::Url;

use super::OAuthError;
use super::binding::Binding;
use super::challenge::Challenge;
use super::error::{SdkError, short};
use super::issuer::Issuer;
use super::metadata::ServerMetadata;
use super::resource::ProtectedResource;
use super::token_request::TokenEndpoint;
use super::web::Web;

/// Maximum number of authorization servers to try for one MCP server.
const MAX_CANDIDATES: usize = 10;

/// An authorization server whose metadata come from its own well-known addresses (RFC 8414, OpenID
/// Connect Discovery). A server of revision 2025-03-26 is its own authorization server, with
/// metadata or default endpoints at its origin.
pub(super) struct AuthorizationServer {
    pub(super) token: TokenEndpoint,
    /// The scopes of the first authorization: from the challenge, or else from the metadata.
    pub(super) first_scopes: Vec<String>,
    /// Whether the server has published metadata; otherwise its endpoints are the default ones.
    pub(super) is_published: bool,
    issuer: Issuer,
    metadata: ServerMetadata,
}

impl AuthorizationServer {
    /// Discovers the authorization server of an MCP server. For a bound client, only the bound
    /// issuer is used, and nothing is fetched from another one.
    pub(super) async fn discover(
        web: &Web,
        server: &Url,
        challenge: &Challenge,
        binding: &Binding,
    ) -> Result<Self, OAuthError> {
        let resource = ProtectedResource::discover(web, server, challenge).await?;
        let mut found = if resource.authorization_servers.is_empty() {
            Self::at_origin(web, server, binding).await?
        } else {
            Self::named_by(web, &resource, binding).await?
        };
        found.first_scopes = found.initial_scopes(challenge, resource.scopes);
        found.token.resource = Some(resource.identifier);
        Ok(found)
    }

    /// Returns the authorization server with this issuer, without asking the MCP server, to refresh
    /// tokens or to finish an authorization.
    pub(super) async fn for_issuer(
        web: &Web,
        server: &Url,
        issuer: &str,
        resource: Option<String>,
    ) -> Result<Self, OAuthError> {
        let issuer = Issuer::parse(issuer)?;
        let metadata = ServerMetadata::fetch(web, &issuer, &[issuer.as_str()]).await?;
        let is_published = metadata.is_some();
        let metadata = match metadata {
            Some(metadata) => metadata,
            None if issuer.is_origin_of(server) => ServerMetadata::for_unpublished(&issuer),
            None => return Err(no_metadata(&issuer)),
        };
        let mut found = Self::new(web, issuer, metadata, is_published)?;
        found.token.resource = resource;
        Ok(found)
    }

    /// Returns the first usable authorization server that a resource names.
    async fn named_by(
        web: &Web,
        resource: &ProtectedResource,
        binding: &Binding,
    ) -> Result<Self, OAuthError> {
        let named = &resource.authorization_servers;
        let candidates: Vec<Result<Issuer, OAuthError>> = match binding.issuer() {
            Some(bound) if named.iter().any(|named| named == bound.as_str()) => {
                vec![Ok(bound.clone())]
            }
            Some(_) => return Err(binding.rejection(&named[0])),
            None => {
                let first = named.iter().take(MAX_CANDIDATES);
                first.map(|named| Issuer::parse(named)).collect()
            }
        };
        let mut failure = None;
        for candidate in candidates {
            let error = match candidate {
                Ok(issuer) => {
                    let accepted = [issuer.as_str()];
                    match ServerMetadata::fetch(web, &issuer, &accepted).await? {
                        Some(metadata) => return Self::new(web, issuer, metadata, true),
                        None => no_metadata(&issuer),
                    }
                }
                Err(error) => error,
            };
            failure.get_or_insert(error);
        }
        Err(failure.unwrap_or_else(|| binding.rejection(&named[0])))
    }

    /// Returns the authorization server at the MCP server's own origin. The origin has the same
    /// well-known addresses with and without a final slash, so the document decides which of the
    /// two is the issuer.
    async fn at_origin(web: &Web, server: &Url, binding: &Binding) -> Result<Self, OAuthError> {
        let origin = Issuer::from_origin(server)?;
        let slashed = format!("{}/", origin.as_str());
        let metadata = match binding.issuer() {
            Some(bound) if !bound.is_origin_of(server) => {
                return Err(binding.rejection(origin.as_str()));
            }
            Some(bound) => ServerMetadata::fetch(web, bound, &[bound.as_str()]).await?,
            None => ServerMetadata::fetch(web, &origin, &[origin.as_str(), &slashed]).await?,
        };
        let Some(metadata) = metadata else {
            let issuer = binding.issuer().cloned().unwrap_or(origin);
            let metadata = ServerMetadata::for_unpublished(&issuer);
            return Self::new(web, issuer, metadata, false);
        };
        let issuer = Issuer::parse(metadata.issuer.as_deref().unwrap_or_default())?;
        Self::new(web, issuer, metadata, true)
    }

    fn new(
        web: &Web,
        issuer: Issuer,
        metadata: ServerMetadata,
        is_published: bool,
    ) -> Result<Self, OAuthError> {
        Ok(Self {
            token: TokenEndpoint {
                issuer: issuer.as_str().to_owned(),
                url: web.check(&metadata.token_endpoint)?,
                auth_methods: metadata.token_endpoint_auth_methods_supported.clone(),
                resource: None,
            },
            first_scopes: Vec::new(),
            is_published,
            issuer,
            metadata,
        })
    }

    /// Selects the scopes of the first authorization: from the challenge, or else from the
    /// resource's metadata (scope selection strategy), with `offline_access` if the authorization
    /// server has it.
    fn initial_scopes(&self, challenge: &Challenge, resource_scopes: Vec<String>) -> Vec<String> {
        const OFFLINE: &str = "offline_access";
        let mut scopes = if challenge.scopes.is_empty() {
            resource_scopes
        } else {
            challenge.scopes.clone()
        };
        let supported = self.metadata.scopes_supported.as_ref();
        let has_offline = supported.is_some_and(|all| all.iter().any(|scope| scope == OFFLINE));
        if has_offline && !scopes.is_empty() && !scopes.iter().any(|scope| scope == OFFLINE) {
            scopes.push(OFFLINE.to_owned());
        }
        scopes
    }

    /// Returns the SDK's manager for this authorization server, with the checked metadata, so that
    /// the SDK fetches none.
    pub(super) async fn sdk(&self, web: &Web) -> Result<AuthorizationManager, AuthError> {
        let requests = Arc::new(web.clone());
        let url = self.issuer.url().clone();
        let mut sdk = AuthorizationManager::new_with_oauth_http_client(url, requests).await?;
        sdk.set_metadata(self.metadata.for_sdk());
        Ok(sdk)
    }

    /// Returns the authorization URL for the user, and its PKCE verifier.
    pub(super) async fn authorization_request(
        &self,
        web: &Web,
        client: OAuthClientConfig,
        scopes: &[String],
    ) -> Result<(Url, SecretString), OAuthError> {
        let failed = |error| OAuthError::AuthorizationRequest(SdkError::new(error));
        let verifier = Arc::new(Mutex::new(None));
        let mut sdk = self.sdk(web).await.map_err(failed)?;
        sdk.set_state_store(VerifierStore(Arc::clone(&verifier)));
        sdk.configure_client(client).map_err(failed)?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let address = sdk.get_authorization_url(&scopes).await.map_err(failed)?;
        let mut url = Url::parse(&address).map_err(|error| failed(AuthError::UrlError(error)))?;
        self.set_resource(&mut url);
        let verifier = verifier.lock().take();
        Ok((url, verifier.ok_or(OAuthError::NoCode)?))
    }

    /// Sets the parameter `resource` of an authorization URL (RFC 8707). The SDK sets another one,
    /// because it does not know the resource's metadata.
    fn set_resource(&self, url: &mut Url) {
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let others = pairs.iter().filter(|(name, _)| name != "resource");
        let mut query = url.query_pairs_mut();
        query.clear().extend_pairs(others);
        if let Some(resource) = &self.token.resource {
            query.append_pair("resource", resource);
        }
    }

    /// Checks that an authorization request is safe: the server announces PKCE with S256, and a
    /// response from another server would be noticed (RFC 9700 section 4.4). Servers without
    /// metadata are older than both announcements.
    pub(super) fn check_for_authorization(
        &self,
        web: &Web,
        binding: &Binding,
    ) -> Result<(), OAuthError> {
        if self.is_published && !self.metadata.has_pkce() {
            return Err(OAuthError::PkceUnsupported);
        }
        let endpoint = self.metadata.authorization_endpoint.as_deref();
        let endpoint = web.check(endpoint.ok_or(OAuthError::NoAuthorizationEndpoint)?)?;
        let is_foreign = endpoint.origin() != self.issuer.url().origin();
        if is_foreign
            && !self.metadata.announces_issuer()
            && !matches!(binding, Binding::Configured(_))
        {
            return Err(OAuthError::ForeignAuthorizationEndpoint {
                issuer: short(self.issuer.as_str()),
            });
        }
        Ok(())
    }

    pub(super) fn supports_registration(&self) -> bool {
        self.metadata.registration_endpoint.is_some()
    }

    pub(super) fn supports_metadata_documents(&self) -> bool {
        self.metadata.client_id_metadata_document_supported == Some(true)
    }

    /// Returns whether an authorization response may come from this server, by its issuer (RFC 9207
    /// section 2.4), compared as strings. The issuer may be missing if the server does not announce
    /// it.
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

fn no_metadata(issuer: &Issuer) -> OAuthError {
    OAuthError::NoMetadata {
        issuer: short(issuer.as_str()),
    }
}

/// Takes over the PKCE verifier that the SDK generates, because Pillion makes the token request
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
