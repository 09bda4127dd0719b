use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Method, StatusCode};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde::de::DeserializeOwned;
use url::{Host, Url, form_urlencoded};

use super::OAuthError;
use crate::secrets::Secrets;
use pillion_egress::{ClientError, EgressClient, EgressError, EgressPolicy, Purpose, Trust};

/// Timeout of one request to an authorization server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a response, in bytes; metadata and token responses are small.
const MAX_BYTES: usize = 256 * 1024;

/// Maximum number of redirects of a metadata request.
const MAX_REDIRECTS: usize = 3;

/// The parameters of a token request that contain credentials.
const SECRET_PARAMETERS: [&str; 8] = [
    "assertion",
    "actor_token",
    "client_assertion",
    "client_secret",
    "code",
    "code_verifier",
    "refresh_token",
    "subject_token",
];

/// Sends requests to authorization servers, for the SDK and for this crate: within the egress
/// policy, with a small size limit for responses, and without credentials beyond those in the
/// request.
#[derive(Clone)]
pub(super) struct Web {
    client: EgressClient,
    policy: Arc<EgressPolicy>,
    secrets: Arc<Secrets>,
}

/// A completely read response.
pub(super) struct WebResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Web {
    /// Creates a client under the egress rules for URLs that this server names.
    pub(super) fn new(
        egress: &EgressPolicy,
        server: &Url,
        secrets: &Arc<Secrets>,
    ) -> Result<Self, ClientError> {
        let policy = egress.for_urls_from(server);
        let purpose = Purpose {
            redirects: false,
            timeout: Some(REQUEST_TIMEOUT),
            ..Purpose::server(Trust::System)
        };
        Ok(Self {
            client: EgressClient::new(&policy, purpose)?,
            policy: Arc::new(policy),
            secrets: Arc::clone(secrets),
        })
    }

    /// Checks the destination of a request or of a user's browser: `https`, this machine, or as the
    /// policy allows (OAuth 2.1 section 1.5).
    pub(super) fn check(&self, url: &str) -> Result<Url, OAuthError> {
        let url = Url::parse(url).map_err(|_| EgressError::Scheme)?;
        self.policy.check_url(&url)?;
        Ok(url)
    }

    pub(super) async fn post_form(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        form: &[(&str, &str)],
    ) -> Result<WebResponse, OAuthError> {
        let secret = form
            .iter()
            .filter(|(key, _)| SECRET_PARAMETERS.contains(key));
        secret.for_each(|(_, value)| self.secrets.note(value));
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        let form = http::HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form);
        self.send(Method::POST, url, headers, body.into()).await
    }

    /// Fetches a JSON document; `None` if the server has none, or if the document has another type
    /// than `T`. Redirects are followed within the origin.
    ///
    /// # Errors
    /// [`OAuthError::Request`], [`OAuthError::TooLarge`], [`OAuthError::Endpoint`],
    /// [`OAuthError::MetadataStatus`] or [`OAuthError::MetadataRedirect`].
    pub(super) async fn get_json<T: DeserializeOwned>(
        &self,
        url: &Url,
    ) -> Result<Option<T>, OAuthError> {
        let mut address = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self
                .send(Method::GET, &address, HeaderMap::new(), Bytes::new())
                .await?;
            if response.status.is_server_error() {
                let status = response.status.as_u16();
                return Err(OAuthError::MetadataStatus { status });
            }
            let location = response.headers.get(LOCATION);
            let Some(location) = location.filter(|_| response.status.is_redirection()) else {
                if response.status != StatusCode::OK {
                    return Ok(None);
                }
                let document = serde_json::from_slice(&response.body);
                return Ok(document
                    .inspect_err(|error| tracing::debug!(%error, "This is not OAuth metadata"))
                    .ok());
            };
            let target = location.to_str().ok();
            address = target
                .and_then(|target| address.join(target).ok())
                .filter(|target| target.origin() == url.origin())
                .ok_or(OAuthError::MetadataRedirect)?;
        }
        Err(OAuthError::MetadataRedirect)
    }

    /// Sends a request and returns the head of the response.
    ///
    /// A POST may use up a code or a refresh token, so a POST must not be sent again after the
    /// server may have received it. A POST is therefore sent over a new connection, because the
    /// server may have closed a kept one. If the connection of a GET breaks, the GET is sent again,
    /// once.
    async fn fetch_head(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<reqwest::Response, OAuthError> {
        let client = &self.client;
        if method == Method::GET {
            let request = client.request(method.clone(), url, headers.clone())?;
            match request.body(body.clone()).send().await {
                Err(error) if error.is_request() && !error.is_connect() && !error.is_timeout() => {}
                outcome => return outcome.map_err(failed),
            }
        }
        let request = client.request_over_new_connection(method, url, headers)?;
        request.body(body).send().await.map_err(failed)
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<WebResponse, OAuthError> {
        let json = http::HeaderValue::from_static("application/json");
        headers.insert(ACCEPT, json);
        self.secrets.note_headers(&headers);
        let mut response = self.fetch_head(method, url, headers, body).await?;
        let mut body = Vec::new();
        let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| {
            // An event stream may never end, and is no JSON document.
            kind.as_bytes().starts_with(b"text/event-stream")
        });
        while !is_stream && let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(OAuthError::TooLarge { limit: MAX_BYTES });
            }
            body.extend_from_slice(&chunk);
        }
        // The body of an error becomes part of error messages.
        if !response.status().is_success() {
            let text = String::from_utf8_lossy(&body);
            body = self.secrets.redacted(&text).into_owned().into_bytes();
        }
        Ok(WebResponse {
            status: response.status(),
            headers: response.headers().clone(),
            body,
        })
    }
}

fn failed(error: reqwest::Error) -> OAuthError {
    if let Some(denied) = EgressError::cause_of(&error) {
        OAuthError::Endpoint(denied.clone())
    } else {
        OAuthError::Request(error.without_url())
    }
}

/// Executes the SDK's requests. No redirect is followed.
impl OAuthHttpClient for Web {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let (head, body) = request.request.into_parts();
            let url = Url::parse(&head.uri.to_string())?;
            let received = self
                .send(head.method, &url, head.headers, body.into())
                .await?;
            let mut response = http::Response::new(received.body);
            *response.status_mut() = received.status;
            *response.headers_mut() = received.headers;
            Ok(response)
        })
    }
}

pub(super) fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}
