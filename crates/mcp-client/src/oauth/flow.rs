use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::transport::auth::OAuthClientConfig;
use secrecy::ExposeSecret;
use url::Url;

use super::authorization_code::exchange_code;
use super::binding::IssuerBinding;
use super::challenge::ParsedChallenge;
use super::client::{OAuthClient, RequestForm};
use super::config::GrantSettings;
use super::discovery::AuthorizationServer;
use super::dpop::DpopKey;
use super::registration;
use super::token_request::TokenEndpoint;
use super::tokens::{ActiveTokens, TokenOrigin, TokenResponse};
use super::web::WebClient;
use super::{
    AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, ClientRegistration,
    OAuthConfig, OAuthCredentials, OAuthError, PendingAuthorization, TokenKey, TokenStore,
};
use crate::secrets::Secrets;

/// Timeout for obtaining tokens, which may include asking a user.
const ACQUISITION_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Maximum number of scopes to request, whatever the server requests.
const MAX_SCOPES: usize = 100;

/// The OAuth state of one client, shared by its calls and the running token acquisition.
pub(super) struct OAuthState {
    pub(super) config: OAuthConfig,
    pub(super) grant: GrantSettings,
    /// The URL of the MCP server, without query and fragment.
    pub(super) server: Url,
    pub(super) prompt: Option<Arc<dyn AuthorizationPrompt>>,
    pub(super) store: Arc<dyn TokenStore>,
    pub(super) key: TokenKey,
    pub(super) web_client: WebClient,
    pub(super) secrets: Arc<Secrets>,
    pub(super) current_tokens: Mutex<CurrentTokens>,
    pub(super) credentials: Mutex<OAuthCredentials>,
    pub(super) dpop: OnceLock<Arc<DpopKey>>,
}

/// The tokens that a client currently uses, the scopes that it has requested, and the token
/// endpoint for refreshing.
#[derive(Default)]
pub(super) struct CurrentTokens {
    /// A number that is incremented with every change of the tokens.
    pub(super) generation: u64,
    pub(super) tokens: Option<Arc<ActiveTokens>>,
    /// All scopes that the client has requested. Scopes are added, but never removed.
    pub(super) scopes: Vec<String>,
    /// The token endpoint for refreshing tokens, once discovered.
    endpoint: Option<TokenEndpoint>,
}

/// Why the client needs new tokens.
pub(super) enum TokenReason {
    /// The tokens expire soon. They are refreshed without asking the user.
    Renewal,
    /// The server rejected a request: without a token, with an invalid one (401), or with
    /// insufficient scopes (403).
    Rejection {
        challenge: ParsedChallenge,
        is_step_up: bool,
    },
}

impl OAuthState {
    pub(super) async fn acquire(self: Arc<Self>, reason: TokenReason) -> Result<(), OAuthError> {
        let acquisition = async {
            match reason {
                TokenReason::Renewal => self.renew().await,
                TokenReason::Rejection {
                    challenge,
                    is_step_up,
                } => self.authorize(&challenge, is_step_up).await,
            }
        };
        let timeout = ACQUISITION_TIMEOUT;
        let outcome_in_time = pillion_deadline::timeout(timeout, acquisition).await;
        outcome_in_time.unwrap_or(Err(OAuthError::TimedOut { timeout }))
    }

    /// Returns whether new tokens can be obtained without asking a user.
    pub(super) fn can_renew_unattended(&self, tokens: &ActiveTokens) -> bool {
        tokens.tokens.refresh_token.is_some() || !self.grant.needs_user()
    }

    async fn renew(&self) -> Result<(), OAuthError> {
        let (cached_endpoint, scopes, tokens) = {
            let current_tokens = self.current_tokens.lock();
            let scopes = current_tokens.scopes.clone();
            let endpoint = current_tokens.endpoint.clone();
            (endpoint, scopes, current_tokens.tokens.clone())
        };
        let active_tokens = tokens.ok_or(OAuthError::NoPrompt)?;
        let endpoint = match cached_endpoint {
            Some(endpoint) if endpoint.issuer == active_tokens.tokens.issuer => endpoint,
            _ => {
                let oauth_tokens = &active_tokens.tokens;
                let discovery =
                    self.discover_issuer(&oauth_tokens.issuer, oauth_tokens.resource.clone());
                discovery.await?.token_endpoint
            }
        };
        let outcome = if self.grant.needs_user() {
            self.refresh(&endpoint).await
        } else {
            self.obtain_without_user(&endpoint, &scopes, active_tokens.dpop.as_ref())
                .await
        };
        if outcome.as_ref().is_err_and(OAuthError::is_rejection) {
            // The rejected tokens are removed, so that the next request is sent without a token and
            // gets a challenge that states what the server requires.
            self.forget_tokens().await;
        }
        outcome
    }

    async fn authorize(
        &self,
        challenge: &ParsedChallenge,
        is_step_up: bool,
    ) -> Result<(), OAuthError> {
        let server = self.discover(challenge).await?;
        let tokens = self.current_tokens.lock().tokens.clone();
        let can_refresh = tokens.as_ref().is_some_and(|active_tokens| {
            let is_worth_refreshing =
                active_tokens.origin != TokenOrigin::Refreshed || active_tokens.is_accepted();
            let is_from_server = active_tokens.tokens.issuer == server.token_endpoint.issuer;
            is_worth_refreshing
                && is_from_server
                && !is_step_up
                && active_tokens.tokens.refresh_token.is_some()
        });
        if can_refresh {
            match self.refresh(&server.token_endpoint).await {
                Err(error) if error.is_rejection() => {
                    tracing::info!(%error, "The authorization server rejected the refresh token");
                    if error.may_be_unknown_client() {
                        self.forget_client(&server.token_endpoint.issuer);
                    }
                    self.forget_tokens().await;
                }
                outcome => return outcome,
            }
        }
        let scopes = self.select_scopes(challenge, &server.initial_scopes);
        let has_bound_tokens = tokens.as_ref().is_some_and(|tokens| tokens.dpop.is_some());
        let dpop = if has_bound_tokens || challenge.allows_dpop && server.binds_tokens() {
            Some(self.find_or_generate_dpop_key(tokens.as_deref())?)
        } else {
            None
        };
        if !self.grant.needs_user() {
            return self
                .obtain_without_user(&server.token_endpoint, &scopes, dpop.as_ref())
                .await;
        }
        let response = self.ask_user(&server, &scopes, dpop.as_deref()).await?;
        let endpoint = &server.token_endpoint;
        let new_tokens =
            ActiveTokens::from_response(response, endpoint, scopes, dpop.as_ref(), None)?;
        self.store_tokens(new_tokens).await;
        Ok(())
    }

    /// Returns the authorization server that may see this client's credentials. Every token
    /// request, registration and authorization request goes to a server that `discover` or
    /// `discover_issuer` has checked against this binding.
    fn binding(&self) -> Result<IssuerBinding, OAuthError> {
        IssuerBinding::new(&self.config, &self.credentials.lock())
    }

    /// Discovers the authorization server that the MCP server names.
    async fn discover(
        &self,
        challenge: &ParsedChallenge,
    ) -> Result<AuthorizationServer, OAuthError> {
        let (web_client, binding) = (&self.web_client, self.binding()?);
        let server =
            AuthorizationServer::discover(web_client, &self.server, challenge, &binding).await?;
        self.accept_server(server, &binding)
    }

    /// Returns the authorization server with this issuer. Used to refresh tokens that the
    /// authorization server issued, and to complete an authorization that was started at the
    /// authorization server.
    async fn discover_issuer(
        &self,
        issuer: &str,
        resource: Option<String>,
    ) -> Result<AuthorizationServer, OAuthError> {
        let binding = self.binding()?;
        binding.check(issuer)?;
        let server =
            AuthorizationServer::for_issuer(&self.web_client, &self.server, issuer, resource);
        self.accept_server(server.await?, &binding)
    }

    /// Returns the authorization server if this client is allowed to use the server, and caches the
    /// token endpoint of the server.
    fn accept_server(
        &self,
        server: AuthorizationServer,
        binding: &IssuerBinding,
    ) -> Result<AuthorizationServer, OAuthError> {
        binding.check(&server.token_endpoint.issuer)?;
        let is_unattended = !self.grant.needs_user();
        let client = self.config.client()?;
        let has_secret = client.as_ref().is_some_and(OAuthClient::is_confidential);
        // A configured `issuer` is enough to send a user to default endpoints, but not to send a
        // secret there without a user.
        let forbids_default_endpoints = is_unattended || has_secret && self.config.issuer.is_none();
        if !server.is_published && forbids_default_endpoints {
            return Err(OAuthError::NoPublishedMetadata);
        }
        self.current_tokens.lock().endpoint = Some(server.token_endpoint.clone());
        Ok(server)
    }

    /// Asks the user for an authorization.
    async fn ask_user(
        &self,
        server: &AuthorizationServer,
        scopes: &[String],
        dpop: Option<&DpopKey>,
    ) -> Result<TokenResponse, OAuthError> {
        let prompt = self.prompt.as_deref().ok_or(OAuthError::NoPrompt)?;
        server.check_authorization_support(&self.web_client, &self.binding()?)?;
        let redirect_uri = prompt
            .redirect_uri()
            .or_else(|| self.config.redirect_uri.clone())
            .ok_or(OAuthError::NoRedirectUri)?;
        let mut credentials = self.credentials.lock().clone();
        let client = registration::find_or_register_client(
            server,
            &self.web_client,
            &self.config,
            &redirect_uri,
            scopes,
            &mut credentials,
        )
        .await?;
        let registration = credentials.registrations.get(&server.token_endpoint.issuer);
        let registered_secret =
            registration.and_then(|registration| registration.client_secret.clone());
        *self.credentials.lock() = credentials;
        let authorization = async {
            let config = OAuthClientConfig::new(client.id.clone(), redirect_uri.as_str());
            let url_request = server.build_authorization_request(&self.web_client, config, scopes);
            let (url, verifier) = url_request.await?;
            let state = url.query_pairs().find(|(name, _)| name == "state");
            let pending = PendingAuthorization {
                state: state.map_or_else(String::new, |(_, state)| state.into_owned()),
                issuer: server.token_endpoint.issuer.clone(),
                redirect_uri: redirect_uri.clone(),
                scopes: scopes.to_vec(),
                client_id: client.id.clone(),
                client_secret: registered_secret,
                verifier,
                resource: server.token_endpoint.resource.clone(),
                dpop: dpop.is_some(),
            };
            let prompted_response = prompt.authorize(AuthorizationRequest {
                url,
                redirect_uri: redirect_uri.clone(),
                server: self.server.clone(),
                scopes: scopes.to_vec(),
                pending: pending.clone(),
            });
            let response = prompted_response.await?;
            exchange_code(server, &self.web_client, &client, dpop, &pending, response).await
        };
        let outcome = authorization.await;
        let error = outcome.as_ref().err();
        if error.is_some_and(OAuthError::may_be_unknown_client) {
            self.forget_client(&server.token_endpoint.issuer);
        }
        outcome
    }

    /// Completes an authorization that another client started, with the response from the browser.
    pub(super) async fn finish(
        &self,
        pending: PendingAuthorization,
        response: AuthorizationResponse,
    ) -> Result<(), OAuthError> {
        let resource = pending.resource.clone();
        let server = self.discover_issuer(&pending.issuer, resource).await?;
        let registration = ClientRegistration {
            client_id: pending.client_id.clone(),
            client_secret: pending.client_secret.clone(),
            redirect_uri: pending.redirect_uri.clone(),
        };
        let configured_client = self.config.client()?;
        let client = configured_client
            .filter(|client| client.id == pending.client_id)
            .unwrap_or_else(|| registration.client());
        let key_result = pending.dpop.then(|| self.find_or_generate_dpop_key(None));
        let dpop = key_result.transpose()?;
        let key = dpop.as_deref();
        let exchange = exchange_code(&server, &self.web_client, &client, key, &pending, response);
        let token_response = exchange.await?;
        let (endpoint, scopes) = (&server.token_endpoint, pending.scopes);
        let new_tokens =
            ActiveTokens::from_response(token_response, endpoint, scopes, dpop.as_ref(), None)?;
        self.credentials
            .lock()
            .registrations
            .insert(pending.issuer, registration);
        self.store_tokens(new_tokens).await;
        Ok(())
    }

    /// Refreshes the tokens (OAuth 2.1 section 4.3), only with the issuer that issued them.
    async fn refresh(&self, endpoint: &TokenEndpoint) -> Result<(), OAuthError> {
        let current_tokens = self.current_tokens.lock().tokens.clone();
        let active_tokens = current_tokens
            .filter(|active_tokens| active_tokens.tokens.issuer == endpoint.issuer)
            .ok_or(OAuthError::NoPrompt)?;
        let refresh_token = active_tokens.tokens.refresh_token.as_ref();
        let token = refresh_token.ok_or(OAuthError::NoPrompt)?;
        self.binding()?.check(&endpoint.issuer)?;
        let client = self.client_for_issuer(&endpoint.issuer)?;
        let form: RequestForm = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", token.expose_secret().to_owned()),
        ];
        let dpop = active_tokens.dpop.as_ref();
        let dpop_key = dpop.map(Arc::as_ref);
        let request = endpoint.request(&self.web_client, client.as_ref(), dpop_key, &form);
        let response = request.await?;
        let old_tokens = &active_tokens.tokens;
        let scopes = old_tokens.scopes.clone();
        let new_tokens =
            ActiveTokens::from_response(response, endpoint, scopes, dpop, Some(old_tokens))?;
        self.store_tokens(new_tokens).await;
        Ok(())
    }

    /// Returns the client that is registered with the given issuer.
    fn client_for_issuer(&self, issuer: &str) -> Result<Option<OAuthClient>, OAuthError> {
        if let Some(client) = self.config.client()? {
            return Ok(Some(client));
        }
        let credentials = self.credentials.lock();
        if let Some(registration) = credentials.registrations.get(issuer) {
            return Ok(Some(registration.client()));
        }
        let url = self.config.client_metadata_url.clone();
        Ok(url.map(|url| OAuthClient::with_secret(url, None)))
    }

    /// Returns the scopes to request (MCP scope selection strategy and step-up authorization flow):
    /// the scopes in the challenge, and the first of these lists that is not empty:
    ///
    /// 1. the scopes that were requested before
    /// 2. the configured scopes
    /// 3. `default_scopes`
    ///
    /// For a grant without a user, configured scopes are used alone.
    fn select_scopes(&self, challenge: &ParsedChallenge, default_scopes: &[String]) -> Vec<String> {
        if !self.grant.needs_user() && !self.config.scopes.is_empty() {
            return self.config.scopes.clone();
        }
        let requested_scopes = self.current_tokens.lock().scopes.clone();
        let candidates = [
            requested_scopes,
            self.config.scopes.clone(),
            default_scopes.to_vec(),
        ];
        let base_scopes = candidates.into_iter().find(|scopes| !scopes.is_empty());
        let mut scopes: Vec<String> = Vec::new();
        for scope in base_scopes.iter().flatten().chain(&challenge.scopes) {
            if scopes.len() < MAX_SCOPES && !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        scopes
    }

    fn find_or_generate_dpop_key(
        &self,
        tokens: Option<&ActiveTokens>,
    ) -> Result<Arc<DpopKey>, OAuthError> {
        if let Some(dpop) = tokens.and_then(|active_tokens| active_tokens.dpop.clone()) {
            return Ok(dpop);
        }
        if let Some(dpop) = self.dpop.get() {
            return Ok(Arc::clone(dpop));
        }
        let dpop = Arc::new(DpopKey::generate()?);
        Ok(Arc::clone(self.dpop.get_or_init(|| dpop)))
    }

    fn set_current_tokens(&self, active_tokens: Option<ActiveTokens>) {
        let mut current_tokens = self.current_tokens.lock();
        current_tokens.generation += 1;
        if let Some(active_tokens) = &active_tokens {
            current_tokens
                .scopes
                .clone_from(&active_tokens.tokens.scopes);
        }
        current_tokens.tokens = active_tokens.map(Arc::new);
    }

    /// Replaces the current tokens with new tokens, and stores the new tokens. If storing fails,
    /// this process still uses them.
    pub(super) async fn store_tokens(&self, active_tokens: ActiveTokens) {
        let credentials = {
            let mut credentials = self.credentials.lock();
            credentials.tokens = Some(active_tokens.tokens.clone());
            credentials.clone()
        };
        self.set_current_tokens(Some(active_tokens));
        if let Err(error) = self.store.save(&self.key, credentials).await {
            tracing::warn!(
                %error, mcp.url = %self.server,
                "Cannot store the OAuth tokens of an MCP server"
            );
        }
    }

    /// Removes a dynamic registration, so that the next authorization registers the client again.
    fn forget_client(&self, issuer: &str) {
        if self.config.client_id.is_none() {
            self.credentials.lock().registrations.remove(issuer);
        }
    }

    /// Removes the current tokens, but not the registrations.
    async fn forget_tokens(&self) {
        let credentials = {
            let mut credentials = self.credentials.lock();
            credentials.tokens = None;
            credentials.clone()
        };
        self.set_current_tokens(None);
        let outcome = if credentials.registrations.is_empty() {
            self.store.clear(&self.key).await
        } else {
            self.store.save(&self.key, credentials).await
        };
        if let Err(error) = outcome {
            tracing::warn!(
                %error, mcp.url = %self.server,
                "Cannot remove the OAuth tokens of an MCP server"
            );
        }
    }

    /// Loads the credentials that an earlier client or process stored.
    pub(super) async fn load(&self) -> Result<(), OAuthError> {
        let Some(mut credentials) = self.store.load(&self.key).await? else {
            return Ok(());
        };
        // Stored tokens are ignored if their issuer is no longer the configured one.
        let binding = IssuerBinding::new(&self.config, &credentials)?;
        let tokens = credentials.tokens.take();
        credentials.tokens = tokens.filter(|tokens| binding.check(&tokens.issuer).is_ok());
        let active_tokens = credentials
            .tokens
            .clone()
            .and_then(ActiveTokens::from_stored);
        *self.credentials.lock() = credentials;
        self.set_current_tokens(active_tokens);
        Ok(())
    }
}
