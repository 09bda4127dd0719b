use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use pillion_deadline::timeout_at;
use tokio::time::Instant;
use url::{Origin, Url};

use super::{
    Attempts, EgressClient, EgressClientSettings, EgressError, EgressPolicy, Reachability,
    SendFailure, Trust, root_cause, suggests_restart,
};

/// Maximum number of origins whose reachability a client knows. When the number is exceeded, the
/// client forgets all origins.
const MAX_ORIGINS: usize = 64;

/// The HTTP client of tools and model providers. Enforces an egress policy, timeouts and size
/// limits. Cheap to clone; clones share the connections.
///
/// If a server that has responded before refuses connections, it may be restarting, so the client
/// waits for it for up to 4 seconds within the timeout. A request that the server may have received
/// is sent again only if its method is safe, such as GET (RFC 9110, section 9.2.1). Requests with
/// unsafe methods use an idle connection only if the server is known to keep idle connections open.
///
/// ```no_run
/// use std::time::Duration;
/// use pillion_egress::{EgressPolicy, HttpClient, HttpRequest};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = HttpClient::new(&EgressPolicy::default())?;
/// let request = HttpRequest::get("https://api.example.com/v1/now".parse()?);
/// let response = client.send(request, Duration::from_secs(10)).await?;
/// assert!(response.status().is_success());
/// let body = response.bytes(64 * 1024).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct HttpClient {
    client: EgressClient,
    origins: Arc<Mutex<HashMap<Origin, Arc<Reachability>>>>,
}

/// An [`HttpClient`] that is created on first use, because reading the system's certificates takes
/// a while.
#[derive(Debug)]
pub struct LazyHttpClient {
    policy: EgressPolicy,
    client: OnceLock<HttpClient>,
}

/// An HTTP request. `Debug` hides URL, headers and body, because each may contain a credential.
#[derive(Clone)]
pub struct HttpRequest {
    /// The method. If the connection breaks after the server may have received the request, the
    /// request is repeated only if the method is safe.
    pub method: Method,
    /// The URL, which is checked against the egress policy.
    pub url: Url,
    /// The headers; `User-Agent` is set if absent.
    pub headers: HeaderMap,
    /// The body of the request; empty for none.
    pub body: Bytes,
}

/// A response whose body has not been read yet. The deadline of the request also applies to the
/// body.
pub struct HttpResponse {
    response: reqwest::Response,
    deadline: Instant,
    reachability: Arc<Reachability>,
}

/// Why a request failed or its response is incomplete. Messages contain only the host of the URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The egress policy forbids the request.
    #[error(transparent)]
    Denied(#[from] EgressError),
    /// The client cannot be created: see [`ClientError`](super::ClientError).
    #[error("cannot set up the HTTP client: {0}")]
    Client(String),
    /// The request exceeded its deadline.
    #[error("the request timed out")]
    Timeout,
    /// No connection was established, so nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The request failed, or the response is incomplete.
    #[error("{0}")]
    Failed(String),
    /// The response body is larger than the maximum size that the caller passed to
    /// [`HttpResponse::bytes`].
    #[error("the response is longer than {limit} bytes")]
    TooLong {
        /// The maximum size of the body, in bytes.
        limit: usize,
    },
}

impl HttpClient {
    /// Creates a client for `policy`. Follows redirects only within the origin, and only those that
    /// keep the method. Does no I/O except reading the system's certificates.
    ///
    /// # Errors
    /// The environment names an invalid proxy, or the system has no certificates.
    pub fn new(policy: &EgressPolicy) -> Result<Self, HttpError> {
        Self::with_settings(
            policy,
            EgressClientSettings::for_server(Trust::SystemCertificates),
        )
    }

    pub(super) fn with_settings(
        policy: &EgressPolicy,
        settings: EgressClientSettings,
    ) -> Result<Self, HttpError> {
        let client = EgressClient::new(policy, settings)
            .map_err(|error| HttpError::Client(error.to_string()))?;
        let origins = Arc::default();
        Ok(Self { client, origins })
    }

    /// Sends a request, and returns when the head of the response has arrived. `timeout` applies to
    /// the complete response, including the body.
    ///
    /// # Errors
    /// The policy forbids the request, or the request fails or times out. An HTTP error status is
    /// not an error.
    pub async fn send(
        &self,
        request: HttpRequest,
        timeout: Duration,
    ) -> Result<HttpResponse, HttpError> {
        let deadline = Instant::now() + timeout;
        let HttpRequest {
            method,
            url,
            headers,
            body,
        } = request;
        let reachability = self.reachability(&url);
        let mut attempts = Attempts::new(&reachability, method.is_safe());
        let response = loop {
            let pool_use = reachability.choose_pool_use(attempts.choice()).await;
            let (method, headers) = (method.clone(), headers.clone());
            let mut request_builder = self
                .client
                .request_over_pool(pool_use, method, &url, headers)?;
            if !body.is_empty() {
                request_builder = request_builder.body(body.clone());
            }
            let send_outcome = timeout_at(deadline, request_builder.send()).await;
            let error = match send_outcome.map_err(|_| HttpError::Timeout)? {
                Ok(mut response) => {
                    reachability.note_response();
                    reachability.learn_response(pool_use, &mut response);
                    break response;
                }
                Err(error) => error,
            };
            let failure = classify_failure(&error);
            if failure == SendFailure::Broken {
                reachability.learn_break(pool_use);
            }
            let may_repeat = timeout_at(deadline, attempts.wait_after(failure)).await;
            if may_repeat != Ok(true) {
                return Err(HttpError::from_reqwest(&error));
            }
        };
        Ok(HttpResponse {
            response,
            deadline,
            reachability,
        })
    }

    fn reachability(&self, url: &Url) -> Arc<Reachability> {
        let mut origins = self.origins.lock();
        if origins.len() >= MAX_ORIGINS && !origins.contains_key(&url.origin()) {
            origins.clear();
        }
        Arc::clone(origins.entry(url.origin()).or_default())
    }
}

impl LazyHttpClient {
    /// Creates a lazy client for `policy`. Does no I/O.
    #[must_use]
    pub fn new(policy: EgressPolicy) -> Self {
        let client = OnceLock::new();
        Self { policy, client }
    }

    /// Returns the policy of the client.
    #[must_use]
    pub fn policy(&self) -> &EgressPolicy {
        &self.policy
    }

    /// Returns the client.
    ///
    /// # Errors
    /// The environment names an invalid proxy, or the system has no certificates.
    pub fn get(&self) -> Result<&HttpClient, HttpError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = HttpClient::new(&self.policy)?;
        Ok(self.client.get_or_init(|| client))
    }
}

impl HttpRequest {
    /// Creates a GET request without headers.
    #[must_use]
    pub fn get(url: Url) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    /// Creates a POST request with this body and without headers.
    #[must_use]
    pub fn post(url: Url, body: Bytes) -> Self {
        Self {
            method: Method::POST,
            body,
            ..Self::get(url)
        }
    }
}

impl HttpResponse {
    /// Returns the HTTP status code.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Returns the response headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Returns the next chunk of the body; `None` at the end of the body.
    ///
    /// # Errors
    /// [`HttpError::Timeout`]: the deadline of the request has passed. [`HttpError::Failed`]: the
    /// body was cut off or malformed.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let chunk = timeout_at(self.deadline, self.response.chunk()).await;
        chunk.map_err(|_| HttpError::Timeout)?.map_err(|error| {
            let idle_time = Reachability::idle_before(&self.response);
            self.reachability.note_cut_off(idle_time);
            HttpError::from_reqwest(&error)
        })
    }

    /// Returns the complete body, if it is no larger than `limit` bytes.
    ///
    /// # Errors
    /// The same errors as [`chunk`](Self::chunk), and [`HttpError::TooLong`] if the body is larger
    /// than `limit`.
    pub async fn bytes(mut self, limit: usize) -> Result<Bytes, HttpError> {
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if chunk.len() > limit - body.len() {
                return Err(HttpError::TooLong { limit });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }
}

fn classify_failure(error: &reqwest::Error) -> SendFailure {
    if EgressError::cause_of(error).is_some() || error.is_timeout() || error.is_redirect() {
        SendFailure::Other
    } else if suggests_restart(error) {
        SendFailure::ConnectionRefused
    } else if error.is_connect() {
        SendFailure::Other
    } else {
        SendFailure::Broken
    }
}

impl HttpError {
    fn from_reqwest(error: &reqwest::Error) -> Self {
        if let Some(egress_error) = EgressError::cause_of(error) {
            Self::Denied(egress_error.clone())
        } else if error.is_timeout() {
            Self::Timeout
        } else if error.is_connect() {
            Self::Connect(root_cause(error))
        } else {
            Self::Failed(root_cause(error))
        }
    }
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("host", &self.url.host_str())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
