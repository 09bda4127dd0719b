use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderValue, Method};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::dpop::Dpop;
use super::jwt::unix_time;
use super::token_request::TokenEndpoint;
use super::{OAuthError, OAuthTokens};

/// How many seconds before its expiry a token is refreshed; for a short-lived token, a fifth of its
/// lifetime.
const REFRESH_MARGIN_SECONDS: u64 = 30;

/// The response of a token endpoint (RFC 6749 section 5.1, RFC 8693 section 2.2.1).
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    pub(super) access_token: SecretString,
    token_type: String,
    /// The lifetime in seconds: a number; some servers send a string.
    #[serde(default)]
    expires_in: Value,
    refresh_token: Option<SecretString>,
    pub(super) issued_token_type: Option<String>,
}

impl TokenResponse {
    fn expires_at(&self) -> Option<u64> {
        let seconds = match &self.expires_in {
            Value::Number(number) => number.as_u64().or_else(|| {
                // Some authorization servers send `expires_in` as a float, such as 3600.0.
                number.as_f64().map(|seconds| seconds as u64)
            }),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        Some(unix_time().saturating_add(seconds?))
    }
}

/// The origin of the current tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenOrigin {
    /// An earlier client or process stored the tokens.
    Stored,
    /// The tokens were obtained with a refresh token.
    Refreshed,
    /// The tokens were obtained by an authorization in this process.
    Granted,
}

/// The tokens that a client uses.
pub(super) struct LiveTokens {
    pub(super) tokens: OAuthTokens,
    pub(super) origin: TokenOrigin,
    /// The DPoP key, if the tokens are bound to one.
    pub(super) dpop: Option<Arc<Dpop>>,
    margin_seconds: u64,
    /// Whether the server has accepted a request with these tokens.
    accepted: AtomicBool,
}

impl LiveTokens {
    /// Creates tokens from a token response. If the response has no refresh token, the previous one
    /// stays in use.
    pub(super) fn granted(
        response: TokenResponse,
        endpoint: &TokenEndpoint,
        scopes: Vec<String>,
        dpop: Option<&Arc<Dpop>>,
        refreshed: Option<&OAuthTokens>,
    ) -> Result<Self, OAuthError> {
        let bound = response.token_type.eq_ignore_ascii_case("dpop");
        if !bound && !response.token_type.eq_ignore_ascii_case("bearer") {
            return Err(OAuthError::TokenType);
        }
        if bound && dpop.is_none() || !is_header_text(&response.access_token) {
            return Err(OAuthError::TokenType);
        }
        let expires_at = response.expires_at();
        let life = expires_at.map(|end| end.saturating_sub(unix_time()));
        let before = refreshed.and_then(|tokens| tokens.refresh_token.clone());
        let dpop = dpop.filter(|_| bound).map(Arc::clone);
        Ok(Self {
            tokens: OAuthTokens {
                issuer: endpoint.issuer.clone(),
                resource: endpoint.resource.clone(),
                access_token: response.access_token,
                refresh_token: response.refresh_token.or(before),
                expires_at,
                scopes,
                dpop_key: dpop.as_deref().map(Dpop::stored),
            },
            origin: if refreshed.is_some() {
                TokenOrigin::Refreshed
            } else {
                TokenOrigin::Granted
            },
            dpop,
            margin_seconds: life.map_or(0, |life| REFRESH_MARGIN_SECONDS.min(life / 5)),
            accepted: AtomicBool::new(false),
        })
    }

    /// Creates tokens from stored ones; `None` if their DPoP key is damaged.
    pub(super) fn stored(tokens: OAuthTokens) -> Option<Self> {
        let dpop = match &tokens.dpop_key {
            Some(key) => Some(Arc::new(Dpop::from_stored(key)?)),
            None => None,
        };
        is_header_text(&tokens.access_token).then(|| Self {
            tokens,
            origin: TokenOrigin::Stored,
            dpop,
            margin_seconds: REFRESH_MARGIN_SECONDS,
            accepted: AtomicBool::new(false),
        })
    }

    pub(super) fn accept(&self) {
        self.accepted.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn expires_soon(&self) -> bool {
        self.expires_before(unix_time().saturating_add(self.margin_seconds))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.expires_before(unix_time())
    }

    fn expires_before(&self, time: u64) -> bool {
        self.tokens.expires_at.is_some_and(|end| end <= time)
    }

    /// Returns the value of `Authorization`, and the DPoP proof if the token is bound to a key.
    pub(super) fn headers(
        &self,
        method: &Method,
        url: &Url,
    ) -> Result<(HeaderValue, Option<HeaderValue>), OAuthError> {
        let token = &self.tokens.access_token;
        let scheme = if self.dpop.is_some() {
            "DPoP"
        } else {
            "Bearer"
        };
        let value = format!("{scheme} {}", token.expose_secret());
        let mut value = HeaderValue::try_from(value).map_err(|_| OAuthError::TokenType)?;
        value.set_sensitive(true);
        let proof = match &self.dpop {
            Some(dpop) => Some(dpop.proof(method, url, Some(token))?),
            None => None,
        };
        Ok((value, proof))
    }
}

/// Returns whether a token is valid as a header value; other tokens are not stored.
fn is_header_text(token: &SecretString) -> bool {
    HeaderValue::try_from(token.expose_secret()).is_ok()
}
