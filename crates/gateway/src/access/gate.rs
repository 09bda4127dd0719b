//! The checks of requests over TCP: an allowed host, an allowed origin and a token.

mod rejection;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::request::Parts;
use pillion_config::TcpSection;

use super::{AccessGrant, Scope, TokenCheck, TokenCheckError, TokenValidity};
pub use rejection::AccessRejection;

/// The header that may contain the token instead of `Authorization` in requests to paths below
/// `/v1/`.
const API_KEY_HEADER: &str = "x-api-key";

/// Checks requests over TCP.
///
/// A web page in a browser on this machine can send requests to a loopback address, even under the
/// page's own host name if that name resolves to the address (DNS rebinding). Such a request has
/// the page's host name in `Host` or the page's origin in `Origin`. Both headers are checked before
/// the token, and for every route.
#[derive(Debug)]
pub struct AccessGate {
    hosts: Vec<String>,
    origins: Vec<String>,
    tokens: Arc<dyn TokenCheck>,
}

impl AccessGate {
    /// Creates the gate for a listener at `listen`.
    #[must_use]
    pub fn new(tcp: &TcpSection, listen: SocketAddr, tokens: Arc<dyn TokenCheck>) -> Self {
        let mut hosts = Vec::from(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        if !listen.ip().is_unspecified() {
            hosts.push(match listen {
                SocketAddr::V4(address) => address.ip().to_string(),
                SocketAddr::V6(address) => format!("[{}]", address.ip()),
            });
        }
        hosts.extend(tcp.allowed_hosts.iter().cloned());
        let origins = tcp.allowed_origins.iter();
        Self {
            hosts,
            origins: origins.map(|origin| origin.to_ascii_lowercase()).collect(),
            tokens,
        }
    }

    /// Checks a request that needs the scope `required_scope`. Returns the permission that the
    /// request's token grants, or `None` for a route that needs no token.
    ///
    /// # Errors
    /// The host, the origin or the token of the request is not allowed, or the token lacks the
    /// scope.
    pub async fn check_request(
        &self,
        request: &Parts,
        required_scope: Scope,
    ) -> Result<Option<AccessGrant>, AccessRejection> {
        let headers = &request.headers;
        self.check_source(request)?;
        let path = request.uri.path();
        let token = match bearer_token(headers)? {
            None if path.starts_with("/v1/") => api_key(headers)?,
            token => token,
        };
        let Some(token) = token else {
            return if needs_no_token(path) {
                Ok(None)
            } else {
                Err(AccessRejection::NoToken)
            };
        };
        let checked_grant = self
            .check(token)
            .await
            .map_err(AccessRejection::CannotCheck)?;
        let grant = checked_grant.ok_or(AccessRejection::BadToken)?;
        if grant.allows(required_scope) {
            Ok(Some(grant))
        } else {
            Err(AccessRejection::Scope { required_scope })
        }
    }

    /// Checks that a request is for a host of the listener and comes from an allowed origin.
    ///
    /// # Errors
    /// The host or the origin of the request is not allowed.
    pub fn check_source(&self, request: &Parts) -> Result<(), AccessRejection> {
        let host = self.check_host(request)?;
        self.check_origin(&request.headers, host)
    }

    /// Returns the permission that `token` grants, or `None` if the token is unknown or revoked.
    ///
    /// # Errors
    /// The tokens cannot be read.
    pub async fn check(&self, token: &str) -> Result<Option<AccessGrant>, TokenCheckError> {
        self.tokens.check(token).await
    }

    /// Returns the permission of each token of the configuration, in the order of the
    /// configuration.
    #[must_use]
    pub fn configured_grants(&self) -> Vec<AccessGrant> {
        self.tokens.configured_grants()
    }

    /// Returns the check by which the response streams of `request` detect that the request's token
    /// has become invalid. `grant` is the permission with which
    /// [`check_request`](Self::check_request) admitted the request.
    pub fn token_validity(
        request: &Parts,
        grant: &AccessGrant,
        current_gate: impl Fn() -> Option<Arc<AccessGate>> + Send + Sync + 'static,
    ) -> TokenValidity {
        let key = || api_key(&request.headers).ok().flatten();
        let token = bearer_token(&request.headers).ok().flatten().or_else(key);
        TokenValidity::new(token.unwrap_or_default(), grant.clone(), current_gate)
    }

    /// Returns the value of the header `Host` if the requested host is allowed.
    fn check_host<'a>(&self, request: &'a Parts) -> Result<&'a str, AccessRejection> {
        let mut values = request.headers.get_all(HOST).iter();
        let header = values.next().ok_or(AccessRejection::BadHost)?;
        let host = header.to_str().map_err(|_| AccessRejection::BadHost)?;
        let target = request.uri.authority().map(|authority| authority.as_str());
        let is_known_host = |authority: &str| {
            let is_name = |name: &str| {
                self.hosts
                    .iter()
                    .any(|host| host.eq_ignore_ascii_case(name))
            };
            host_name(authority).is_some_and(is_name)
        };
        if values.next().is_none() && is_known_host(host) && target.is_none_or(is_known_host) {
            Ok(host)
        } else {
            Err(AccessRejection::BadHost)
        }
    }

    /// Returns whether the request comes from a web page of a configured origin, so that the
    /// response must have CORS headers. Without these headers, the browser does not let the page
    /// read the response. The server's own pages need no such headers.
    #[must_use]
    pub fn is_from_configured_page(&self, request: &Parts) -> bool {
        let mut origins = request.headers.get_all(ORIGIN).iter();
        let origin = origins.next().and_then(|origin| origin.to_str().ok());
        origin.is_some_and(|origin| self.is_configured(origin))
            && origins.next().is_none()
            && self.check_host(request).is_ok()
    }

    fn is_configured(&self, origin: &str) -> bool {
        let mut origins = self.origins.iter();
        origins.any(|configured_origin| configured_origin.eq_ignore_ascii_case(origin))
    }

    /// Checks the header `Origin`, which only browsers send. The origin must be the server's own or
    /// a configured origin.
    fn check_origin(&self, headers: &HeaderMap, host: &str) -> Result<(), AccessRejection> {
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().map_err(|_| AccessRejection::BadOrigin)?;
            let is_same = authority(origin).is_some_and(|name| name.eq_ignore_ascii_case(host));
            if !self.is_configured(origin) && !is_same {
                return Err(AccessRejection::BadOrigin);
            }
        }
        Ok(())
    }
}

/// Returns whether the route needs no token. Such routes reveal only that the sidecar is running,
/// for example to a load balancer.
fn needs_no_token(path: &str) -> bool {
    matches!(path.trim_end_matches('/'), "/healthz" | "/readyz")
}

/// Returns the bearer token of the header `Authorization`, if present.
fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, AccessRejection> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let value = value.to_str().map_err(|_| AccessRejection::BadToken)?;
    let (scheme, token) = value.split_once(' ').ok_or(AccessRejection::BadToken)?;
    if values.next().is_some() || !scheme.eq_ignore_ascii_case("bearer") {
        return Err(AccessRejection::BadToken);
    }
    Ok(Some(token.trim()))
}

/// Returns the token in the header `x-api-key`, which Anthropic's clients send, if present.
fn api_key(headers: &HeaderMap) -> Result<Option<&str>, AccessRejection> {
    let mut values = headers.get_all(API_KEY_HEADER).iter();
    let value = values.next().map(|value| value.to_str().map(str::trim));
    match values.next() {
        None => value.transpose().map_err(|_| AccessRejection::BadToken),
        Some(_) => Err(AccessRejection::BadToken),
    }
}

/// Returns the host of an authority such as `localhost:7420` or `[::1]:7420`, including the
/// brackets of an IPv6 address.
fn host_name(authority: &str) -> Option<&str> {
    let (name, port) = if authority.starts_with('[') {
        let end = authority.find(']')? + 1;
        authority.split_at(end)
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        authority.split_at(end)
    };
    let port = port.strip_prefix(':').unwrap_or(port);
    let is_valid_port = port.bytes().all(|byte| byte.is_ascii_digit());
    (is_valid_port && !name.is_empty()).then_some(name)
}

/// Returns the authority of an HTTP or HTTPS origin.
fn authority(origin: &str) -> Option<&str> {
    let (scheme, authority) = origin.split_once("://")?;
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    is_http.then_some(authority)
}

#[cfg(test)]
mod tests;
