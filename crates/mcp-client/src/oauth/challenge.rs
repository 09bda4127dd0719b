use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// The challenges in the `WWW-Authenticate` headers of a response, combined (RFC 9110 section
/// 11.6.1, RFC 6750 section 3, RFC 9449 section 7.1, RFC 9728 section 5.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ParsedChallenge {
    /// Whether the server accepts tokens of the scheme DPoP.
    pub(super) allows_dpop: bool,
    pub(super) error: Option<String>,
    pub(super) scopes: Vec<String>,
    /// The URL of the protected resource metadata, as the server wrote it.
    pub(super) resource_metadata: Option<String>,
}

/// The challenge of a server that rejected a request. Safe to show, because it contains only those
/// parameters of `WWW-Authenticate` that contain no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationChallenge {
    /// The authentication schemes in `WWW-Authenticate`, with parameters such as `realm`, `error`,
    /// `scope` and `resource_metadata`, but without nonces, other opaque values, free text and URL
    /// queries.
    pub header: String,
    /// The scopes that the server requires.
    pub scopes: Vec<String>,
}

impl AuthorizationChallenge {
    pub(crate) fn from_header(header: &str) -> Self {
        /// Maximum length of a parameter, in characters.
        const MAX_CHARS: usize = 1000;
        const SHOWN_PARAMETERS: [&str; 7] = [
            "realm",
            "error",
            "scope",
            "resource_metadata",
            "algs",
            "algorithm",
            "charset",
        ];
        let schemes = parse_schemes(header);
        let scopes = schemes
            .iter()
            .flat_map(|scheme| &scheme.parameters)
            .filter(|(name, _)| name == "scope")
            .flat_map(|(_, value)| value.split_whitespace());
        let shown_schemes = schemes.iter().map(|scheme| {
            let parameters: Vec<String> = scheme
                .parameters
                .iter()
                .filter(|(name, _)| SHOWN_PARAMETERS.contains(&name.as_str()))
                .map(|(name, value)| {
                    let shown_value: String =
                        without_query(value).chars().take(MAX_CHARS).collect();
                    format!("{name}={shown_value:?}")
                })
                .collect();
            let name = match scheme.name.as_str() {
                "bearer" => "Bearer",
                "dpop" => "DPoP",
                "basic" => "Basic",
                name => name,
            };
            let text = format!("{name} {}", parameters.join(", "));
            text.trim_end().to_owned()
        });
        Self {
            scopes: scopes.map(str::to_owned).collect(),
            header: shown_schemes.collect::<Vec<_>>().join(", "),
        }
    }
}

/// Returns a URL without its query, and any other text unchanged.
fn without_query(value: &str) -> &str {
    match value.split_once('?') {
        Some((url, _)) if url.contains("://") => url,
        _ => value,
    }
}

/// One challenge in a `WWW-Authenticate` header: a scheme with its parameters, whose names are in
/// lower case.
#[derive(Default)]
struct ChallengeScheme {
    name: String,
    parameters: Vec<(String, String)>,
}

impl ParsedChallenge {
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let header_values = headers.get_all(WWW_AUTHENTICATE).iter();
        let values = header_values.filter_map(|value| value.to_str().ok());
        let schemes: Vec<ChallengeScheme> = values.flat_map(parse_schemes).collect();
        let mut challenge = Self {
            allows_dpop: schemes.iter().any(|scheme| scheme.name == "dpop"),
            ..Self::default()
        };
        let is_token_scheme =
            |scheme: &&ChallengeScheme| matches!(scheme.name.as_str(), "bearer" | "dpop");
        let token_schemes = schemes.iter().filter(is_token_scheme);
        for (name, value) in token_schemes.flat_map(|scheme| &scheme.parameters) {
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
fn parse_schemes(value: &str) -> Vec<ChallengeScheme> {
    let mut schemes: Vec<ChallengeScheme> = Vec::new();
    let mut rest = value;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (name, after_name) = split_token(rest);
        if name.is_empty() {
            // The text is not a challenge, so parsing continues after the next comma.
            match rest.find(',') {
                Some(comma) => rest = &rest[comma..],
                None => return schemes,
            }
            continue;
        }
        let next_text = after_name.trim_start_matches([' ', '\t']);
        if let (Some(text), Some(scheme)) = (next_text.strip_prefix('='), schemes.last_mut()) {
            let (parameter, after_parameter) =
                parse_parameter_value(text.trim_start_matches([' ', '\t']));
            scheme
                .parameters
                .push((name.to_ascii_lowercase(), parameter));
            rest = after_parameter;
            continue;
        }
        schemes.push(ChallengeScheme {
            name: name.to_ascii_lowercase(),
            ..ChallengeScheme::default()
        });
        rest = skip_token68(next_text);
    }
}

/// Splits a text after the token (RFC 9110 section 5.6.2) with which it begins.
fn split_token(text: &str) -> (&str, &str) {
    let ends_token = |character: char| {
        !character.is_ascii_alphanumeric() && !"!#$%&'*+-.^_`|~".contains(character)
    };
    text.split_at(text.find(ends_token).unwrap_or(text.len()))
}

/// Parses the parameter value with which `text` begins. Returns the value and the rest of the text.
fn parse_parameter_value(text: &str) -> (String, &str) {
    let Some(quoted_text) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut is_escaped = false;
    for (index, character) in quoted_text.char_indices() {
        match character {
            _ if is_escaped => {
                value.push(character);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => return (value, &quoted_text[index + 1..]),
            _ => value.push(character),
        }
    }
    (value, "")
}

/// Skips the `token68` value of a challenge, such as `dG9rZW4=` in `Negotiate dG9rZW4=`.
fn skip_token68(text: &str) -> &str {
    let ends_token =
        |character: char| !character.is_ascii_alphanumeric() && !"-._~+/".contains(character);
    let end = text.find(ends_token).unwrap_or(text.len());
    let after_token = text[end..].trim_start_matches('=');
    let next_text = after_token.trim_start_matches([' ', '\t']);
    if end > 0 && (next_text.is_empty() || next_text.starts_with(',')) {
        return after_token;
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

    fn challenge(values: &[&str]) -> ParsedChallenge {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        ParsedChallenge::from_headers(&headers)
    }

    #[test]
    fn parameters_are_found_in_any_order_and_quoting() {
        let one = challenge(&[
            r#"Bearer scope="a b", resource_metadata="https://x.example/m", error="insufficient_scope""#,
        ]);
        assert_eq!(one.scopes, ["a", "b"]);
        let url = one.resource_metadata.as_deref();
        assert_eq!(url, Some("https://x.example/m"));
        assert!(one.is_insufficient_scope() && !one.allows_dpop);
        let two = challenge(&[
            "Basic realm=\"scope=evil, Bearer scope=worse\"",
            "Negotiate dG9rZW4=, DPoP error = use_dpop_nonce , scope=\"q\\\"q\"",
        ]);
        assert!(two.allows_dpop && two.requires_nonce());
        assert_eq!(two.scopes, ["q\"q"]);
        assert_eq!(two.resource_metadata, None);
        for value in ["Bearer", "Bearer, Basic realm=x"] {
            assert_eq!(challenge(&[value]), ParsedChallenge::default());
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_the_parser_panic(value in "[ -~]{0,200}") {
            let _ = parse_schemes(&value);
        }
    }
}
