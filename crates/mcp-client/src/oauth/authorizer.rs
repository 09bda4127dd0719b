use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared as SharedFuture};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use reqwest::{RequestBuilder, Response};
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::challenge::ParsedChallenge;
use super::dpop::DPOP_HEADER;
use super::flow::{CurrentTokens, OAuthState, TokenReason};
use super::tokens::{ActiveTokens, TokenOrigin};
use super::web::WebClient;
use super::{
    AuthorizationResponse, InMemoryTokenStore, OAuthConfig, OAuthError, PendingAuthorization,
    TokenKey,
};
use crate::http::send_error;
use crate::secrets::Secrets;
use crate::{McpErrorKind, ServerConfig};

/// Maximum number of times to send one request: with the current token, with a refreshed token,
/// after a new authorization, after a step-up, and once more with a nonce. Each attempt after the
/// first follows a rejection.
const MAX_SEND_ATTEMPTS: usize = 5;

/// Sends requests to one MCP server with the tokens of one client, and obtains the tokens.
///
/// All calls that need a token share one running token acquisition. The acquisition continues after
/// the deadlines of these calls: if it were aborted, a new refresh token or the user's consent
/// could be lost. The acquisition is aborted when the client is dropped.
pub(crate) struct OAuthAuthorizer {
    state: Arc<OAuthState>,
    load_once: OnceCell<()>,
    acquisition: Mutex<Option<RunningAcquisition>>,
}

/// Maximum number of step-up authorizations for one request.
const MAX_STEP_UPS: usize = 2;

type AcquisitionResult = Result<(), Arc<OAuthError>>;

struct RunningAcquisition {
    outcome: SharedFuture<BoxFuture<'static, AcquisitionResult>>,
    /// The task that continues the token acquisition while no call waits for the outcome.
    _task: AbortOnDropHandle<AcquisitionResult>,
}

/// The token with which a request was sent, and the URL to which it was sent.
struct SentRequest {
    generation: u64,
    tokens: Option<Arc<ActiveTokens>>,
    url: Url,
}

impl OAuthAuthorizer {
    pub(crate) fn new(
        oauth: &OAuthConfig,
        config: &ServerConfig,
        secrets: &Arc<Secrets>,
    ) -> Result<Self, McpErrorKind> {
        let mut server = config.request_url()?;
        server.set_query(None);
        server.set_fragment(None);
        let services = &config.authorization;
        let store = services.token_store.clone();
        let state = OAuthState {
            grant: oauth.resolve_grant()?,
            config: oauth.clone(),
            key: TokenKey::new(&server, oauth),
            web_client: WebClient::new(&config.egress, &server, secrets)
                .map_err(McpErrorKind::Setup)?,
            secrets: Arc::clone(secrets),
            server,
            prompt: services.prompt.clone(),
            store: store.unwrap_or_else(|| Arc::new(InMemoryTokenStore::default())),
            current_tokens: Mutex::new(CurrentTokens::default()),
            credentials: Mutex::default(),
            dpop: OnceLock::new(),
        };
        Ok(Self {
            state: Arc::new(state),
            load_once: OnceCell::new(),
            acquisition: Mutex::new(None),
        })
    }

    /// Sends a request with a token. If the server rejects the token, sends the request again with
    /// another token, which is safe: a server that responds with 401 or 403 has not processed the
    /// request.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, McpErrorKind> {
        let (client, built_request) = request.build_split();
        let load_operation = self.load_once.get_or_try_init(|| self.state.load());
        load_operation.await.map_err(authorization_error)?;
        let mut next_request = built_request.map_err(|error| McpErrorKind::Setup(error.into()))?;
        let mut step_up_count = 0;
        for _ in 1..MAX_SEND_ATTEMPTS {
            let Some(repeated_request) = next_request.try_clone() else {
                break;
            };
            let sent_request = self.authorize(&mut next_request).await?;
            let response = client.execute(next_request).await.map_err(send_error)?;
            let (status, headers) = (response.status(), response.headers());
            if status == StatusCode::FORBIDDEN {
                step_up_count += 1;
            }
            if step_up_count > MAX_STEP_UPS
                || !self.should_resend(&sent_request, status, headers).await?
            {
                return Ok(response);
            }
            next_request = repeated_request;
        }
        self.authorize(&mut next_request).await?;
        client.execute(next_request).await.map_err(send_error)
    }

    /// Sends a request once, with the current token.
    pub(crate) async fn send_once(
        &self,
        request: RequestBuilder,
    ) -> Result<Response, McpErrorKind> {
        let (client, built_request) = request.build_split();
        let mut single_request =
            built_request.map_err(|error| McpErrorKind::Setup(error.into()))?;
        let (_, tokens) = self.current_tokens();
        self.add_headers(tokens.as_deref(), &mut single_request)?;
        client.execute(single_request).await.map_err(send_error)
    }

    /// Completes an authorization that another client started.
    pub(crate) async fn finish(
        &self,
        pending_authorization: PendingAuthorization,
        response: AuthorizationResponse,
    ) -> Result<(), McpErrorKind> {
        let load_operation = self.load_once.get_or_try_init(|| self.state.load());
        load_operation.await.map_err(authorization_error)?;
        let finish_operation = self.state.finish(pending_authorization, response);
        finish_operation.await.map_err(authorization_error)
    }

    /// Waits for a running token acquisition. Returns `false` if none is running.
    pub(crate) async fn wait_for_authorization(&self) -> bool {
        let outcome = {
            let acquisition = self.acquisition.lock();
            let running_acquisition = acquisition.as_ref().filter(|latest| latest.is_running());
            running_acquisition.map(|running| running.outcome.clone())
        };
        let Some(outcome) = outcome else {
            return false;
        };
        // The outcome is ignored here, because the calls that need the token receive it separately.
        let _ = outcome.await;
        true
    }

    /// Adds the token to a request, after refreshing a token that is about to expire.
    async fn authorize(&self, request: &mut reqwest::Request) -> Result<SentRequest, McpErrorKind> {
        let url = request.url().clone();
        let (current_generation, current_tokens) = self.current_tokens();
        let (generation, tokens) = match current_tokens {
            Some(tokens) if tokens.expires_soon() => {
                self.renew_token(current_generation, tokens).await?
            }
            tokens => (current_generation, tokens),
        };
        self.add_headers(tokens.as_deref(), request)?;
        Ok(SentRequest {
            generation,
            tokens,
            url,
        })
    }

    /// Adds the headers of a token to a request, if the request goes to the MCP server's origin.
    fn add_headers(
        &self,
        tokens: Option<&ActiveTokens>,
        request: &mut reqwest::Request,
    ) -> Result<(), McpErrorKind> {
        let is_same_origin = request.url().origin() == self.state.server.origin();
        if let Some(active_tokens) = tokens.filter(|_| is_same_origin) {
            let headers = active_tokens.headers(request.method(), request.url());
            let (token, proof) = headers.map_err(authorization_error)?;
            request.headers_mut().insert(AUTHORIZATION, token);
            let secrets = &self.state.secrets;
            secrets.add_sent(active_tokens.tokens.access_token.expose_secret());
            if let Some(proof) = proof {
                request.headers_mut().insert(DPOP_HEADER, proof);
            }
        }
        Ok(())
    }

    async fn renew_token(
        &self,
        generation: u64,
        active_tokens: Arc<ActiveTokens>,
    ) -> Result<(u64, Option<Arc<ActiveTokens>>), McpErrorKind> {
        if !self.state.can_renew_unattended(&active_tokens) {
            // The request is sent with the token that could not be refreshed, because the token may
            // still be valid. If it is not, the server's rejection starts an authorization.
            return Ok((generation, Some(active_tokens)));
        }
        match self.acquire(generation, TokenReason::Renewal).await {
            Err(error) if !active_tokens.is_expired() => {
                tracing::debug!(
                    %error,
                    "The access token could not be refreshed before it expires"
                );
                Ok((generation, Some(active_tokens)))
            }
            Err(error) if !error.is_rejection() => Err(McpErrorKind::Authorization(error)),
            _ => Ok(self.current_tokens()),
        }
    }

    /// Obtains another token if the server rejected the token of a request. Returns whether to send
    /// the request again.
    async fn should_resend(
        &self,
        sent_request: &SentRequest,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<bool, McpErrorKind> {
        let tokens = sent_request.tokens.as_ref();
        let dpop = tokens.and_then(|active_tokens| active_tokens.dpop.as_ref());
        let has_new_nonce = dpop.is_some_and(|dpop| dpop.store_nonce(&sent_request.url, headers));
        if sent_request.url.origin() != self.state.server.origin() {
            return Ok(false);
        }
        let is_step_up = match status {
            StatusCode::UNAUTHORIZED => false,
            StatusCode::FORBIDDEN => true,
            status => {
                // A response with an internal error does not prove that the token is accepted,
                // because the server may have failed before it checked the token.
                if let Some(active_tokens) = tokens.filter(|_| !status.is_server_error()) {
                    active_tokens.mark_accepted();
                }
                return Ok(false);
            }
        };
        let challenge = ParsedChallenge::from_headers(headers);
        if is_step_up && !challenge.is_insufficient_scope() {
            return Ok(false);
        }
        if challenge.requires_nonce() && dpop.is_some() {
            return Ok(has_new_nonce);
        }
        if self.current_tokens().0 != sent_request.generation {
            // The request is sent again with the newer token that another call has obtained.
            return Ok(true);
        }
        if let Some(active_tokens) = tokens {
            let is_retry_useless = if is_step_up {
                active_tokens.mark_accepted();
                let requested_scopes = &active_tokens.tokens.scopes;
                let mut required_scopes = challenge.scopes.iter();
                required_scopes.all(|scope| requested_scopes.contains(scope))
            } else {
                active_tokens.origin == TokenOrigin::Granted && !active_tokens.is_accepted()
            };
            if is_retry_useless {
                // The request is not sent again, because another authorization would request the
                // same scopes, and the server would reject the request again.
                return Ok(false);
            }
        }
        let reason = TokenReason::Rejection {
            challenge,
            is_step_up,
        };
        let outcome = self.acquire(sent_request.generation, reason).await;
        outcome.map_err(McpErrorKind::Authorization)?;
        Ok(true)
    }

    fn current_tokens(&self) -> (u64, Option<Arc<ActiveTokens>>) {
        let current_tokens = self.state.current_tokens.lock();
        (current_tokens.generation, current_tokens.tokens.clone())
    }

    /// Obtains tokens newer than `generation`, or waits for the running token acquisition.
    async fn acquire(&self, generation: u64, reason: TokenReason) -> AcquisitionResult {
        let outcome = {
            let mut current_acquisition = self.acquisition.lock();
            match &*current_acquisition {
                Some(running) if running.is_running() => running.outcome.clone(),
                _ if self.current_tokens().0 != generation => return Ok(()),
                _ => {
                    let acquisition = Arc::clone(&self.state).acquire(reason);
                    // Panics are caught, because the prompt and the token store are implemented
                    // outside of this crate.
                    let outcome = AssertUnwindSafe(acquisition)
                        .catch_unwind()
                        .map(|outcome| {
                            let caught_outcome = outcome.unwrap_or(Err(OAuthError::Panicked));
                            caught_outcome.map_err(Arc::new)
                        })
                        .boxed()
                        .shared();
                    *current_acquisition = Some(RunningAcquisition {
                        outcome: outcome.clone(),
                        _task: AbortOnDropHandle::new(tokio::spawn(outcome.clone())),
                    });
                    outcome
                }
            }
        };
        outcome.await
    }
}

impl RunningAcquisition {
    fn is_running(&self) -> bool {
        self.outcome.peek().is_none()
    }
}

fn authorization_error(error: OAuthError) -> McpErrorKind {
    McpErrorKind::Authorization(Arc::new(error))
}
