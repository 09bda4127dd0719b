use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pillion_core::tool::ToolFailure;
use serde_json::Value;
use url::{Origin, Url};

use crate::HttpToolError;

/// All characters except those that RFC 3986 calls unreserved.
const ESCAPED_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Percent-encodes all characters of a text that have a meaning in URLs.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED_CHARACTERS).to_string()
}

/// A URL with placeholders for arguments in its path and query: `https://x.example/users/{id}`.
///
/// An argument cannot change the structure of the URL, because arguments are percent-encoded and
/// must not be empty, and a URL is rejected if a parser would normalize its path (`..`).
#[derive(Debug, Clone)]
pub(crate) struct UrlTemplate {
    parts: Vec<TemplatePart>,
    origin: Origin,
    /// The URL with `x` in place of each placeholder.
    sample_url: Url,
}

#[derive(Debug, Clone)]
enum TemplatePart {
    Text(String),
    Argument(String),
}

impl UrlTemplate {
    pub(crate) fn parse(text: &str) -> Result<Self, HttpToolError> {
        let fault = |message: &str| HttpToolError::new("url", message);
        let parts = parse_parts(text).ok_or_else(|| {
            fault(
                "a placeholder must be the name of an argument in braces, as in \
                https://x.example/users/{id}",
            )
        })?;
        let authority_start = text.find("://").map(|start| start + 3);
        let path_start =
            authority_start.and_then(|start| Some(start + text[start..].find(['/', '?'])?));
        if let Some(brace_index) = text.find('{')
            && path_start.is_none_or(|path_start| brace_index < path_start)
        {
            let message = "placeholders for arguments are only allowed after the host";
            return Err(fault(message));
        }
        let sample = join_parts(&parts, |_| Ok::<_, HttpToolError>("x".to_owned()))?;
        let sample_url =
            Url::parse(&sample).map_err(|_| fault("the template is not a valid URL"))?;
        if !sample_url.username().is_empty() || sample_url.password().is_some() {
            let message =
                "the URL contains a user or password: put the credential into 'authentication'";
            return Err(fault(message));
        }
        if sample_url.fragment().is_some() {
            let message =
                "the URL must not have a fragment ('#...'), because a fragment is never sent";
            return Err(fault(message));
        }
        if !is_unchanged(&sample_url, &sample) {
            let message = format!("write the URL in its normalized form: {sample_url}");
            return Err(HttpToolError::new("url", message));
        }
        Ok(Self {
            parts,
            origin: sample_url.origin(),
            sample_url,
        })
    }

    /// Returns the URL with `x` in place of each placeholder.
    pub(crate) fn sample_url(&self) -> &Url {
        &self.sample_url
    }

    /// Returns the names of the placeholders.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Argument(name) => Some(name.as_str()),
            TemplatePart::Text(_) => None,
        })
    }

    /// Fills the placeholders with the given arguments, and returns the URL.
    pub(crate) fn fill(&self, arguments: &Value) -> Result<Url, ToolFailure> {
        let invalid_argument = |name: &str, problem: &str| {
            ToolFailure::invalid_input(format!("The argument '{name}' {problem}"))
        };
        let text = join_parts(&self.parts, |name| {
            let value = match arguments.get(name) {
                Some(Value::String(value)) => value.clone(),
                Some(scalar @ (Value::Number(_) | Value::Bool(_))) => scalar.to_string(),
                None | Some(Value::Null) => return Err(invalid_argument(name, "is missing")),
                Some(_) => {
                    let problem = "must be a string, number or boolean";
                    return Err(invalid_argument(name, problem));
                }
            };
            if value.is_empty() {
                return Err(invalid_argument(name, "is empty"));
            }
            // Encoded dots are rejected, too, because some servers decode a path before they route
            // it.
            let is_dot_segment = |segment: &str| matches!(segment, "." | "..");
            if self.is_in_path(name) && value.split(['/', '\\']).any(is_dot_segment) {
                return Err(invalid_argument(name, "would change the path of the URL"));
            }
            Ok(percent_encode(&value))
        })?;
        let path_error =
            || ToolFailure::invalid_input("An argument would change the path of the URL");
        let url = Url::parse(&text).map_err(|_| path_error())?;
        if url.origin() != self.origin || !is_unchanged(&url, &text) {
            return Err(path_error());
        }
        Ok(url)
    }
}

/// Formats the URL template as declared.
impl fmt::Display for UrlTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            TemplatePart::Text(text) => write!(f, "{text}"),
            TemplatePart::Argument(name) => write!(f, "{{{name}}}"),
        })
    }
}

impl UrlTemplate {
    /// Returns whether a placeholder for the argument occurs before the query.
    fn is_in_path(&self, name: &str) -> bool {
        let is_before_query =
            |part: &&TemplatePart| !matches!(part, TemplatePart::Text(text) if text.contains('?'));
        let mut path_parts = self.parts.iter().take_while(is_before_query);
        path_parts.any(|part| matches!(part, TemplatePart::Argument(argument) if argument == name))
    }
}

fn parse_parts(text: &str) -> Option<Vec<TemplatePart>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open_index) = rest.find('{') {
        let close_index = open_index + rest[open_index..].find('}')?;
        let name = &rest[open_index + 1..close_index];
        let text_before = &rest[..open_index];
        if name.is_empty() || name.contains('{') || text_before.contains('}') {
            return None;
        }
        parts.push(TemplatePart::Text(text_before.to_owned()));
        parts.push(TemplatePart::Argument(name.to_owned()));
        rest = &rest[close_index + 1..];
    }
    parts.push(TemplatePart::Text(rest.to_owned()));
    (!rest.contains('}')).then_some(parts)
}

fn join_parts<E>(
    parts: &[TemplatePart],
    fill: impl Fn(&str) -> Result<String, E>,
) -> Result<String, E> {
    let mut text = String::new();
    for part in parts {
        match part {
            TemplatePart::Text(part) => text += part,
            TemplatePart::Argument(name) => text += &fill(name)?,
        }
    }
    Ok(text)
}

/// Returns whether the URL parser left the path and query of a URL's text unchanged.
fn is_unchanged(url: &Url, text: &str) -> bool {
    let after_scheme = text.split_once("://").map_or("", |(_, rest)| rest);
    let path_start = after_scheme.find(['/', '?']);
    let path_and_query = path_start.map_or("", |path_start| &after_scheme[path_start..]);
    let (path, query) = match path_and_query.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path_and_query, None),
    };
    let is_same_path = url.path() == if path.is_empty() { "/" } else { path };
    is_same_path && url.query() == query
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "what json! makes")]
    fn fill(template: &str, arguments: Value) -> Result<String, String> {
        let template = UrlTemplate::parse(template).map_err(|error| error.to_string())?;
        let filled = template.fill(&arguments);
        filled.map(String::from).map_err(|failure| failure.message)
    }

    #[test]
    fn arguments_stay_in_their_placeholders() {
        const USER: &str = "https://x.example/users/{id}/mail?q={q}";
        let url = |id: Value| fill(USER, json!({"id": id, "q": "a&b=c#d e"}));
        let expected = |id: &str| {
            let query = "a%26b%3Dc%23d%20e";
            Ok(format!("https://x.example/users/{id}/mail?q={query}"))
        };
        assert_eq!(url(json!("7")), expected("7"));
        assert_eq!(url(json!(7)), expected("7"));
        assert_eq!(url(json!("a/b")), expected("a%2Fb"));
        assert_eq!(url(json!("a\\b\r\n")), expected("a%5Cb%0D%0A"));
        assert_eq!(url(json!("@evil.example")), expected("%40evil.example"));
        assert_eq!(url(json!("é")), expected("%C3%A9"));
        let changes = |of: &str| Err(format!("{of} would change the path of the URL"));
        for up in ["..", ".", "../../admin", "a/../b", "a\\..\\b"] {
            assert_eq!(url(json!(up)), changes("The argument 'id'"), "{up}");
        }
        // Dots have no meaning in a query.
        assert_eq!(
            fill(USER, json!({"id": 7, "q": ".."})),
            Ok("https://x.example/users/7/mail?q=..".to_owned())
        );
        // The dots are encoded a second time, which is harmless: a server that decodes once gets
        // the text `%2e%2e`.
        assert_eq!(url(json!("%2e%2e")), expected("%252e%252e"));
        assert_eq!(
            fill("https://x.example/.{b}{c}", json!({"b": "./", "c": "d"})),
            changes("The argument 'b'")
        );
        for (bad, what) in [
            (json!(""), "is empty"),
            (json!(null), "is missing"),
            (json!([1]), "must be a string, number or boolean"),
        ] {
            assert_eq!(url(bad), Err(format!("The argument 'id' {what}")));
        }
    }

    #[test]
    fn a_host_is_never_an_argument() {
        for (bad, what) in [
            ("https://{host}/x", "only allowed after the host"),
            ("{url}", "only allowed after the host"),
            ("https://x.example{rest}", "only allowed after the host"),
            ("https://x.example:{port}/x", "only allowed after the host"),
            ("https://u:p@x.example/", "'authentication'"),
            ("https://x.example/#a", "never sent"),
            ("https://x.example/{", "in braces"),
            ("https://x.example/{}", "in braces"),
            ("https://x.example/a}", "in braces"),
            ("https://x.example/a/../b", "in its normalized form"),
            ("nothing", "not a valid URL"),
        ] {
            let error = UrlTemplate::parse(bad).unwrap_err().to_string();
            assert!(error.contains(what), "{bad}: {error}");
        }
    }

    proptest! {
        #[test]
        fn an_argument_changes_only_its_placeholder(id in "\\PC{1,20}|[./\\\\%@:?#{}]{1,8}", q in ".{1,20}") {
            let template = UrlTemplate::parse("https://x.example:8443/a/{id}/b?q={q}&r=1").unwrap();
            if let Ok(url) = template.fill(&json!({"id": id, "q": q})) {
                prop_assert_eq!(url.host_str(), Some("x.example"));
                prop_assert_eq!(url.port(), Some(8443));
                prop_assert!(url.fragment().is_none() && url.username().is_empty());
                let segments: Vec<_> = url.path_segments().unwrap().collect();
                prop_assert_eq!((segments.len(), segments[0], segments[2]), (3, "a", "b"));
                let decode = |text| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
                prop_assert_eq!(decode(segments[1]), id);
                let query = url.query().unwrap();
                prop_assert_eq!(query.matches('&').count(), 1);
                prop_assert_eq!(decode(query.strip_prefix("q=").unwrap().strip_suffix("&r=1").unwrap()), q);
            } else {
                let mut parts = id.split(['/', '\\']);
                prop_assert!(parts.any(|part| matches!(part, "." | "..")), "{}", id);
            }
        }
    }
}
