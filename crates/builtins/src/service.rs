//! A client for the HTTP services that tools use.

mod fault;
mod response;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pillion_core::tool::{ErrorCode, ToolFailure};
use pillion_egress::{EgressPolicy, HttpError, HttpRequest, LazyHttpClient};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use url::Url;

pub(crate) use fault::ServiceFault;
pub(crate) use response::ServiceResponse;

use crate::plain_text::to_plain_text;

/// Maximum size of a response, in bytes.
pub(crate) const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// Maximum length of a service's error message in errors, in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// The characters of a query that are percent-encoded.
const QUERY_ESCAPES: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b',')
    .remove(b':');

/// A client for one service. Its keys never appear in errors, logs or `Debug` output.
#[derive(Debug)]
pub(crate) struct ServiceClient {
    /// The name of the service in error messages, such as `Open-Meteo`.
    name: &'static str,
    /// The setting to check if the service rejects the key, for error messages.
    key_hint: &'static str,
    client: LazyHttpClient,
    /// Timeout of one request.
    timeout: Duration,
    /// The secrets that errors must not repeat.
    secrets: Vec<SecretString>,
}

impl ServiceClient {
    /// Creates a client of a service whose requests have the given timeout.
    pub(crate) fn new(
        name: &'static str,
        key_hint: &'static str,
        egress: EgressPolicy,
        timeout: Duration,
        secrets: impl IntoIterator<Item = SecretString>,
    ) -> Self {
        Self {
            name,
            key_hint,
            client: LazyHttpClient::new(egress),
            timeout,
            secrets: secrets.into_iter().collect(),
        }
    }

    /// Sends a `GET` request for a path below `base`.
    ///
    /// # Errors
    /// The service did not respond, or its response is not JSON.
    pub(crate) async fn get(
        &self,
        base: &Url,
        path: &str,
        query: &[(&str, &str)],
        headers: HeaderMap,
    ) -> Result<ServiceResponse, ToolFailure> {
        let request = HttpRequest {
            headers,
            ..HttpRequest::get(join_url(base, path, query))
        };
        let fetch_result = self.fetch(request).await;
        let (status, headers, body) = fetch_result.map_err(|error| self.request_failure(&error))?;
        ServiceResponse::from_parts(status, headers, &body)
            .map_err(|_| self.invalid_response("a body that is not JSON"))
    }

    async fn fetch(
        &self,
        request: HttpRequest,
    ) -> Result<(StatusCode, HeaderMap, Bytes), HttpError> {
        let response = self.client.get()?.send(request, self.timeout).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok((status, headers, response.bytes(MAX_RESPONSE_BYTES).await?))
    }

    /// Converts an error that the service has reported into a failure of the tool call.
    pub(crate) fn to_failure(&self, fault: ServiceFault) -> ToolFailure {
        let name = self.name;
        match fault {
            ServiceFault::RejectedKey => {
                let key_hint = self.key_hint;
                let text = if key_hint.is_empty() {
                    format!("{name} rejected the request")
                } else {
                    format!("{name} rejected the API key: check {key_hint}")
                };
                ToolFailure::new(ErrorCode::Unavailable, text)
            }
            ServiceFault::RateLimit(retry_after) => {
                let text = format!("{name} rejected the request: too many requests");
                ToolFailure::new(ErrorCode::RateLimited, text).with_retry_after(retry_after)
            }
            ServiceFault::InvalidInput(message) => {
                let text = format!(
                    "{name} rejected the request{}",
                    self.format_message_suffix(&message)
                );
                ToolFailure::invalid_input(text)
            }
            ServiceFault::Redirect => {
                let text =
                    format!("{name} responded with a redirect, which Pillion does not follow");
                ToolFailure::new(ErrorCode::Unavailable, text)
            }
            ServiceFault::ErrorStatus(status, message) => {
                let text = format!(
                    "{name} responded with HTTP status {status}{}",
                    self.format_message_suffix(&message)
                );
                ToolFailure::new(ErrorCode::Unavailable, text)
            }
        }
    }

    /// Parses the body of a response. Fails with `fault`, if it is set. Also fails if the body does
    /// not have the form of `T`; `invalid_description` then describes the body in the error.
    pub(crate) fn parse<T: DeserializeOwned>(
        &self,
        response: &ServiceResponse,
        fault: Option<ServiceFault>,
        invalid_description: &str,
    ) -> Result<T, ToolFailure> {
        match fault {
            Some(fault) => Err(self.to_failure(fault)),
            None => T::deserialize(&response.body)
                .map_err(|_| self.invalid_response(invalid_description)),
        }
    }

    /// Creates the failure for an invalid response, which `description` describes.
    fn invalid_response(&self, description: &str) -> ToolFailure {
        ToolFailure::internal(format!("{} responded with {description}", self.name))
    }

    fn request_failure(&self, error: &HttpError) -> ToolFailure {
        let name = self.name;
        match error {
            HttpError::Timeout => timeout_failure(name, self.timeout),
            HttpError::TooLong { limit } => {
                self.invalid_response(&format!("more than {limit} bytes"))
            }
            error => {
                let text = format!(
                    "{name} cannot be reached{}",
                    self.format_message_suffix(&error.to_string())
                );
                ToolFailure::new(ErrorCode::Unavailable, text)
            }
        }
    }

    /// Formats a service's message as the suffix of an error message. The suffix is `: ` and the
    /// message without secrets, or empty if the message is empty.
    fn format_message_suffix(&self, message: &str) -> String {
        let mut redacted_message = message.to_owned();
        for secret in &self.secrets {
            if !secret.expose_secret().is_empty() {
                redacted_message = redacted_message.replace(secret.expose_secret(), "***");
            }
        }
        match to_plain_text(&redacted_message, MAX_MESSAGE_CHARS) {
            text if text.is_empty() => text,
            text => format!(": {text}"),
        }
    }
}

/// Returns the configured base URL of a service, or else its public URL.
pub(crate) fn base_url(configured_url: Option<&Url>, public_url: &str) -> Url {
    let parse_public_url = || public_url.parse().expect("the URL is constant");
    configured_url.cloned().unwrap_or_else(parse_public_url)
}

/// Runs all requests of a call within one timeout.
pub(crate) async fn run_with_timeout<T>(
    timeout: Duration,
    name: &str,
    requests: impl Future<Output = Result<T, ToolFailure>>,
) -> Result<T, ToolFailure> {
    let output = pillion_deadline::timeout(timeout, requests).await;
    output.unwrap_or_else(|_| Err(timeout_failure(name, timeout)))
}

fn timeout_failure(name: &str, timeout: Duration) -> ToolFailure {
    let message = format!("{name} did not respond within {:?}s", timeout.as_secs_f64());
    ToolFailure::new(ErrorCode::Timeout, message)
}

/// Returns the URL of a path below a base URL, with a query. The base URL may have a path itself.
fn join_url(base: &Url, path: &str, query: &[(&str, &str)]) -> Url {
    let mut url = base.clone();
    let base_path = base.path().trim_end_matches('/');
    url.set_path(&format!("{base_path}{path}"));
    let pairs = query
        .iter()
        .map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, &QUERY_ESCAPES)));
    url.set_query(Some(&pairs.collect::<Vec<_>>().join("&")));
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d7_a_query_is_encoded_and_a_base_keeps_its_path() {
        let base: Url = "https://search.example/searx/".parse().unwrap();
        let query = [("q", "a&b=c d+é"), ("format", "json")];
        assert_eq!(
            join_url(&base, "/search", &query).as_str(),
            "https://search.example/searx/search?q=a%26b%3Dc%20d%2B%C3%A9&format=json"
        );
    }
}
