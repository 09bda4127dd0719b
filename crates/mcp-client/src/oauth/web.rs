use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Method, StatusCode};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde::de::DeserializeOwned;
use url::{Host, Url, form_urlencoded};

use super::OAuthError;
use super::client::RequestForm;
use crate::secrets::Secrets;
use pillion_egress::{
    ClientError, EgressClient, EgressClientSettings, EgressError, EgressPolicy, Trust,
};

/// Timeout of one request to an authorization server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a response, in bytes; metadata and token responses are small.
const MAX_RESPONSE_BYTES: usize = 256 * 1024;

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

/// Sends requests to authorization servers, for the SDK and for this crate. Requests follow the
/// egress policy and carry only the credentials that the caller has set; responses have a small
/// size limit.
#[derive(Clone)]
pub(super) struct WebClient {
    client: EgressClient,
    policy: Arc<EgressPolicy>,
    secrets: Arc<Secrets>,
}

/// A response whose body was read to its end.
pub(super) struct WebResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl WebClient {
    /// Creates an HTTP client that applies the egress policy for URLs supplied by `server`.
    pub(super) fn new(
        egress: &EgressPolicy,
        server: &Url,
        secrets: &Arc<Secrets>,
    ) -> Result<Self, ClientError> {
        let policy = egress.for_urls_from(server);
        let settings = EgressClientSettings {
            follows_redirects: false,
            timeout: Some(REQUEST_TIMEOUT),
            ..EgressClientSettings::for_server(Trust::SystemCertificates)
        };
        Ok(Self {
            client: EgressClient::new(&policy, settings)?,
            policy: Arc::new(policy),
            secrets: Arc::clone(secrets),
        })
    }

    /// Checks the URL to which a request or a user's browser is sent. The URL must have the scheme
    /// `https`, lead to this machine, or be allowed by the egress policy (OAuth 2.1 section 1.5).
    pub(super) fn parse_allowed_url(&self, text: &str) -> Result<Url, OAuthError> {
        let url = Url::parse(text).map_err(|_| EgressError::Scheme)?;
        self.policy.check_url(&url)?;
        Ok(url)
    }

    pub(super) async fn post_form(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        form: &RequestForm,
    ) -> Result<WebResponse, OAuthError> {
        let secret_pairs = form
            .iter()
            .filter(|(key, _)| SECRET_PARAMETERS.contains(key));
        secret_pairs.for_each(|(_, value)| self.secrets.add_sent(value));
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        let content_type = http::HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, content_type);
        self.send(Method::POST, url, headers, body.into()).await
    }

    /// Fetches a JSON document; `None` if the server has no such document, or if the document
    /// cannot be parsed as `T`. Redirects are followed within the origin.
    ///
    /// # Errors
    /// The server cannot be reached, the egress policy rejects its URL, or the response is too
    /// large, has a server error status (5xx), or redirects to another origin or too many times.
    pub(super) async fn get_json<T: DeserializeOwned>(
        &self,
        url: &Url,
    ) -> Result<Option<T>, OAuthError> {
        let mut current_url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let request = self.send(Method::GET, &current_url, HeaderMap::new(), Bytes::new());
            let response = request.await?;
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
                    .inspect_err(|error| tracing::debug!(%error, "Skipped invalid OAuth metadata"))
                    .ok());
            };
            let redirect_target = location.to_str().ok();
            current_url = redirect_target
                .and_then(|redirect_target| current_url.join(redirect_target).ok())
                .filter(|redirect_target| redirect_target.origin() == url.origin())
                .ok_or(OAuthError::MetadataRedirect)?;
        }
        Err(OAuthError::MetadataRedirect)
    }

    /// Sends a request and returns the head of the response.
    ///
    /// If the connection of a GET breaks, the GET is sent once more.
    ///
    /// A POST is never sent twice, because it may use up a code or a refresh token. A POST is
    /// therefore sent over a new connection: the server may be closing an idle one.
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
                outcome => return outcome.map_err(request_error),
            }
        }
        let request = client.request_over_new_connection(method, url, headers)?;
        request.body(body).send().await.map_err(request_error)
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<WebResponse, OAuthError> {
        let json_type = http::HeaderValue::from_static("application/json");
        headers.insert(ACCEPT, json_type);
        self.secrets.add_headers(&headers);
        let mut response = self.fetch_head(method, url, headers, body).await?;
        let mut response_body = Vec::new();
        // An event stream is not read, because it is not a JSON document and may never end.
        let media_type = response
            .headers()
            .get(CONTENT_TYPE)
            .map(http::HeaderValue::as_bytes);
        let is_stream = media_type.is_some_and(|bytes| bytes.starts_with(b"text/event-stream"));
        while !is_stream && let Some(chunk) = response.chunk().await.map_err(request_error)? {
            if response_body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let limit = MAX_RESPONSE_BYTES;
                return Err(OAuthError::TooLarge { limit });
            }
            response_body.extend_from_slice(&chunk);
        }
        // Credentials are removed from the body of an error, because it becomes part of error
        // messages.
        if !response.status().is_success() {
            let text = String::from_utf8_lossy(&response_body);
            response_body = self.secrets.redacted(&text).into_owned().into_bytes();
        }
        Ok(WebResponse {
            status: response.status(),
            headers: response.headers().clone(),
            body: response_body,
        })
    }
}

fn request_error(error: reqwest::Error) -> OAuthError {
    if let Some(egress_error) = EgressError::cause_of(&error) {
        OAuthError::Endpoint(egress_error.clone())
    } else {
        OAuthError::Request(error.without_url())
    }
}

/// Executes the SDK's requests. No redirect is followed.
impl OAuthHttpClient for WebClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let (head, body) = request.request.into_parts();
            let url = Url::parse(&head.uri.to_string())?;
            let exchange = self.send(head.method, &url, head.headers, body.into());
            let web_response = exchange.await?;
            let mut response = http::Response::new(web_response.body);
            *response.status_mut() = web_response.status;
            *response.headers_mut() = web_response.headers;
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
