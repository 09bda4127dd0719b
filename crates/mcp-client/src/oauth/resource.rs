use serde::Deserialize;
use url::Url;

use super::OAuthError;
use super::challenge::Challenge;
use super::error::short;
use super::web::Web;

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The metadata of an MCP server as a protected resource (RFC 9728).
#[derive(Debug)]
pub(super) struct ProtectedResource {
    /// The resource identifier, exactly as published (RFC 8707).
    pub(super) identifier: String,
    /// The authorization servers that the metadata name, exactly as published.
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes: Vec<String>,
}

#[derive(Deserialize)]
struct Document {
    resource: Option<String>,
    /// A server of a draft of RFC 9728 names its authorization server in this member.
    authorization_server: Option<String>,
    authorization_servers: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
}

impl ProtectedResource {
    /// Fetches the metadata of an MCP server from the URL in its challenge, or else from its
    /// well-known addresses (MCP 2026-07-28, protected resource metadata discovery). A server
    /// without metadata, as of revision 2025-03-26, becomes a resource that names no authorization
    /// server.
    pub(super) async fn discover(
        web: &Web,
        server: &Url,
        challenge: &Challenge,
    ) -> Result<Self, OAuthError> {
        let header_url = challenge.resource_metadata.as_deref();
        let advertised = header_url.and_then(|url| advertised_url(server, url));
        for url in advertised.into_iter().chain(well_known_urls(server)) {
            let document: Option<Document> = web.get_json(&url).await?;
            let resource = document.map(|document| Self::from_document(server, document));
            if let Some(resource) = resource.transpose()?.flatten() {
                return Ok(resource);
            }
        }
        Ok(Self {
            identifier: server.to_string(),
            authorization_servers: Vec::new(),
            scopes: Vec::new(),
        })
    }

    /// Creates a resource from a document; returns `None` if the document is not metadata of a
    /// protected resource.
    fn from_document(server: &Url, document: Document) -> Result<Option<Self>, OAuthError> {
        let listed = document.authorization_servers.unwrap_or_default();
        let single = document.authorization_server.into_iter();
        let authorization_servers: Vec<String> = single.chain(listed).collect();
        let Some(identifier) = document.resource else {
            if authorization_servers.is_empty() {
                return Ok(None);
            }
            let found = String::new();
            return Err(OAuthError::ForeignResource { found });
        };
        if !is_resource_of(server, &identifier) {
            let found = short(&identifier);
            return Err(OAuthError::ForeignResource { found });
        }
        Ok(Some(Self {
            identifier,
            authorization_servers,
            scopes: document.scopes_supported.unwrap_or_default(),
        }))
    }
}

/// Returns the metadata URL in a challenge, which may be relative. Returns `None` for an
/// unencrypted URL of an encrypted server.
fn advertised_url(server: &Url, url: &str) -> Option<Url> {
    let url = server.join(url.trim()).ok()?;
    let is_downgrade = server.scheme() == "https" && url.scheme() != "https";
    (!is_downgrade).then_some(url)
}

fn well_known_urls(server: &Url) -> Vec<Url> {
    let whole = server.path();
    let path = whole.strip_suffix('/').unwrap_or(whole);
    let at = |path: &str| {
        let mut url = server.clone();
        url.set_path(&format!("{WELL_KNOWN}{path}"));
        url
    };
    let mut urls = vec![at(path)];
    if !path.is_empty() {
        urls.push(at(""));
    }
    urls
}

/// Returns whether a resource identifier includes the server (RFC 9728 section 3.3): the server's
/// URL, or a parent of its path at the same origin, which many servers publish.
fn is_resource_of(server: &Url, identifier: &str) -> bool {
    let Ok(resource) = Url::parse(identifier) else {
        return false;
    };
    let (path, parent) = (server.path(), resource.path());
    let is_same_or_parent = path
        .strip_prefix(parent)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || parent.ends_with('/'));
    resource.origin() == server.origin()
        && resource.origin().is_tuple()
        && resource.username().is_empty()
        && resource.password().is_none()
        && resource.fragment().is_none()
        && is_same_or_parent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_identifier_is_the_server_or_a_parent_of_its_path() {
        let server = Url::parse("https://mcp.example/a/mcp").unwrap();
        for identifier in [
            "https://mcp.example/a/mcp",
            "https://mcp.example/a/mcp?x=1",
            "https://mcp.example/a/",
            "https://mcp.example/a",
            "https://mcp.example",
        ] {
            assert!(is_resource_of(&server, identifier), "{identifier}");
        }
        for identifier in [
            "",
            "mcp.example/a/mcp",
            "http://mcp.example/a/mcp",
            "https://mcp.example:8443/a/mcp",
            "https://other.example/a/mcp",
            "https://mcp.example/a/mcp/b",
            "https://mcp.example/a/m",
            "https://mcp.example/b",
            "https://mcp.example/a/mcp#x",
            "https://user@mcp.example/a/mcp",
            "urn:mcp",
        ] {
            assert!(!is_resource_of(&server, identifier), "{identifier}");
        }
    }

    #[test]
    fn an_advertised_url_is_not_less_protected_than_the_server() {
        let server = Url::parse("https://mcp.example/a/mcp").unwrap();
        let found = |url: &str| advertised_url(&server, url).map(String::from);
        assert_eq!(found("/meta").as_deref(), Some("https://mcp.example/meta"));
        assert_eq!(
            found("https://x.example/m").as_deref(),
            Some("https://x.example/m")
        );
        assert_eq!(found("http://mcp.example/meta"), None);
        assert_eq!(found("data:application/json,{}"), None);
    }
}
