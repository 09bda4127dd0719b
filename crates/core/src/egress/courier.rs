use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Response};
use url::Url;

use super::{EgressClient, EgressError, EgressPolicy, Purpose, Trust, root_cause};

/// Longest answer that is read, in bytes; the rest is left.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Brings bodies to one place that the operator has named, and waits for its short answers.
/// Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Courier {
    client: EgressClient,
    url: Url,
}

/// Why a body did not arrive, or no answer came. No text holds more of the URL than its host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CourierError {
    /// The URL may not be requested.
    #[error(transparent)]
    Refused(#[from] EgressError),
    /// The system's certificates cannot be read.
    #[error("no HTTP client: {0}")]
    Client(#[source] reqwest::Error),
    /// The request failed, or its answer broke off.
    #[error("{}", text_of(.0))]
    Failed(#[source] reqwest::Error),
}

impl Courier {
    /// A courier to `url`, which may be plain http: its operator wrote it. One request takes
    /// no longer than `timeout`.
    ///
    /// # Errors
    /// [`CourierError::Refused`], [`CourierError::Client`].
    pub fn new(url: Url, timeout: Duration) -> Result<Self, CourierError> {
        let mut policy = EgressPolicy::default();
        policy.allow_http_to(&url);
        policy.check_url(&url)?;
        let trust = match url.scheme() {
            "https" => Trust::System,
            _ => Trust::Nothing,
        };
        let purpose = Purpose {
            redirects: false,
            timeout: Some(timeout),
            ..Purpose::server(trust)
        };
        let client = EgressClient::new(&policy, purpose).map_err(CourierError::Client)?;
        Ok(Self { client, url })
    }

    /// Sends one body (POST) and reads the answer, up to 64 KiB of it.
    ///
    /// # Errors
    /// [`CourierError`]. An answer of any status is none.
    pub async fn post(
        &self,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, CourierError> {
        let request = self.client.request(Method::POST, &self.url, headers)?;
        let sent = request.body(body).send().await;
        let mut answer = sent.map_err(CourierError::Failed)?;
        let mut read = BytesMut::new();
        while read.len() < LONGEST_ANSWER {
            match answer.chunk().await.map_err(CourierError::Failed)? {
                Some(chunk) => read.extend_from_slice(&chunk),
                None => break,
            }
        }
        let mut response = Response::new(read.freeze());
        *response.status_mut() = answer.status();
        *response.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(response)
    }
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = self.url.host_str();
        f.debug_struct("Courier").field("host", &host).finish()
    }
}

fn text_of(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    root_cause(error)
}
