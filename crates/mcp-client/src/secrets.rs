//! The credentials of one client, and their removal from errors and logs that repeat a server's
//! text.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use http::{HeaderMap, HeaderValue};
use parking_lot::RwLock;
use secrecy::{ExposeSecret, SecretString};
use url::{Url, form_urlencoded};

use super::peer_text::SHORTENED_MARK;
use super::{Authentication, Endpoint, ServerConfig, StdioCommand};

/// Minimum length of a secret, in bytes: masking shorter values would hide too much.
const MIN_SECRET_BYTES: usize = 4;

/// Minimum length of a header's or variable's value that counts as a secret, in bytes.
const MIN_PROBABLE_SECRET_BYTES: usize = 8;

/// Minimum length of a secret's beginning that is removed from the end of a shortened text, in
/// bytes.
const MIN_CUT_OFF_BYTES: usize = 4;

/// Maximum number of notations of credentials obtained at run time; older notations are forgotten.
const MAX_SENT: usize = 256;

const MASK: &str = "[redacted]";

/// The credentials that a client has, or has sent, in all notations in which a text may repeat
/// them.
#[derive(Default)]
pub struct Secrets {
    configured: Vec<SecretString>,
    /// The credentials that were obtained at run time, such as access tokens, oldest first.
    sent: RwLock<Vec<SecretString>>,
}

impl Secrets {
    /// Returns the credentials in `values` and in an authentication, without values shorter than
    /// `min_bytes`.
    pub fn new<'a>(
        values: impl IntoIterator<Item = &'a str>,
        authentication: &Authentication,
        min_bytes: usize,
    ) -> Self {
        let mut secrets = Self::default();
        let mut add = |text: &str| {
            if text.len() >= min_bytes {
                secrets.configured.extend(forms(text));
            }
        };
        values.into_iter().for_each(&mut add);
        match authentication {
            Authentication::Bearer { token } => add(token.expose_secret()),
            Authentication::Basic { password, .. } => add(password.expose_secret()),
            _ => {}
        }
        if let Some((_, value)) = authentication.header() {
            add(credential_of(&value));
        }
        // The longest credentials are removed first, because one may contain another.
        let configured = &mut secrets.configured;
        configured.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        secrets
    }

    /// Returns the credentials of a configuration.
    pub(crate) fn for_config(config: &ServerConfig) -> Self {
        let variables = match &config.endpoint {
            Endpoint::Command(command) => values_of_variables(command),
            Endpoint::Url(_) => Vec::new(),
        };
        let pairs = config.url().into_iter().flat_map(Url::query_pairs);
        let query: Vec<_> = pairs.map(|(_, value)| value).collect();
        let headers = config.headers.values().map(ExposeSecret::expose_secret);
        let variables = variables.iter().map(ExposeSecret::expose_secret);
        // Not every header, variable and parameter is a credential.
        let values = headers
            .chain(variables)
            .chain(query.iter().map(|value| &**value))
            .filter(|value| value.len() >= MIN_PROBABLE_SECRET_BYTES);
        Self::new(values, &config.authentication, MIN_SECRET_BYTES)
    }

    /// Returns the credentials that may be in the environment of a program.
    pub(crate) fn for_environment(command: &StdioCommand) -> Self {
        let variables = values_of_variables(command);
        let values = variables.iter().map(ExposeSecret::expose_secret);
        Self::new(values, &Authentication::None, MIN_SECRET_BYTES)
    }

    /// Adds a credential that is being sent.
    pub(crate) fn note(&self, text: &str) {
        let is_known =
            |secrets: &[SecretString]| secrets.iter().any(|secret| secret.expose_secret() == text);
        if text.len() < MIN_SECRET_BYTES || is_known(&self.sent.read()) {
            return;
        }
        let mut sent = self.sent.write();
        sent.extend(forms(text));
        let surplus = sent.len().saturating_sub(MAX_SENT);
        sent.drain(..surplus);
    }

    /// Adds the credentials in the headers of a request that is being sent.
    pub(crate) fn note_headers(&self, headers: &HeaderMap) {
        let sensitive = headers.values().filter(|value| value.is_sensitive());
        for value in sensitive.filter_map(|value: &HeaderValue| value.to_str().ok()) {
            let credential = credential_of(value);
            self.note(credential);
            // HTTP Basic contains the id and secret of an OAuth client, each percent-encoded (RFC
            // 6749, section 2.3.1).
            let pair = value
                .starts_with("Basic ")
                .then(|| BASE64_STANDARD.decode(credential))
                .and_then(Result::ok)
                .and_then(|pair| String::from_utf8(pair).ok());
            if let Some((_, secret)) = pair.as_deref().and_then(|pair| pair.split_once(':')) {
                let decoded = form_urlencoded::parse(secret.as_bytes()).next();
                self.note(&decoded.map_or(secret.into(), |(decoded, _)| decoded));
            }
        }
    }

    /// Removes credentials from a text.
    pub fn redact(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.redacted(text) {
            *text = redacted;
        }
    }

    /// Returns `text` without credentials. At the end of a [shortened](super::shortened) text, also
    /// removes the beginning of a credential.
    pub(crate) fn redacted<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let sent = self.sent.read();
        let secrets = || self.configured.iter().chain(&*sent);
        let mut redacted = Cow::Borrowed(text);
        for secret in secrets().map(ExposeSecret::expose_secret) {
            if redacted.contains(secret) {
                redacted = Cow::Owned(redacted.replace(secret, MASK));
            }
        }
        if let Some(start) = redacted.strip_suffix(SHORTENED_MARK) {
            let secrets = secrets().map(ExposeSecret::expose_secret);
            if let Some(cut_off) = secrets.filter_map(|secret| cut_off(start, secret)).max() {
                let start = &start[..start.len() - cut_off];
                redacted = Cow::Owned(format!("{start}{MASK}{SHORTENED_MARK}"));
            }
        }
        redacted
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Returns the value of a header without its authentication scheme, such as `Bearer`.
fn credential_of(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, credential)) if scheme.chars().all(char::is_alphanumeric) => credential,
        _ => value,
    }
}

/// Returns the values of the variables that a program gets: all configured ones, and the inherited
/// ones that are not paths.
fn values_of_variables(command: &StdioCommand) -> Vec<SecretString> {
    let inherited = command
        .inherit_env
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .filter(|value| !value.starts_with('/'));
    let configured = command.env.values().cloned();
    configured
        .chain(inherited.map(SecretString::from))
        .collect()
}

/// Returns the notations of a secret in a text: plain, in a query, in a path, in JSON, and in
/// base64.
fn forms(text: &str) -> impl Iterator<Item = SecretString> + use<> {
    let in_query: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
    let in_path = in_query.replace('+', "%20");
    let quoted = serde_json::Value::from(text).to_string();
    let in_json = quoted.trim_matches('"');
    let notations = [
        text.to_owned(),
        with_small_hex(&in_query),
        with_small_hex(&in_path),
        in_query,
        in_path,
        in_json.replace('/', "\\/"),
        in_json.to_owned(),
        BASE64_STANDARD_NO_PAD.encode(text),
    ];
    let distinct: BTreeSet<_> = notations
        .into_iter()
        .filter(|form| form.len() >= MIN_SECRET_BYTES)
        .collect();
    distinct.into_iter().map(SecretString::from)
}

/// Returns a percent-encoded text with lower-case hexadecimal digits.
fn with_small_hex(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(part.len().min(2));
        text.extend(["%", &digits.to_ascii_lowercase(), rest]);
    }
    text
}

/// Returns the length of the beginning of `secret` at the end of `text`, if it has at least
/// [`MIN_CUT_OFF_BYTES`].
fn cut_off(text: &str, secret: &str) -> Option<usize> {
    let lengths = MIN_CUT_OFF_BYTES..secret.len();
    lengths
        .rev()
        .find(|&length| text.as_bytes().ends_with(&secret.as_bytes()[..length]))
        .filter(|&length| text.is_char_boundary(text.len() - length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RpcError, shortened};

    fn secrets() -> Secrets {
        let mut config = ServerConfig::new("x", "https://mcp.example/").unwrap();
        config.authentication = Authentication::Basic {
            username: "u".to_owned(),
            password: SecretString::from("P4ss/word+1"),
        };
        let secrets = Secrets::for_config(&config);
        secrets.note("access-token-1");
        let mut headers = HeaderMap::new();
        let mut value = HeaderValue::from_static("DPoP access-token-2");
        value.set_sensitive(true);
        headers.insert("authorization", value);
        headers.insert("accept", HeaderValue::from_static("text/event-stream"));
        secrets.note_headers(&headers);
        secrets
    }

    #[test]
    fn l1_credentials_are_removed_in_every_notation() {
        let secrets = secrets();
        let text = "401 for Basic dTpQNHNzL3dvcmQrMQ== (P4ss/word+1, token=P4ss%2Fword%2B1, \
             P4ss%2fword%2b1, P4ss\\/word+1, UDRzcy93b3JkKzE=), access-token-1, DPoP access-token-2, text/event-stream";
        assert_eq!(
            secrets.redacted(text),
            "401 for Basic [redacted] ([redacted], token=[redacted], \
             [redacted], [redacted], [redacted]=), [redacted], DPoP [redacted], \
             text/event-stream"
        );
        assert!(matches!(secrets.redacted("no access"), Cow::Borrowed(_)));
    }

    #[test]
    fn l1_no_beginning_of_a_credential_remains_at_the_end_of_a_shortened_text() {
        let secrets = secrets();
        for padding in 0..200 {
            let text = format!("{}access-token-1{}", "y".repeat(padding), "z".repeat(200));
            let short = shortened(&text, 120);
            let shown = secrets.redacted(&short);
            assert!(!shown.contains("acce"), "{shown}");
        }
    }

    #[test]
    fn the_number_of_noted_credentials_is_limited() {
        let secrets = secrets();
        for number in 0..1_000 {
            secrets.note(&format!("token-{number:04}"));
            secrets.note("token-0999");
        }
        assert_eq!(secrets.sent.read().len(), MAX_SENT);
        let error = RpcError::new(-1, "token-0999, token-0000");
        assert_eq!(secrets.redacted(&error.message), "[redacted], token-0000");
    }
}
