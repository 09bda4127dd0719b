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

/// Minimum length of a secret that is redacted in responses, in bytes; shorter texts occur by
/// chance.
const MIN_SECRET_LEN: usize = 6;

/// Headers that usually contain credentials.
const SECRET_HEADERS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];

/// The egress policy, credential and limits that the tools of one API share.
pub(crate) struct ApiAccess {
    client: LazyHttpClient,
    /// The headers of the credential, which take precedence over a tool's headers.
    credential: HeaderMap,
    /// The secrets that are redacted in responses.
    secrets: Secrets,
    /// The names of the headers whose values are secrets.
    secret_headers: Vec<HeaderName>,
    /// The public part of the credential: kind, header and user name.
    pub(crate) identity: Value,
    pub(crate) limits: ResponseLimits,
}

/// The timeout and maximum size of a response, and the statuses that count as success.
#[derive(Debug, Clone)]
pub(crate) struct ResponseLimits {
    pub(crate) timeout: Duration,
    pub(crate) max_answer_bytes: usize,
    /// The statuses that count as success.
    pub(crate) success: Vec<StatusRange>,
}

/// The part of a declaration that an [`ApiAccess`] is created from.
pub(crate) struct ApiAccessSettings {
    /// The secret headers with their values.
    pub(crate) secrets: Vec<(HeaderName, SecretString)>,
    pub(crate) authentication: Authentication,
    pub(crate) egress: EgressPolicy,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) max_answer_bytes: Option<usize>,
    pub(crate) success: Vec<StatusRange>,
}

impl ApiAccess {
    pub(crate) fn new(settings: ApiAccessSettings) -> Result<Arc<Self>, HttpToolError> {
        let key = "authentication";
        if matches!(settings.authentication, Authentication::OAuth(_)) {
            let what = "HTTP tools support only bearer, api-key and basic";
            return Err(HttpToolError::new(key, what));
        }
        let mut credential = HeaderMap::new();
        let identity = identity(&settings.authentication);
        let (secret_headers, secret_values): (Vec<_>, Vec<_>) =
            settings.secrets.into_iter().unzip();
        if let Some((name, value)) = settings.authentication.header() {
            let wrong = || {
                HttpToolError::new(
                    key,
                    "the credential has characters that are not allowed in a header",
                )
            };
            let name: HeaderName = name.parse().map_err(|_| wrong())?;
            let mut header = HeaderValue::from_str(&value).map_err(|_| wrong())?;
            header.set_sensitive(true);
            credential.insert(name, header);
        }
        let secrets = Secrets::new(
            secret_values.iter().map(ExposeSecret::expose_secret),
            &settings.authentication,
            MIN_SECRET_LEN,
        );
        let timeout = settings.timeout_ms.unwrap_or(30_000);
        if !(1..=3_600_000).contains(&timeout) {
            let what = "the timeout must be from 1 to 3600000 milliseconds";
            return Err(HttpToolError::new("timeout_ms", what));
        }
        let max_answer_bytes = settings.max_answer_bytes.unwrap_or(1024 * 1024);
        let success = if settings.success.is_empty() {
            vec![StatusRange::SUCCESS]
        } else {
            settings.success
        };
        Ok(Arc::new(Self {
            client: LazyHttpClient::new(settings.egress),
            credential,
            secrets,
            secret_headers,
            identity,
            limits: ResponseLimits {
                timeout: Duration::from_millis(timeout),
                max_answer_bytes,
                success,
            },
        }))
    }

    /// Checks under the egress policy whether requests to a URL are allowed, without I/O.
    pub(crate) fn check(&self, url: &Url) -> Result<(), HttpToolError> {
        let checked = self.client.policy().check_url(url);
        checked.map_err(|error| HttpToolError::new("url", error.to_string()))
    }

    /// Returns whether the value of a tool's header is a secret: the operator declared the header
    /// as secret, or the header usually contains credentials.
    pub(crate) fn is_secret(&self, name: &HeaderName) -> bool {
        self.secret_headers.contains(name) || SECRET_HEADERS.contains(name)
    }

    /// Adds the headers of the credential.
    pub(crate) fn add_credential(&self, headers: &mut HeaderMap) {
        headers.extend(self.credential.clone());
    }

    /// Returns the HTTP client, which is created on first use.
    pub(crate) fn client(&self) -> Result<&HttpClient, ToolFailure> {
        let client = self.client.get();
        client.map_err(|error| failure(&error, "", self))
    }

    /// Returns a JSON value in which all secrets are redacted.
    pub(crate) fn redacted(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.without_secrets(text)),
            Value::Array(items) => items.into_iter().map(|item| self.redacted(item)).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(key, value)| (self.without_secrets(key), self.redacted(value)))
                .collect(),
            other => other,
        }
    }

    /// Returns a text in which all secrets are redacted.
    pub(crate) fn without_secrets(&self, mut text: String) -> String {
        self.secrets.redact(&mut text);
        text
    }
}

fn identity(authentication: &Authentication) -> Value {
    match authentication {
        Authentication::Bearer { .. } => json!({"type": "bearer"}),
        Authentication::ApiKey { header, .. } => json!({"type": "api-key", "header": header}),
        Authentication::Basic { username, .. } => json!({"type": "basic", "username": username}),
        _ => Value::Null,
    }
}

/// Converts the error of a request to `host` to the failure of a tool.
pub(crate) fn failure(error: &HttpError, host: &str, access: &ApiAccess) -> ToolFailure {
    let (code, message) = match error {
        HttpError::Denied(error) => (ErrorCode::Denied, error.to_string()),
        HttpError::Timeout => {
            let seconds = access.limits.timeout.as_secs_f64();
            (
                ErrorCode::Timeout,
                format!("'{host}' did not respond within {seconds:?}s"),
            )
        }
        HttpError::TooLong { limit } => (
            ErrorCode::InternalError,
            format!("The response of '{host}' is longer than {limit} bytes"),
        ),
        other => (ErrorCode::Unavailable, format!("'{host}': {other}")),
    };
    ToolFailure::new(code, message)
}
