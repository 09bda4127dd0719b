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

/// Minimum length of a secret, in bytes. Masking shorter values would hide too much text.
const MIN_SECRET_BYTES: usize = 4;

/// Minimum length of a header's or variable's value that counts as a secret, in bytes.
const MIN_PROBABLE_SECRET_BYTES: usize = 8;

/// Minimum length of a secret's beginning that is removed from the end of a shortened text, in
/// bytes.
const MIN_CUT_OFF_BYTES: usize = 4;

/// Maximum number of stored notations (see [`Secrets`]) of credentials that were obtained at run
/// time; the oldest notations are removed.
const MAX_SENT_NOTATIONS: usize = 256;

const MASK: &str = "[redacted]";

/// The credentials that a client has, or has sent, in all notations in which a text may repeat
/// them.
#[derive(Default)]
pub struct Secrets {
    configured_credentials: Vec<SecretString>,
    /// The credentials that were obtained at run time, such as access tokens, oldest first.
    sent_credentials: RwLock<Vec<SecretString>>,
}

impl Secrets {
    /// Collects the credentials in `values` and in an authentication, without values shorter than
    /// `min_bytes`.
    pub fn new<'a>(
        values: impl IntoIterator<Item = &'a str>,
        authentication: &Authentication,
        min_bytes: usize,
    ) -> Self {
        let mut secrets = Self::default();
        let credentials = &mut secrets.configured_credentials;
        let mut add = |text: &str| {
            if text.len() >= min_bytes {
                credentials.extend(generate_notations(text));
            }
        };
        values.into_iter().for_each(&mut add);
        match authentication {
            Authentication::Bearer { token } => add(token.expose_secret()),
            Authentication::Basic { password, .. } => add(password.expose_secret()),
            _ => {}
        }
        if let Some((_, value)) = authentication.header() {
            add(strip_scheme(&value));
        }
        // The longest credentials are removed first, because one may contain another.
        credentials.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        secrets
    }

    /// Collects the credentials in the configuration of a server.
    pub(crate) fn for_config(config: &ServerConfig) -> Self {
        let variables = match &config.endpoint {
            Endpoint::Command(command) => collect_variable_values(command),
            Endpoint::Url(_) => Vec::new(),
        };
        let query_pairs = config.url().into_iter().flat_map(Url::query_pairs);
        let query_values: Vec<_> = query_pairs.map(|(_, value)| value).collect();
        let header_values = config.headers.values().map(ExposeSecret::expose_secret);
        let variable_values = variables.iter().map(ExposeSecret::expose_secret);
        // Short values are skipped, because not every header, variable and query parameter is a
        // credential.
        let values = header_values
            .chain(variable_values)
            .chain(query_values.iter().map(|value| &**value))
            .filter(|value| value.len() >= MIN_PROBABLE_SECRET_BYTES);
        Self::new(values, &config.authentication, MIN_SECRET_BYTES)
    }

    /// Creates the secrets of a program's environment: the value of each variable counts as a
    /// credential.
    pub(crate) fn for_environment(command: &StdioCommand) -> Self {
        let variables = collect_variable_values(command);
        let values = variables.iter().map(ExposeSecret::expose_secret);
        Self::new(values, &Authentication::None, MIN_SECRET_BYTES)
    }

    /// Adds a credential that is being sent.
    pub(crate) fn add_sent(&self, text: &str) {
        let is_stored =
            |secrets: &[SecretString]| secrets.iter().any(|secret| secret.expose_secret() == text);
        if text.len() < MIN_SECRET_BYTES || is_stored(&self.sent_credentials.read()) {
            return;
        }
        let mut sent_credentials = self.sent_credentials.write();
        sent_credentials.extend(generate_notations(text));
        let surplus_count = sent_credentials.len().saturating_sub(MAX_SENT_NOTATIONS);
        sent_credentials.drain(..surplus_count);
    }

    /// Adds the credentials in the headers of a request that is being sent.
    pub(crate) fn add_headers(&self, headers: &HeaderMap) {
        let sensitive_values = headers.values().filter(|value| value.is_sensitive());
        for value in sensitive_values.filter_map(|value: &HeaderValue| value.to_str().ok()) {
            let credential = strip_scheme(value);
            self.add_sent(credential);
            // The ID and secret in an HTTP Basic header are also added in decoded form, because
            // OAuth clients percent-encode both (RFC 6749, section 2.3.1).
            let is_basic = value.starts_with("Basic ");
            let decoded = BASE64_STANDARD.decode(credential).ok().filter(|_| is_basic);
            let credentials = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = credentials.as_deref().and_then(|text| text.split_once(':'));
            if let Some((_, secret)) = pair {
                let decoded_pair = form_urlencoded::parse(secret.as_bytes()).next();
                self.add_sent(&decoded_pair.map_or(secret.into(), |(decoded, _)| decoded));
            }
        }
    }

    /// Replaces all credentials in `text` by `[redacted]`.
    pub fn redact(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.redacted(text) {
            *text = redacted;
        }
    }

    /// Returns `text` without credentials. At the end of a [shortened](super::shortened) text, also
    /// removes the beginning of a credential.
    pub(crate) fn redacted<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let sent_credentials = self.sent_credentials.read();
        let secrets = || self.configured_credentials.iter().chain(&*sent_credentials);
        let mut redacted_text = Cow::Borrowed(text);
        for secret in secrets().map(ExposeSecret::expose_secret) {
            if redacted_text.contains(secret) {
                redacted_text = Cow::Owned(redacted_text.replace(secret, MASK));
            }
        }
        if let Some(start) = redacted_text.strip_suffix(SHORTENED_MARK) {
            let secret_texts = secrets().map(ExposeSecret::expose_secret);
            let lengths = secret_texts.filter_map(|secret| find_cut_off_length(start, secret));
            if let Some(cut_off_bytes) = lengths.max() {
                let safe_start = &start[..start.len() - cut_off_bytes];
                redacted_text = Cow::Owned(format!("{safe_start}{MASK}{SHORTENED_MARK}"));
            }
        }
        redacted_text
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Returns the value of a header without its authentication scheme, such as `Bearer`.
fn strip_scheme(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, credential)) if scheme.chars().all(char::is_alphanumeric) => credential,
        _ => value,
    }
}

/// Returns the values of all configured environment variables of a program, and of those inherited
/// variables whose values are not paths.
fn collect_variable_values(command: &StdioCommand) -> Vec<SecretString> {
    let inherited_values = command
        .inherit_env
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .filter(|value| !value.starts_with('/'));
    let configured_values = command.env.values().cloned();
    configured_values
        .chain(inherited_values.map(SecretString::from))
        .collect()
}

/// Returns the notations of a secret in a text: plain, in a query, in a path, in JSON, and in
/// base64.
fn generate_notations(text: &str) -> impl Iterator<Item = SecretString> + use<> {
    let query_notation: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
    let path_notation = query_notation.replace('+', "%20");
    let quoted_json = serde_json::Value::from(text).to_string();
    let json_notation = quoted_json.trim_matches('"');
    let all_notations = [
        text.to_owned(),
        with_lowercase_hex(&query_notation),
        with_lowercase_hex(&path_notation),
        query_notation,
        path_notation,
        json_notation.replace('/', "\\/"),
        json_notation.to_owned(),
        BASE64_STANDARD_NO_PAD.encode(text),
    ];
    let distinct_notations: BTreeSet<_> = all_notations
        .into_iter()
        .filter(|notation| notation.len() >= MIN_SECRET_BYTES)
        .collect();
    distinct_notations.into_iter().map(SecretString::from)
}

/// Returns a percent-encoded text with lower-case hexadecimal digits.
fn with_lowercase_hex(encoded_text: &str) -> String {
    let mut parts = encoded_text.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(part.len().min(2));
        text.extend(["%", &digits.to_ascii_lowercase(), rest]);
    }
    text
}

/// Returns the length of the longest beginning of `secret` with which `text` ends; `None` if that
/// length is less than [`MIN_CUT_OFF_BYTES`].
fn find_cut_off_length(text: &str, secret: &str) -> Option<usize> {
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
        secrets.add_sent("access-token-1");
        let mut headers = HeaderMap::new();
        let mut value = HeaderValue::from_static("DPoP access-token-2");
        value.set_sensitive(true);
        headers.insert("authorization", value);
        headers.insert("accept", HeaderValue::from_static("text/event-stream"));
        secrets.add_headers(&headers);
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
            secrets.add_sent(&format!("token-{number:04}"));
            secrets.add_sent("token-0999");
        }
        assert_eq!(secrets.sent_credentials.read().len(), MAX_SENT_NOTATIONS);
        let error = RpcError::new(-1, "token-0999, token-0000");
        assert_eq!(secrets.redacted(&error.message), "[redacted], token-0000");
    }
}
