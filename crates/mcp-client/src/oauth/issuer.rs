use url::Url;

use super::OAuthError;
use super::error::shorten_to_line;

const OAUTH_PATH: &str = "/.well-known/oauth-authorization-server";
const OPENID_PATH: &str = "/.well-known/openid-configuration";

/// The issuer identifier of an authorization server (RFC 8414 section 2), in normal form.
///
/// Metadata of an authorization server is only ever fetched from the addresses that this type
/// derives from the identifier, so that a document cannot claim another server's identifier.
#[derive(Debug, Clone)]
pub(super) struct Issuer {
    identifier: String,
    url: Url,
}

impl Issuer {
    /// Parses an identifier. The identifier must be a URL that the URL parser does not change
    /// (except for the slash after an origin), because two parsers may read any other URL
    /// differently.
    ///
    /// # Errors
    /// [`OAuthError::InvalidIssuer`] if the identifier is not such a URL.
    pub(super) fn parse(identifier: &str) -> Result<Self, OAuthError> {
        let url = Url::parse(identifier)
            .ok()
            .filter(|url| is_issuer_url(url) && is_normal_form(url, identifier));
        Ok(Self {
            url: url.ok_or_else(|| OAuthError::InvalidIssuer {
                issuer: shorten_to_line(identifier),
            })?,
            identifier: identifier.to_owned(),
        })
    }

    /// Returns the issuer of a server of revision 2025-03-26, which is its own authorization
    /// server.
    ///
    /// # Errors
    /// [`OAuthError::InvalidIssuer`] if the server's origin is opaque.
    pub(super) fn from_origin(server: &Url) -> Result<Self, OAuthError> {
        Self::parse(&server.origin().ascii_serialization())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.identifier
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Returns whether the issuer is the origin of this server, without a path.
    pub(super) fn is_origin_of(&self, server: &Url) -> bool {
        self.url.path() == "/" && self.url.origin() == server.origin()
    }

    /// Returns the addresses of the metadata, in the order of the MCP specification (authorization
    /// server metadata discovery): RFC 8414 section 3.1, OpenID Connect with path insertion, and
    /// OpenID Connect Discovery section 4.
    pub(super) fn build_metadata_urls(&self) -> Vec<Url> {
        let url_path = self.url.path();
        let path = url_path.strip_suffix('/').unwrap_or(url_path);
        let mut paths = vec![
            format!("{OAUTH_PATH}{path}"),
            format!("{OPENID_PATH}{path}"),
        ];
        if !path.is_empty() {
            paths.push(format!("{path}{OPENID_PATH}"));
        }
        let urls = paths.iter().map(|path| {
            let mut url = self.url.clone();
            url.set_path(path);
            url
        });
        urls.collect()
    }
}

fn is_issuer_url(url: &Url) -> bool {
    let is_well_known =
        |segment: &str| segment.to_ascii_lowercase().replace("%2e", ".") == ".well-known";
    matches!(url.scheme(), "https" | "http")
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && !url.path().contains("//")
        && !url.path().split('/').any(is_well_known)
}

fn is_normal_form(url: &Url, text: &str) -> bool {
    url.as_str() == text || url.path() == "/" && url.as_str().strip_suffix('/') == Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(identifier: &str) -> Vec<String> {
        let issuer = Issuer::parse(identifier).unwrap();
        issuer
            .build_metadata_urls()
            .iter()
            .map(Url::to_string)
            .collect()
    }

    #[test]
    fn metadata_is_at_the_well_known_addresses_of_the_issuer() {
        let root = [
            "https://as.example/.well-known/oauth-authorization-server",
            "https://as.example/.well-known/openid-configuration",
        ];
        assert_eq!(urls("https://as.example"), root);
        assert_eq!(urls("https://as.example/"), root);
        let tenant = [
            "https://as.example:8443/.well-known/oauth-authorization-server/a/b",
            "https://as.example:8443/.well-known/openid-configuration/a/b",
            "https://as.example:8443/a/b/.well-known/openid-configuration",
        ];
        assert_eq!(urls("https://as.example:8443/a/b"), tenant);
        assert_eq!(urls("https://as.example:8443/a/b/"), tenant);
    }

    #[test]
    fn an_identifier_that_is_not_in_normal_form_is_rejected() {
        for identifier in [
            "",
            "as.example",
            "/",
            "//as.example",
            "ftp://as.example",
            "https://AS.example",
            "HTTPS://as.example",
            "https://as.example:443",
            "http://127.1:8080",
            "https://as.example/a/../b",
            "https://as.example/%2e%2e/b",
            "https://as.example/./",
            "https://as.example//a",
            "https://as.example/a//",
            "https://as.example?",
            "https://as.example/?a=b",
            "https://as.example#",
            "https://as.example/#a",
            "https://user@as.example",
            "https://:secret@as.example",
            "https://as.example\\@evil.example",
            "https:as.example",
            " https://as.example",
            "https://as.example\n",
            "https://as.\u{200b}example",
            "https://b\u{fc}cher.example",
            "https://as.example/b\u{fc}cher",
            "https://as.example/.well-known/oauth-authorization-server",
            "https://as.example/a/.well-known/openid-configuration",
            "https://as.example/.WELL-KNOWN/a",
            "https://as.example/%2Ewell-known",
        ] {
            let parsed = Issuer::parse(identifier);
            let is_invalid = matches!(parsed, Err(OAuthError::InvalidIssuer { .. }));
            assert!(is_invalid, "{identifier}");
        }
    }

    proptest::proptest! {
        #[test]
        fn metadata_never_leaves_the_origin_of_the_issuer(path in "(/[ -~]{0,12}){0,4}") {
            if let Ok(issuer) = Issuer::parse(&format!("https://as.example{path}")) {
                for url in issuer.build_metadata_urls() {
                    proptest::prop_assert_eq!(url.origin(), issuer.url().origin());
                    proptest::prop_assert!(url.path().contains("/.well-known/o"));
                    proptest::prop_assert!(url.query().is_none() && url.fragment().is_none());
                }
            }
        }
    }
}
