use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode};
use pillion_deadline::timeout_at;
use tokio::time::Instant;
use url::Url;

use super::{EgressClient, EgressError, EgressPolicy, Purpose, Trust, root_cause};

/// The HTTP client of tools and model providers. Enforces an egress policy, timeouts and size
/// limits. Cheap to clone; clones share the connections.
///
/// ```no_run
/// use std::time::Duration;
/// use pillion_egress::{EgressPolicy, HttpClient, HttpRequest};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = HttpClient::new(&EgressPolicy::default())?;
/// let request = HttpRequest::get("https://api.example.com/v1/now".parse()?);
/// let answer = client.send(request, Duration::from_secs(10)).await?;
/// assert!(answer.status().is_success());
/// let body = answer.bytes(64 * 1024).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct HttpClient {
    client: EgressClient,
}

/// An HTTP request. `Debug` hides URL, headers and body, because each may contain a credential.
#[derive(Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: Url,
    /// The headers; `User-Agent` is set if absent.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// A response whose body has not been read yet. The deadline of the request also applies to the
/// body.
pub struct HttpAnswer {
    answer: reqwest::Response,
    deadline: Instant,
}

/// Why a request failed or its response is incomplete. Messages contain only the host of the URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The egress policy forbids the request.
    #[error(transparent)]
    Refused(#[from] EgressError),
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
    /// The body is larger than the limit.
    #[error("the response is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
}

impl HttpClient {
    /// Creates a client for `policy`. Follows redirects only within the origin, and only those that
    /// keep the method. Does no I/O except reading the system's certificates.
    ///
    /// # Errors
    /// [`HttpError::Client`].
    pub fn new(policy: &EgressPolicy) -> Result<Self, HttpError> {
        Self::for_purpose(policy, Purpose::server(Trust::System))
    }

    pub(super) fn for_purpose(policy: &EgressPolicy, purpose: Purpose) -> Result<Self, HttpError> {
        let client = EgressClient::new(policy, purpose);
        let client = client.map_err(|error| HttpError::Client(error.to_string()))?;
        Ok(Self { client })
    }

    /// Sends a request, and returns when the head of the response has arrived. `timeout` applies to
    /// the complete response, including the body.
    ///
    /// # Errors
    /// [`HttpError`]. An HTTP error status is not an error.
    pub async fn send(
        &self,
        request: HttpRequest,
        timeout: Duration,
    ) -> Result<HttpAnswer, HttpError> {
        let deadline = Instant::now() + timeout;
        let HttpRequest {
            method,
            url,
            headers,
            body,
        } = request;
        let mut sending = self.client.request(method, &url, headers)?;
        if !body.is_empty() {
            sending = sending.body(body);
        }
        let answer = timeout_at(deadline, sending.send())
            .await
            .map_err(|_| HttpError::Timeout)?
            .map_err(|error| HttpError::of(&error))?;
        Ok(HttpAnswer { answer, deadline })
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

impl HttpAnswer {
    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.answer.status()
    }

    /// Returns the headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.answer.headers()
    }

    /// Returns the next chunk of the body; `None` at its end.
    ///
    /// # Errors
    /// [`HttpError::Timeout`], [`HttpError::Failed`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        timeout_at(self.deadline, self.answer.chunk())
            .await
            .map_err(|_| HttpError::Timeout)?
            .map_err(|error| HttpError::of(&error))
    }

    /// Returns the complete body, if it is no larger than `limit` bytes.
    ///
    /// # Errors
    /// [`HttpError::TooLong`], and the errors of [`chunk`](Self::chunk).
    pub async fn bytes(mut self, limit: usize) -> Result<Bytes, HttpError> {
        let mut read = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if chunk.len() > limit - read.len() {
                return Err(HttpError::TooLong { limit });
            }
            read.extend_from_slice(&chunk);
        }
        Ok(read.freeze())
    }
}

impl HttpError {
    fn of(error: &reqwest::Error) -> Self {
        if let Some(refusal) = EgressError::cause_of(error) {
            return Self::Refused(refusal.clone());
        }
        match () {
            () if error.is_timeout() => Self::Timeout,
            () if error.is_connect() => Self::Connect(root_cause(error)),
            () => Self::Failed(root_cause(error)),
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

impl std::fmt::Debug for HttpAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpAnswer")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
