use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared as SharedFuture};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::challenge::Challenge;
use super::dpop::DPOP;
use super::flow::{CurrentTokens, Shared, TokenReason};
use super::tokens::{LiveTokens, TokenOrigin};
use super::web::Web;
use super::{
    AuthorizationResponse, InMemoryTokenStore, OAuthConfig, OAuthError, PendingAuthorization,
    TokenKey,
};
use crate::http::sending;
use crate::secrets::Secrets;
use crate::{McpErrorKind, ServerConfig};

/// Maximum number of times to send one request: with the current token, a refreshed one, a new
/// authorization, a step-up, and once more for a nonce. Each attempt follows a rejection.
const MAX_SENDS: usize = 5;

/// Sends requests to one MCP server with the tokens of one client, and obtains the tokens.
///
/// All calls that need a token share one running token acquisition. The acquisition continues if a
/// call gives up at its deadline, so that a used refresh token or a user's consent is not lost. It
/// ends with the client.
pub(crate) struct OAuthAuthorizer {
    shared: Arc<Shared>,
    loaded: OnceCell<()>,
    acquisition: Mutex<Option<Running>>,
}

/// Maximum number of step-up authorizations for one request.
const MAX_STEP_UPS: usize = 2;

type AcquisitionResult = Result<(), Arc<OAuthError>>;

struct Running {
    outcome: SharedFuture<BoxFuture<'static, AcquisitionResult>>,
    /// Drives the acquisition while no call waits for it.
    _task: AbortOnDropHandle<AcquisitionResult>,
}

/// The token and the URL that a request was sent with.
struct Sent {
    generation: u64,
    tokens: Option<Arc<LiveTokens>>,
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
        let shared = Shared {
            grant: oauth.resolve()?,
            config: oauth.clone(),
            key: TokenKey::new(&server, oauth),
            web: Web::new(&config.egress, &server, secrets).map_err(McpErrorKind::Setup)?,
            secrets: Arc::clone(secrets),
            server,
            prompt: services.prompt.clone(),
            store: store.unwrap_or_else(|| Arc::new(InMemoryTokenStore::default())),
            current: Mutex::new(CurrentTokens::default()),
            credentials: Mutex::default(),
            dpop: OnceLock::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            loaded: OnceCell::new(),
            acquisition: Mutex::new(None),
        })
    }

    /// Sends a request with a token, and again with another token if the server rejects the first
    /// one. A request that was answered with 401 or 403 has not been processed.
    pub(crate) async fn send(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let (client, request) = request.build_split();
        self.loaded
            .get_or_try_init(|| self.shared.load())
            .await
            .map_err(authorization)?;
        let mut next = request.map_err(|error| McpErrorKind::Setup(error.into()))?;
        let mut step_ups = 0;
        for _ in 1..MAX_SENDS {
            let Some(again) = next.try_clone() else { break };
            let sent = self.authorize(&mut next).await?;
            let response = client.execute(next).await.map_err(sending)?;
            let (status, headers) = (response.status(), response.headers());
            if status == StatusCode::FORBIDDEN {
                step_ups += 1;
            }
            if step_ups > MAX_STEP_UPS || !self.should_resend(&sent, status, headers).await? {
                return Ok(response);
            }
            next = again;
        }
        self.authorize(&mut next).await?;
        client.execute(next).await.map_err(sending)
    }

    /// Sends a request once, with the current token.
    pub(crate) async fn send_once(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let (client, request) = request.build_split();
        let mut request = request.map_err(|error| McpErrorKind::Setup(error.into()))?;
        let (_, tokens) = self.current();
        self.add(tokens.as_deref(), &mut request)?;
        client.execute(request).await.map_err(sending)
    }

    /// Completes an authorization that another client started.
    pub(crate) async fn finish(
        &self,
        pending: PendingAuthorization,
        response: AuthorizationResponse,
    ) -> Result<(), McpErrorKind> {
        let loaded = self.loaded.get_or_try_init(|| self.shared.load());
        loaded.await.map_err(authorization)?;
        let finished = self.shared.finish(pending, response);
        finished.await.map_err(authorization)
    }

    /// Waits for a running token acquisition. Returns `false` if none is running.
    pub(crate) async fn ended(&self) -> bool {
        let outcome = {
            let acquisition = self.acquisition.lock();
            let running = acquisition.as_ref().filter(|it| it.is_under_way());
            running.map(|running| running.outcome.clone())
        };
        let Some(outcome) = outcome else {
            return false;
        };
        // The calls that need the token receive the outcome separately.
        let _ = outcome.await;
        true
    }

    /// Adds the token to a request, after refreshing a token that is about to expire.
    async fn authorize(&self, request: &mut reqwest::Request) -> Result<Sent, McpErrorKind> {
        let url = request.url().clone();
        let (generation, tokens) = self.current();
        let (generation, tokens) = match tokens {
            Some(live) if live.expires_soon() => self.renew_token(generation, live).await?,
            tokens => (generation, tokens),
        };
        self.add(tokens.as_deref(), request)?;
        Ok(Sent {
            generation,
            tokens,
            url,
        })
    }

    /// Adds the headers of a token to a request, unless the request goes to another origin.
    fn add(
        &self,
        tokens: Option<&LiveTokens>,
        request: &mut reqwest::Request,
    ) -> Result<(), McpErrorKind> {
        let is_unreaped = request.url().origin() == self.shared.server.origin();
        if let Some(live) = tokens.filter(|_| is_unreaped) {
            let headers = live.headers(request.method(), request.url());
            let (token, proof) = headers.map_err(authorization)?;
            request.headers_mut().insert(AUTHORIZATION, token);
            self.shared
                .secrets
                .note(live.tokens.access_token.expose_secret());
            if let Some(proof) = proof {
                request.headers_mut().insert(DPOP, proof);
            }
        }
        Ok(())
    }

    async fn renew_token(
        &self,
        generation: u64,
        live: Arc<LiveTokens>,
    ) -> Result<(u64, Option<Arc<LiveTokens>>), McpErrorKind> {
        if !self.shared.can_renew_unattended(&live) {
            // The token could not be renewed, but may still be valid; if not, the server's
            // rejection starts an authorization.
            return Ok((generation, Some(live)));
        }
        match self.run(generation, TokenReason::Renewal).await {
            Err(error) if !live.has_ended() => {
                tracing::debug!(
                    %error,
                    "The access token could not be refreshed before it expires"
                );
                Ok((generation, Some(live)))
            }
            Err(error) if !error.is_rejection() => Err(McpErrorKind::Authorization(error)),
            _ => Ok(self.current()),
        }
    }

    /// Returns whether to send a request again: if the server rejected the token, obtains another
    /// one.
    async fn should_resend(
        &self,
        sent: &Sent,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<bool, McpErrorKind> {
        let dpop = sent.tokens.as_ref().and_then(|live| live.dpop.as_ref());
        let has_new_nonce = dpop.is_some_and(|dpop| dpop.note(&sent.url, headers));
        if sent.url.origin() != self.shared.server.origin() {
            return Ok(false);
        }
        let step_up = match status {
            StatusCode::UNAUTHORIZED => false,
            StatusCode::FORBIDDEN => true,
            status => {
                // A server with an internal error may not have checked the token.
                if let Some(live) = sent.tokens.as_ref().filter(|_| !status.is_server_error()) {
                    live.accept();
                }
                return Ok(false);
            }
        };
        let challenge = Challenge::from_headers(headers);
        if step_up && !challenge.is_insufficient_scope() {
            return Ok(false);
        }
        if challenge.requires_nonce() && dpop.is_some() {
            return Ok(has_new_nonce);
        }
        if self.current().0 != sent.generation {
            // Another call has already obtained a newer token.
            return Ok(true);
        }
        if let Some(live) = &sent.tokens {
            let is_useless = if step_up {
                live.accept();
                let requested = &live.tokens.scopes;
                let mut scopes = challenge.scopes.iter();
                scopes.all(|scope| requested.contains(scope))
            } else {
                live.origin == TokenOrigin::Granted && !live.is_accepted()
            };
            if is_useless {
                // A further step-up would request the same scopes, and would be rejected again.
                return Ok(false);
            }
        }
        let reason = TokenReason::Rejection { challenge, step_up };
        let outcome = self.run(sent.generation, reason).await;
        outcome.map_err(McpErrorKind::Authorization)?;
        Ok(true)
    }

    fn current(&self) -> (u64, Option<Arc<LiveTokens>>) {
        let current = self.shared.current.lock();
        (current.generation, current.tokens.clone())
    }

    /// Obtains tokens newer than `generation`, or waits for a running acquisition.
    async fn run(&self, generation: u64, reason: TokenReason) -> AcquisitionResult {
        let outcome = {
            let mut running = self.acquisition.lock();
            match &*running {
                Some(running) if running.is_under_way() => running.outcome.clone(),
                _ if self.current().0 != generation => return Ok(()),
                _ => {
                    let acquisition = Arc::clone(&self.shared).run(reason);
                    // The prompt and the store are code of the application, which may panic.
                    let outcome = AssertUnwindSafe(acquisition)
                        .catch_unwind()
                        .map(|outcome| {
                            let outcome = outcome.unwrap_or(Err(OAuthError::Panicked));
                            outcome.map_err(Arc::new)
                        })
                        .boxed()
                        .shared();
                    *running = Some(Running {
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

impl Running {
    fn is_under_way(&self) -> bool {
        self.outcome.peek().is_none()
    }
}

fn authorization(error: OAuthError) -> McpErrorKind {
    McpErrorKind::Authorization(Arc::new(error))
}
