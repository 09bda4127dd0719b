use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue};
use pillion_core::egress::{EgressPolicy, HttpClient, HttpError};
use pillion_core::mcp::Authentication;
use pillion_core::tool::{ErrorCode, ToolFailure};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;

use crate::{HttpToolError, StatusRange};

/// Shorter texts are no secrets that could be found again in an answer.
const SHORTEST_SECRET: usize = 6;

/// Headers that are made for credentials.
const SECRET_HEADERS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];

/// Where requests go out: the policy, the credential and the limits that tools of one API have in
/// common.
pub(crate) struct Door {
    pub(crate) egress: EgressPolicy,
    client: OnceLock<HttpClient>,
    /// The credential; it wins over what a tool says.
    credential: HeaderMap,
    /// What no answer may show.
    secrets: Vec<SecretString>,
    /// The headers whose values are among the secrets.
    secret_headers: Vec<HeaderName>,
    /// What may be told of the credential: its kind, its header, its user.
    pub(crate) identity: Value,
    pub(crate) limits: Limits,
}

/// The limits of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) timeout: Duration,
    pub(crate) max_answer_bytes: usize,
    /// Which statuses are no errors.
    pub(crate) success: Vec<StatusRange>,
}

/// What a declaration says of a door.
pub(crate) struct DoorKeys {
    /// Headers whose values no answer may show, and these.
    pub(crate) secrets: Vec<(HeaderName, SecretString)>,
    pub(crate) authentication: Authentication,
    pub(crate) egress: EgressPolicy,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) max_answer_bytes: Option<usize>,
    pub(crate) success: Vec<StatusRange>,
}

impl Door {
    pub(crate) fn new(keys: DoorKeys) -> Result<Arc<Self>, HttpToolError> {
        let key = "authentication";
        if matches!(keys.authentication, Authentication::OAuth(_)) {
            let what = "HTTP tools have one of bearer, api-key and basic";
            return Err(HttpToolError::new(key, what));
        }
        let mut credential = HeaderMap::new();
        let identity = identity(&keys.authentication);
        let (secret_headers, mut secrets): (Vec<_>, Vec<_>) = keys.secrets.into_iter().unzip();
        if let Some((name, value)) = keys.authentication.header() {
            let wrong = || HttpToolError::new(key, "it has characters that no header has");
            let name: HeaderName = name.parse().map_err(|_| wrong())?;
            let mut header = HeaderValue::from_str(&value).map_err(|_| wrong())?;
            header.set_sensitive(true);
            credential.insert(name, header);
            if let Some(encoded) = value.strip_prefix("Basic ") {
                secrets.push(SecretString::from(encoded));
            }
            secrets.push(SecretString::from(value));
        }
        match keys.authentication {
            Authentication::Bearer { token } => secrets.push(token),
            Authentication::Basic { password, .. } => secrets.push(password),
            _ => {}
        }
        let timeout = keys.timeout_ms.unwrap_or(30_000);
        if !(1..=3_600_000).contains(&timeout) {
            let what = "a timeout is between 1 and 3600000 milliseconds";
            return Err(HttpToolError::new("timeout_ms", what));
        }
        let max_answer_bytes = keys.max_answer_bytes.unwrap_or(1024 * 1024);
        let success = match keys.success.is_empty() {
            true => vec![StatusRange::SUCCESS],
            false => keys.success,
        };
        Ok(Arc::new(Self {
            egress: keys.egress,
            client: OnceLock::new(),
            credential,
            secrets,
            secret_headers,
            identity,
            limits: Limits {
                timeout: Duration::from_millis(timeout),
                max_answer_bytes,
                success,
            },
        }))
    }

    /// Whether a URL may be requested at all, as far as it can tell.
    pub(crate) fn check(&self, url: &Url) -> Result<(), HttpToolError> {
        let checked = self.egress.check_url(url);
        checked.map_err(|error| HttpToolError::new("url", error.to_string()))
    }

    /// Whether the value of a header of a tool is a secret: where its operator says so, and where
    /// such values are.
    pub(crate) fn is_secret(&self, name: &HeaderName) -> bool {
        self.secret_headers.contains(name) || SECRET_HEADERS.contains(name)
    }

    /// Adds the credential.
    pub(crate) fn sign(&self, headers: &mut HeaderMap) {
        headers.extend(self.credential.clone());
    }

    /// The client; the first that needs it makes it.
    pub(crate) fn client(&self) -> Result<&HttpClient, ToolFailure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let made = HttpClient::new(&self.egress).map_err(|error| failure(&error, "", self))?;
        Ok(self.client.get_or_init(|| made))
    }

    /// A value without the credential, wherever it stands in it.
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

    /// A body without the credential, where its server has put it into it.
    pub(crate) fn without_secrets(&self, body: String) -> String {
        let secrets = self.secrets.iter().map(ExposeSecret::expose_secret);
        let secrets = secrets.filter(|secret| secret.len() >= SHORTEST_SECRET);
        secrets.fold(body, |body, secret| match body.contains(secret) {
            true => body.replace(secret, "[redacted]"),
            false => body,
        })
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

/// Why there is no answer of `host`.
pub(crate) fn failure(error: &HttpError, host: &str, door: &Door) -> ToolFailure {
    let (code, message) = match error {
        HttpError::Refused(refusal) => (ErrorCode::Denied, refusal.to_string()),
        HttpError::Timeout => {
            let seconds = door.limits.timeout.as_secs_f64();
            (
                ErrorCode::Timeout,
                format!("'{host}' gave no answer within {seconds:?}s"),
            )
        }
        HttpError::TooLong { limit } => (
            ErrorCode::InternalError,
            format!("The answer of '{host}' is longer than {limit} bytes"),
        ),
        other => (ErrorCode::Unavailable, format!("'{host}': {other}")),
    };
    ToolFailure::new(code, message)
}
