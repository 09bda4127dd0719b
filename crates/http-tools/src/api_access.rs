use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue};
use pillion_core::tool::{ErrorCode, ToolFailure};
use pillion_egress::{EgressPolicy, HttpClient, HttpError, LazyHttpClient};
use pillion_mcp_client::{Authentication, Secrets};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;

use crate::{HttpToolError, StatusRange};

/// Minimum length of a secret that is redacted in responses, in bytes. Shorter secrets are not
/// redacted, because the same text often occurs by chance.
const MIN_SECRET_BYTES: usize = 6;

/// Headers that usually contain credentials.
const SECRET_HEADERS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];

/// The egress policy, credential and limits that the tools of one API share.
pub(crate) struct ApiAccess {
    client: LazyHttpClient,
    /// The headers of the credential, which take precedence over a tool's headers.
    credential_headers: HeaderMap,
    /// The secrets that are redacted in responses.
    secrets: Secrets,
    /// The names of the headers whose values are secrets.
    secret_headers: Vec<HeaderName>,
    /// The public parts of the credential, which are its kind, header and user name.
    pub(crate) credential_identity: Value,
    pub(crate) limits: ResponseLimits,
}

/// The timeout and maximum size of a response, and the statuses that count as success.
#[derive(Debug, Clone)]
pub(crate) struct ResponseLimits {
    pub(crate) timeout: Duration,
    pub(crate) max_response_bytes: usize,
    /// The HTTP status codes that count as success.
    pub(crate) success_statuses: Vec<StatusRange>,
}

/// The settings from a tool's or document's declaration that an [`ApiAccess`] is created from.
pub(crate) struct ApiAccessSettings {
    /// The secret headers with their values.
    pub(crate) secrets: Vec<(HeaderName, SecretString)>,
    pub(crate) authentication: Authentication,
    pub(crate) egress: EgressPolicy,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) max_response_bytes: Option<usize>,
    pub(crate) success_statuses: Vec<StatusRange>,
}

impl ApiAccess {
    pub(crate) fn new(settings: ApiAccessSettings) -> Result<Arc<Self>, HttpToolError> {
        let entry_key = "authentication";
        if matches!(settings.authentication, Authentication::OAuth(_)) {
            let message = "HTTP tools do not support oauth: use bearer, api-key or basic";
            return Err(HttpToolError::new(entry_key, message));
        }
        let mut credential_headers = HeaderMap::new();
        let credential_identity = describe_credential(&settings.authentication);
        let (secret_headers, secret_values): (Vec<_>, Vec<_>) =
            settings.secrets.into_iter().unzip();
        if let Some((name, value)) = settings.authentication.header() {
            let message = "the credential has characters that are not allowed in a header";
            let credential_error = || HttpToolError::new(entry_key, message);
            let header_name: HeaderName = name.parse().map_err(|_| credential_error())?;
            let mut header_value = HeaderValue::from_str(&value).map_err(|_| credential_error())?;
            header_value.set_sensitive(true);
            credential_headers.insert(header_name, header_value);
        }
        let secrets = Secrets::new(
            secret_values.iter().map(ExposeSecret::expose_secret),
            &settings.authentication,
            MIN_SECRET_BYTES,
        );
        let timeout_ms = settings.timeout_ms.unwrap_or(30_000);
        if !(1..=3_600_000).contains(&timeout_ms) {
            let message =
                format!("the timeout must be from 1 to 3600000 milliseconds, {timeout_ms} given");
            return Err(HttpToolError::new("timeout_ms", message));
        }
        let max_response_bytes = settings.max_response_bytes.unwrap_or(1024 * 1024);
        let success_statuses = if settings.success_statuses.is_empty() {
            vec![StatusRange::SUCCESS]
        } else {
            settings.success_statuses
        };
        Ok(Arc::new(Self {
            client: LazyHttpClient::new(settings.egress),
            credential_headers,
            secrets,
            secret_headers,
            credential_identity,
            limits: ResponseLimits {
                timeout: Duration::from_millis(timeout_ms),
                max_response_bytes,
                success_statuses,
            },
        }))
    }

    /// Checks under the egress policy whether requests to a URL are allowed, without I/O.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), HttpToolError> {
        let check_result = self.client.policy().check_url(url);
        check_result.map_err(|error| HttpToolError::new("url", error.to_string()))
    }

    /// Returns whether the value of a tool's header is a secret, because the operator declared the
    /// header as secret or because the header usually contains credentials.
    pub(crate) fn is_secret(&self, name: &HeaderName) -> bool {
        self.secret_headers.contains(name) || SECRET_HEADERS.contains(name)
    }

    /// Adds the headers of the credential.
    pub(crate) fn add_credential(&self, headers: &mut HeaderMap) {
        headers.extend(self.credential_headers.clone());
    }

    /// Returns the HTTP client, which is created on first use.
    pub(crate) fn client(&self) -> Result<&HttpClient, ToolFailure> {
        let client = self.client.get();
        client.map_err(|error| create_failure(&error, "", self))
    }

    /// Returns a JSON value in which all secrets are redacted.
    pub(crate) fn redact(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact_text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.redact(item)).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(key, value)| (self.redact_text(key), self.redact(value)))
                .collect(),
            scalar => scalar,
        }
    }

    /// Returns a text in which all secrets are redacted.
    pub(crate) fn redact_text(&self, mut text: String) -> String {
        self.secrets.redact(&mut text);
        text
    }
}

fn describe_credential(authentication: &Authentication) -> Value {
    match authentication {
        Authentication::Bearer { .. } => json!({"type": "bearer"}),
        Authentication::ApiKey { header, .. } => json!({"type": "api-key", "header": header}),
        Authentication::Basic { username, .. } => json!({"type": "basic", "username": username}),
        _ => Value::Null,
    }
}

/// Converts an error of a request to `host` into a tool failure.
pub(crate) fn create_failure(error: &HttpError, host: &str, access: &ApiAccess) -> ToolFailure {
    let (code, message) = match error {
        HttpError::Denied(error) => (ErrorCode::Denied, error.to_string()),
        HttpError::Timeout => {
            let seconds = access.limits.timeout.as_secs_f64();
            let message = format!("'{host}' did not respond within {seconds:?}s");
            (ErrorCode::Timeout, message)
        }
        HttpError::TooLong { limit } => (
            ErrorCode::InternalError,
            format!("The response of '{host}' is longer than {limit} bytes"),
        ),
        _ => (ErrorCode::Unavailable, format!("'{host}': {error}")),
    };
    ToolFailure::new(code, message)
}
