use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// The requirements in `WWW-Authenticate` headers (RFC 9110 section 11.6.1, RFC 6750 section 3, RFC
/// 9449 section 7.1, RFC 9728 section 5.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Whether the server accepts tokens of the scheme DPoP.
    pub(super) dpop: bool,
    pub(super) error: Option<String>,
    pub(super) scopes: Vec<String>,
    /// The URL of the protected resource metadata, as the server wrote it.
    pub(super) resource_metadata: Option<String>,
}

/// The challenge of a server that rejected a request, safe to show: contains only the parameters of
/// `WWW-Authenticate` that contain no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationChallenge {
    /// The header's value: schemes with parameters such as `realm`, `error`, `scope` and
    /// `resource_metadata`. Without nonces, other opaque values, free text and URL queries.
    pub header: String,
    /// The scopes that the server requires.
    pub scopes: Vec<String>,
}

impl AuthorizationChallenge {
    pub(crate) fn from_header(header: &str) -> Self {
        /// Maximum length of a parameter, in characters.
        const MAX_PARAMETER_CHARS: usize = 1000;
        const SHOWN_PARAMETERS: [&str; 7] = [
            "realm",
            "error",
            "scope",
            "resource_metadata",
            "algs",
            "algorithm",
            "charset",
        ];
        let schemes = schemes(header);
        let scopes = schemes
            .iter()
            .flat_map(|scheme| &scheme.parameters)
            .filter(|(name, _)| name == "scope")
            .flat_map(|(_, value)| value.split_whitespace());
        let shown = schemes.iter().map(|scheme| {
            let parameters: Vec<String> = scheme
                .parameters
                .iter()
                .filter(|(name, _)| SHOWN_PARAMETERS.contains(&name.as_str()))
                .map(|(name, value)| {
                    let value: String = without_query(value)
                        .chars()
                        .take(MAX_PARAMETER_CHARS)
                        .collect();
                    format!("{name}={value:?}")
                })
                .collect();
            let name = match scheme.name.as_str() {
                "bearer" => "Bearer",
                "dpop" => "DPoP",
                "basic" => "Basic",
                other => other,
            };
            format!("{name} {}", parameters.join(", "))
                .trim_end()
                .to_owned()
        });
        Self {
            scopes: scopes.map(str::to_owned).collect(),
            header: shown.collect::<Vec<_>>().join(", "),
        }
    }
}

/// Returns a URL without its query; other text unchanged.
fn without_query(value: &str) -> &str {
    match value.split_once('?') {
        Some((url, _)) if url.contains("://") => url,
        _ => value,
    }
}

/// One challenge of the header: a scheme with its parameters, whose names are in lower case.
#[derive(Default)]
struct Scheme {
    name: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let header_values = headers.get_all(WWW_AUTHENTICATE).iter();
        let values = header_values.filter_map(|value| value.to_str().ok());
        let schemes: Vec<Scheme> = values.flat_map(schemes).collect();
        let mut challenge = Self {
            dpop: schemes.iter().any(|scheme| scheme.name == "dpop"),
            ..Self::default()
        };
        let ours = |scheme: &&Scheme| matches!(scheme.name.as_str(), "bearer" | "dpop");
        for (name, value) in schemes.iter().filter(ours).flat_map(|s| &s.parameters) {
            match name.as_str() {
                "error" => _ = challenge.error.get_or_insert_with(|| value.clone()),
                "resource_metadata" => {
                    challenge
                        .resource_metadata
                        .get_or_insert_with(|| value.clone());
                }
                "scope" if challenge.scopes.is_empty() => {
                    challenge.scopes = value.split_whitespace().map(str::to_owned).collect();
                }
                _ => {}
            }
        }
        challenge
    }

    /// Returns whether the token is valid but its scopes are insufficient.
    pub(super) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Returns whether the DPoP proof must contain the nonce of the response (RFC 9449 section 9).
    pub(super) fn requires_nonce(&self) -> bool {
        self.error.as_deref() == Some("use_dpop_nonce")
    }
}

/// Parses a header value, skipping everything that is not a challenge.
fn schemes(value: &str) -> Vec<Scheme> {
    let mut schemes: Vec<Scheme> = Vec::new();
    let mut rest = value;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (name, after) = token(rest);
        if name.is_empty() {
            // The text is not a challenge: parsing continues after the next comma.
            match rest.find(',') {
                Some(comma) => rest = &rest[comma..],
                None => return schemes,
            }
            continue;
        }
        let behind = after.trim_start_matches([' ', '\t']);
        if let (Some(text), Some(scheme)) = (behind.strip_prefix('='), schemes.last_mut()) {
            let (text, after) = parameter_value(text.trim_start_matches([' ', '\t']));
            scheme.parameters.push((name.to_ascii_lowercase(), text));
            rest = after;
            continue;
        }
        let name = name.to_ascii_lowercase();
        schemes.push(Scheme {
            name,
            ..Scheme::default()
        });
        rest = skip_token68(behind);
    }
}

/// Splits off a token (RFC 9110 section 5.6.2).
fn token(text: &str) -> (&str, &str) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn parameter_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut escaped = false;
    for (index, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &quoted[index + 1..]),
            _ => value.push(c),
        }
    }
    (value, "")
}

/// Skips the credentials of a challenge in `token68` form, such as `Negotiate dG9rZW4=`.
fn skip_token68(text: &str) -> &str {
    let is_token68 = |c: char| c.is_ascii_alphanumeric() || "-._~+/".contains(c);
    let end = text.find(|c| !is_token68(c)).unwrap_or(text.len());
    let after = text[end..].trim_start_matches('=');
    let ends = after.trim_start_matches([' ', '\t']);
    if end > 0 && (ends.is_empty() || ends.starts_with(',')) {
        return after;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l1_debug_output_of_a_challenge_shows_no_secret() {
        let header = r#"Bearer realm="x", error="invalid_token", error_description="token abc is bad", resource_metadata="https://x.example/meta?token=abc", scope="a b", DPoP algs="ES256", nonce="abc", Negotiate YWJj"#;
        let challenge = AuthorizationChallenge::from_header(header);
        assert_eq!(
            challenge.header,
            r#"Bearer realm="x", error="invalid_token", resource_metadata="https://x.example/meta", scope="a b", DPoP algs="ES256", negotiate"#
        );
        assert_eq!(challenge.scopes, ["a", "b"]);
        assert_eq!(AuthorizationChallenge::from_header("").header, "");
    }

    use proptest::prelude::*;

    fn challenge(values: &[&str]) -> Challenge {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        Challenge::from_headers(&headers)
    }

    #[test]
    fn parameters_are_found_in_any_order_and_quoting() {
        let one = challenge(&[
            r#"Bearer scope="a b", resource_metadata="https://x.example/m", error="insufficient_scope""#,
        ]);
        assert_eq!(one.scopes, ["a", "b"]);
        assert_eq!(
            one.resource_metadata.as_deref(),
            Some("https://x.example/m")
        );
        assert!(one.is_insufficient_scope() && !one.dpop);
        let two = challenge(&[
            "Basic realm=\"scope=evil, Bearer scope=worse\"",
            "Negotiate dG9rZW4=, DPoP error = use_dpop_nonce , scope=\"q\\\"q\"",
        ]);
        assert!(two.dpop && two.requires_nonce());
        assert_eq!(two.scopes, ["q\"q"]);
        assert_eq!(two.resource_metadata, None);
        assert_eq!(challenge(&["Bearer"]), Challenge::default());
        assert_eq!(challenge(&["Bearer, Basic realm=x"]), Challenge::default());
    }

    proptest! {
        #[test]
        fn no_header_makes_the_parser_panic(value in "[ -~]{0,200}") {
            let _ = schemes(&value);
        }
    }
}
