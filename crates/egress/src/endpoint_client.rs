use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use url::Url;

use super::{EgressClientSettings, EgressPolicy, HttpClient, HttpError, HttpRequest, Trust};

/// Maximum number of bytes of a response that are read; the rest is ignored.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// Sends POST requests to one URL that the operator configured, and reads short responses. Cheap to
/// clone; clones share the connections.
#[derive(Clone)]
pub struct EndpointClient {
    client: HttpClient,
    url: Url,
    timeout: Duration,
}

impl EndpointClient {
    /// Creates a client for `url`. The URL may be plain `http`, because the operator configured it.
    /// `timeout` limits each request.
    ///
    /// # Errors
    /// [`HttpError::Denied`]: the URL contains a forbidden address. [`HttpError::Client`]: the
    /// environment names an invalid proxy, or the system has no certificates.
    pub fn new(url: Url, timeout: Duration) -> Result<Self, HttpError> {
        let mut policy = EgressPolicy::default();
        policy.allow_http_for(&url);
        policy.check_url(&url)?;
        let trust = match url.scheme() {
            "https" => Trust::SystemCertificates,
            _ => Trust::NoCertificates,
        };
        let settings = EgressClientSettings {
            follows_redirects: false,
            ..EgressClientSettings::for_server(trust)
        };
        Ok(Self {
            client: HttpClient::with_settings(&policy, settings)?,
            url,
            timeout,
        })
    }

    /// Sends a POST request and reads up to 64 KiB of the response.
    ///
    /// # Errors
    /// The request fails or times out. An HTTP error status is not an error.
    pub async fn post(
        &self,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, HttpError> {
        let request = HttpRequest {
            headers,
            ..HttpRequest::post(self.url.clone(), body)
        };
        let mut response = self.client.send(request, self.timeout).await?;
        let mut head = Response::new(());
        *head.status_mut() = response.status();
        *head.headers_mut() = response.headers().clone();
        let mut response_body = BytesMut::new();
        while response_body.len() < MAX_RESPONSE_BYTES {
            match response.chunk().await? {
                Some(chunk) => response_body.extend_from_slice(&chunk),
                None => break,
            }
        }
        Ok(head.map(|()| response_body.freeze()))
    }
}

impl std::fmt::Debug for EndpointClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = self.url.host_str();
        f.debug_struct("EndpointClient")
            .field("host", &host)
            .finish()
    }
}
