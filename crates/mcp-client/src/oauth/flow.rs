use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::transport::auth::OAuthClientConfig;
use secrecy::ExposeSecret;
use url::Url;

use super::authorization_code;
use super::binding::Binding;
use super::challenge::Challenge;
use super::client::{Form, OAuthClient};
use super::config::GrantSettings;
use super::discovery::AuthorizationServer;
use super::dpop::Dpop;
use super::registration;
use super::token_request::TokenEndpoint;
use super::tokens::{LiveTokens, TokenOrigin, TokenResponse};
use super::web::Web;
use super::{
    AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, ClientRegistration,
    OAuthConfig, OAuthCredentials, OAuthError, PendingAuthorization, TokenKey, TokenStore,
};
use crate::secrets::Secrets;

/// Timeout of one token acquisition, which may include asking a user.
const ACQUISITION_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Maximum number of scopes to request, whatever the server requests.
const MAX_SCOPES: usize = 100;

/// The OAuth state of one client, shared by its calls and the running token acquisition.
pub(super) struct Shared {
    pub(super) config: OAuthConfig,
    pub(super) grant: GrantSettings,
    /// The URL of the MCP server, without query and fragment.
    pub(super) server: Url,
    pub(super) prompt: Option<Arc<dyn AuthorizationPrompt>>,
    pub(super) store: Arc<dyn TokenStore>,
    pub(super) key: TokenKey,
    pub(super) web: Web,
    pub(super) secrets: Arc<Secrets>,
    pub(super) current: Mutex<CurrentTokens>,
    pub(super) credentials: Mutex<OAuthCredentials>,
    pub(super) dpop: OnceLock<Arc<Dpop>>,
}

/// The current tokens.
#[derive(Default)]
pub(super) struct CurrentTokens {
    /// Incremented with every change of the tokens.
    pub(super) generation: u64,
    pub(super) tokens: Option<Arc<LiveTokens>>,
    /// The scopes requested so far; only grows.
    pub(super) scopes: Vec<String>,
    /// The token endpoint for refreshing tokens, once discovered.
    endpoint: Option<TokenEndpoint>,
}

/// Why the client needs new tokens.
pub(super) enum TokenReason {
    /// The tokens expire soon. The user is not asked.
    Renewal,
    /// The server rejected a request: without a token, with an invalid one (401), or with
    /// insufficient scopes (403).
    Rejection { challenge: Challenge, step_up: bool },
}

impl Shared {
    pub(super) async fn run(self: Arc<Self>, reason: TokenReason) -> Result<(), OAuthError> {
        let acquisition = async {
            match reason {
                TokenReason::Renewal => self.renew().await,
                TokenReason::Rejection { challenge, step_up } => {
                    self.authorize(&challenge, step_up).await
                }
            }
        };
        let timed = pillion_deadline::timeout(ACQUISITION_TIMEOUT, acquisition).await;
        timed.unwrap_or(Err(OAuthError::TimedOut))
    }

    /// Returns whether new tokens can be obtained without asking a user.
    pub(super) fn can_renew_unattended(&self, tokens: &LiveTokens) -> bool {
        tokens.tokens.refresh_token.is_some() || !self.grant.needs_user()
    }

    async fn renew(&self) -> Result<(), OAuthError> {
        let (known, scopes, tokens) = {
            let current = self.current.lock();
            let tokens = current.tokens.clone();
            (current.endpoint.clone(), current.scopes.clone(), tokens)
        };
        let live = tokens.ok_or(OAuthError::NoPrompt)?;
        let endpoint = match known {
            Some(endpoint) if endpoint.issuer == live.tokens.issuer => endpoint,
            _ => {
                let (issuer, resource) = (&live.tokens.issuer, live.tokens.resource.clone());
                self.known_server(issuer, resource).await?.token
            }
        };
        let renewed = if self.grant.needs_user() {
            self.refresh(&endpoint).await
        } else {
            self.obtain_without_user(&endpoint, &scopes, live.dpop.as_ref())
                .await
        };
        if renewed.as_ref().is_err_and(OAuthError::is_rejection) {
            // A request without tokens gets a challenge that states what the server requires.
            self.forget().await;
        }
        renewed
    }

    async fn authorize(&self, challenge: &Challenge, step_up: bool) -> Result<(), OAuthError> {
        let server = self.discover(challenge).await?;
        let tokens = self.current.lock().tokens.clone();
        let may_refresh = tokens.as_ref().is_some_and(|live| {
            let is_stale = live.origin != TokenOrigin::Refreshed || live.is_accepted();
            let is_from_server = live.tokens.issuer == server.token.issuer;
            is_stale && is_from_server && !step_up && live.tokens.refresh_token.is_some()
        });
        if may_refresh {
            match self.refresh(&server.token).await {
                Err(error) if error.is_rejection() => {
                    tracing::info!(%error, "The authorization server rejected the refresh token");
                    if error.may_be_unknown_client() {
                        self.forget_client(&server.token.issuer);
                    }
                    self.forget().await;
                }
                other => return other,
            }
        }
        let scopes = self.scopes(challenge, &server.first_scopes);
        let bound = tokens.as_ref().is_some_and(|live| live.dpop.is_some());
        let dpop = if bound || challenge.dpop && server.binds_tokens() {
            Some(self.dpop_key(tokens.as_deref())?)
        } else {
            None
        };
        if !self.grant.needs_user() {
            return self
                .obtain_without_user(&server.token, &scopes, dpop.as_ref())
                .await;
        }
        let response = self.ask(&server, &scopes, dpop.as_deref()).await?;
        let endpoint = &server.token;
        let live = LiveTokens::granted(response, endpoint, scopes, dpop.as_ref(), None)?;
        self.keep(live).await;
        Ok(())
    }

    /// Returns the authorization server that may see this client's credentials. Every token request,
    /// registration and authorization request is made with a server from `discover` or
    /// `known_server`, which check it.
    fn binding(&self) -> Result<Binding, OAuthError> {
        Binding::new(&self.config, &self.credentials.lock())
    }

    /// Discovers the authorization server that the MCP server names.
    async fn discover(&self, challenge: &Challenge) -> Result<AuthorizationServer, OAuthError> {
        let (web, binding) = (&self.web, self.binding()?);
        let server = AuthorizationServer::discover(web, &self.server, challenge, &binding).await?;
        self.accept(server, &binding)
    }

    /// Returns the authorization server with this issuer, to refresh tokens that it issued, or to
    /// complete an authorization that was started there.
    async fn known_server(
        &self,
        issuer: &str,
        resource: Option<String>,
    ) -> Result<AuthorizationServer, OAuthError> {
        let binding = self.binding()?;
        binding.check(issuer)?;
        let server = AuthorizationServer::for_issuer(&self.web, &self.server, issuer, resource);
        self.accept(server.await?, &binding)
    }

    fn accept(
        &self,
        server: AuthorizationServer,
        binding: &Binding,
    ) -> Result<AuthorizationServer, OAuthError> {
        binding.check(&server.token.issuer)?;
        let is_unattended = !self.grant.needs_user();
        let client = self.config.client()?;
        let has_secret = client.as_ref().is_some_and(OAuthClient::is_confidential);
        // A configured `issuer` is enough to send a user to default endpoints, but not to send a
        // secret there without a user.
        let is_guess = is_unattended || has_secret && self.config.issuer.is_none();
        if !server.is_published && is_guess {
            return Err(OAuthError::Unpublished);
        }
        self.current.lock().endpoint = Some(server.token.clone());
        Ok(server)
    }

    /// Asks the user for an authorization.
    async fn ask(
        &self,
        server: &AuthorizationServer,
        scopes: &[String],
        dpop: Option<&Dpop>,
    ) -> Result<TokenResponse, OAuthError> {
        let prompt = self.prompt.as_deref().ok_or(OAuthError::NoPrompt)?;
        server.check_for_authorization(&self.web, &self.binding()?)?;
        let redirect_uri = prompt
            .redirect_uri()
            .or_else(|| self.config.redirect_uri.clone())
            .ok_or(OAuthError::NoRedirectUri)?;
        let mut credentials = self.credentials.lock().clone();
        let client = registration::client_for(
            server,
            &self.web,
            &self.config,
            &redirect_uri,
            scopes,
            &mut credentials,
        )
        .await?;
        let registered = credentials.registrations.get(&server.token.issuer);
        let registered_secret = registered.and_then(|known| known.client_secret.clone());
        *self.credentials.lock() = credentials;
        let obtain = async {
            let config = OAuthClientConfig::new(client.id.clone(), redirect_uri.as_str());
            let (url, verifier) = server
                .authorization_request(&self.web, config, scopes)
                .await?;
            let state = url.query_pairs().find(|(name, _)| name == "state");
            let pending = PendingAuthorization {
                state: state.map_or_else(String::new, |(_, state)| state.into_owned()),
                issuer: server.token.issuer.clone(),
                redirect_uri: redirect_uri.clone(),
                scopes: scopes.to_vec(),
                client_id: client.id.clone(),
                client_secret: registered_secret,
                verifier,
                resource: server.token.resource.clone(),
                dpop: dpop.is_some(),
            };
            let authorization = prompt.authorize(AuthorizationRequest {
                url,
                redirect_uri: redirect_uri.clone(),
                server: self.server.clone(),
                scopes: scopes.to_vec(),
                pending: pending.clone(),
            });
            let response = authorization.await?;
            authorization_code::exchange(server, &self.web, &client, dpop, &pending, response).await
        };
        let obtained = obtain.await;
        if obtained
            .as_ref()
            .is_err_and(OAuthError::may_be_unknown_client)
        {
            self.forget_client(&server.token.issuer);
        }
        obtained
    }

    /// Completes an authorization that another client started, with the response from the browser.
    pub(super) async fn finish(
        &self,
        pending: PendingAuthorization,
        response: AuthorizationResponse,
    ) -> Result<(), OAuthError> {
        let resource = pending.resource.clone();
        let server = self.known_server(&pending.issuer, resource).await?;
        let registration = ClientRegistration {
            client_id: pending.client_id.clone(),
            client_secret: pending.client_secret.clone(),
            redirect_uri: pending.redirect_uri.clone(),
        };
        let configured = self.config.client()?;
        let client = configured
            .filter(|client| client.id == pending.client_id)
            .unwrap_or_else(|| registration.client());
        let dpop = pending.dpop.then(|| self.dpop_key(None)).transpose()?;
        let proofs = dpop.as_deref();
        let exchange =
            authorization_code::exchange(&server, &self.web, &client, proofs, &pending, response);
        let tokens = exchange.await?;
        let scopes = pending.scopes;
        let live = LiveTokens::granted(tokens, &server.token, scopes, dpop.as_ref(), None)?;
        self.credentials
            .lock()
            .registrations
            .insert(pending.issuer, registration);
        self.keep(live).await;
        Ok(())
    }

    /// Refreshes the tokens (OAuth 2.1 section 4.3), only with the issuer that issued them.
    async fn refresh(&self, endpoint: &TokenEndpoint) -> Result<(), OAuthError> {
        let current = self.current.lock().tokens.clone();
        let live = current
            .filter(|live| live.tokens.issuer == endpoint.issuer)
            .ok_or(OAuthError::NoPrompt)?;
        let refresh_token = live.tokens.refresh_token.as_ref();
        let token = refresh_token.ok_or(OAuthError::NoPrompt)?;
        self.binding()?.check(&endpoint.issuer)?;
        let client = self.client_for_issuer(&endpoint.issuer)?;
        let form: Form = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", token.expose_secret().to_owned()),
        ];
        let dpop = live.dpop.as_ref();
        let proofs = dpop.map(Arc::as_ref);
        let response = endpoint
            .request(&self.web, client.as_ref(), proofs, &form)
            .await?;
        let scopes = live.tokens.scopes.clone();
        let refreshed = LiveTokens::granted(response, endpoint, scopes, dpop, Some(&live.tokens))?;
        self.keep(refreshed).await;
        Ok(())
    }

    /// Returns the client that is registered with this issuer.
    fn client_for_issuer(&self, issuer: &str) -> Result<Option<OAuthClient>, OAuthError> {
        if let Some(client) = self.config.client()? {
            return Ok(Some(client));
        }
        let credentials = self.credentials.lock();
        if let Some(known) = credentials.registrations.get(issuer) {
            return Ok(Some(known.client()));
        }
        let url = self.config.client_metadata_url.clone();
        Ok(url.map(|url| OAuthClient::with_secret(url, None)))
    }

    /// Returns the scopes to request: those requested before, or else the configured ones, or else
    /// the server's; plus those in the challenge (scope selection strategy, step-up authorization
    /// flow). For a grant without a user, returns only the configured scopes.
    fn scopes(&self, challenge: &Challenge, first: &[String]) -> Vec<String> {
        if !self.grant.needs_user() && !self.config.scopes.is_empty() {
            return self.config.scopes.clone();
        }
        let requested = self.current.lock().scopes.clone();
        let candidates = [requested, self.config.scopes.clone(), first.to_vec()];
        let base = candidates.into_iter().find(|scopes| !scopes.is_empty());
        let mut scopes: Vec<String> = Vec::new();
        for scope in base.iter().flatten().chain(&challenge.scopes) {
            if scopes.len() < MAX_SCOPES && !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        scopes
    }

    fn dpop_key(&self, tokens: Option<&LiveTokens>) -> Result<Arc<Dpop>, OAuthError> {
        if let Some(dpop) = tokens.and_then(|live| live.dpop.clone()) {
            return Ok(dpop);
        }
        if let Some(dpop) = self.dpop.get() {
            return Ok(Arc::clone(dpop));
        }
        let dpop = Arc::new(Dpop::generate()?);
        Ok(Arc::clone(self.dpop.get_or_init(|| dpop)))
    }

    fn install(&self, live: Option<LiveTokens>) {
        let mut current = self.current.lock();
        current.generation += 1;
        if let Some(live) = &live {
            current.scopes.clone_from(&live.tokens.scopes);
        }
        current.tokens = live.map(Arc::new);
    }

    /// Makes new tokens the current ones and stores them. If storing fails, this process still uses
    /// them.
    pub(super) async fn keep(&self, live: LiveTokens) {
        let credentials = {
            let mut credentials = self.credentials.lock();
            credentials.tokens = Some(live.tokens.clone());
            credentials.clone()
        };
        self.install(Some(live));
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
    async fn forget(&self) {
        let credentials = {
            let mut credentials = self.credentials.lock();
            credentials.tokens = None;
            credentials.clone()
        };
        self.install(None);
        let stored = if credentials.registrations.is_empty() {
            self.store.clear(&self.key).await
        } else {
            self.store.save(&self.key, credentials).await
        };
        if let Err(error) = stored {
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
        // Tokens of an issuer that is no longer the configured one are dropped.
        let binding = Binding::new(&self.config, &credentials)?;
        let tokens = credentials.tokens.take();
        credentials.tokens = tokens.filter(|tokens| binding.check(&tokens.issuer).is_ok());
        let live = credentials.tokens.clone().and_then(LiveTokens::stored);
        *self.credentials.lock() = credentials;
        self.install(live);
        Ok(())
    }
}
