use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderValue, Method};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::dpop::DpopKey;
use super::jwt::unix_time;
use super::token_request::TokenEndpoint;
use super::{OAuthError, OAuthTokens};

/// Time before the expiry of a token at which the client refreshes the token, in seconds. A
/// short-lived token is refreshed when a fifth of its lifetime remains.
const REFRESH_MARGIN_SECONDS: u64 = 30;

/// The response of a token endpoint (RFC 6749 section 5.1, RFC 8693 section 2.2.1).
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    pub(super) access_token: SecretString,
    token_type: String,
    /// The lifetime of the token, in seconds. RFC 6749 requires a number, but some servers send a
    /// string.
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
pub(super) struct ActiveTokens {
    pub(super) tokens: OAuthTokens,
    pub(super) origin: TokenOrigin,
    /// The DPoP key, if the tokens are bound to one.
    pub(super) dpop: Option<Arc<DpopKey>>,
    margin_seconds: u64,
    /// Whether the server has accepted a request with these tokens.
    is_accepted: AtomicBool,
}

impl ActiveTokens {
    /// Creates tokens from a token response. If the response has no refresh token, the previous one
    /// stays in use.
    pub(super) fn from_response(
        response: TokenResponse,
        endpoint: &TokenEndpoint,
        scopes: Vec<String>,
        dpop: Option<&Arc<DpopKey>>,
        previous: Option<&OAuthTokens>,
    ) -> Result<Self, OAuthError> {
        let is_bound = response.token_type.eq_ignore_ascii_case("dpop");
        if !is_bound && !response.token_type.eq_ignore_ascii_case("bearer") {
            return Err(OAuthError::TokenType);
        }
        if is_bound && dpop.is_none() || !is_header_text(&response.access_token) {
            return Err(OAuthError::TokenType);
        }
        let expires_at = response.expires_at();
        let lifetime_seconds = expires_at.map(|end| end.saturating_sub(unix_time()));
        let refresh_token = previous.and_then(|tokens| tokens.refresh_token.clone());
        let bound_key = dpop.filter(|_| is_bound).map(Arc::clone);
        Ok(Self {
            tokens: OAuthTokens {
                issuer: endpoint.issuer.clone(),
                resource: endpoint.resource.clone(),
                access_token: response.access_token,
                refresh_token: response.refresh_token.or(refresh_token),
                expires_at,
                scopes,
                dpop_key: bound_key.as_deref().map(DpopKey::encoded_key),
            },
            origin: if previous.is_some() {
                TokenOrigin::Refreshed
            } else {
                TokenOrigin::Granted
            },
            dpop: bound_key,
            margin_seconds: lifetime_seconds
                .map_or(0, |lifetime| REFRESH_MARGIN_SECONDS.min(lifetime / 5)),
            is_accepted: AtomicBool::new(false),
        })
    }

    /// Creates tokens from stored ones; `None` if their DPoP key is damaged.
    pub(super) fn from_stored(tokens: OAuthTokens) -> Option<Self> {
        let dpop = match &tokens.dpop_key {
            Some(key) => Some(Arc::new(DpopKey::from_stored(key)?)),
            None => None,
        };
        is_header_text(&tokens.access_token).then(|| Self {
            tokens,
            origin: TokenOrigin::Stored,
            dpop,
            margin_seconds: REFRESH_MARGIN_SECONDS,
            is_accepted: AtomicBool::new(false),
        })
    }

    pub(super) fn mark_accepted(&self) {
        self.is_accepted.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.is_accepted.load(Ordering::Relaxed)
    }

    pub(super) fn expires_soon(&self) -> bool {
        self.expires_before(unix_time().saturating_add(self.margin_seconds))
    }

    pub(super) fn is_expired(&self) -> bool {
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
        let (scheme, proof) = match &self.dpop {
            Some(dpop) => ("DPoP", Some(dpop.create_proof(method, url, Some(token))?)),
            None => ("Bearer", None),
        };
        let text = format!("{scheme} {}", token.expose_secret());
        let mut value = HeaderValue::try_from(text).map_err(|_| OAuthError::TokenType)?;
        value.set_sensitive(true);
        Ok((value, proof))
    }
}

/// Returns whether a token is valid as a header value; other tokens are rejected.
fn is_header_text(token: &SecretString) -> bool {
    HeaderValue::try_from(token.expose_secret()).is_ok()
}
