use std::sync::Arc;

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use url::Url;

use super::OAuthError;
use super::challenge::ParsedChallenge;
use super::error::shorten_to_line;
use super::web::WebClient;
use crate::secrets::Secrets;
use crate::{McpErrorKind, ServerConfig};

const WELL_KNOWN_PATH: &str = "/.well-known/oauth-protected-resource";

/// The metadata of an MCP server as a protected resource (RFC 9728).
#[derive(Debug)]
pub(super) struct ProtectedResource {
    /// The resource identifier, exactly as published (RFC 8707).
    pub(super) identifier: String,
    /// The authorization servers that the metadata names, exactly as published.
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes: Vec<String>,
}

#[derive(Deserialize)]
struct ResourceDocument {
    resource: Option<String>,
    /// Servers that implement a draft of RFC 9728 name their authorization server in this member.
    authorization_server: Option<String>,
    authorization_servers: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
}

impl ProtectedResource {
    /// Fetches the metadata of an MCP server from the URL in its challenge, or else from its
    /// well-known addresses (MCP 2026-07-28, protected resource metadata discovery). A server
    /// without metadata, such as a server of revision 2025-03-26, becomes a resource that names no
    /// authorization server.
    pub(super) async fn discover(
        web_client: &WebClient,
        server: &Url,
        challenge: &ParsedChallenge,
    ) -> Result<Self, OAuthError> {
        let header_url = challenge.resource_metadata.as_deref();
        let resolved_url = header_url.and_then(|url| resolve_advertised_url(server, url));
        let urls = resolved_url
            .into_iter()
            .chain(build_well_known_urls(server));
        for url in urls {
            let document: Option<ResourceDocument> = web_client.get_json(&url).await?;
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
    fn from_document(server: &Url, document: ResourceDocument) -> Result<Option<Self>, OAuthError> {
        let listed_servers = document.authorization_servers.unwrap_or_default();
        let draft_server = document.authorization_server.into_iter();
        let authorization_servers: Vec<String> = draft_server.chain(listed_servers).collect();
        let Some(identifier) = document.resource else {
            if authorization_servers.is_empty() {
                return Ok(None);
            }
            let found_resource = String::new();
            return Err(OAuthError::ForeignResource { found_resource });
        };
        if !is_resource_of(server, &identifier) {
            let found_resource = shorten_to_line(&identifier);
            return Err(OAuthError::ForeignResource { found_resource });
        }
        Ok(Some(Self {
            identifier,
            authorization_servers,
            scopes: document.scopes_supported.unwrap_or_default(),
        }))
    }
}

/// Returns the authorization servers that the metadata of an MCP server names; empty if the server
/// has no metadata. Sends no credential. `challenge` is the header `WWW-Authenticate` of a
/// response.
///
/// # Errors
/// The metadata cannot be fetched, or describes another resource.
pub(crate) async fn find_authorization_servers(
    config: &ServerConfig,
    secrets: &Arc<Secrets>,
    challenge: Option<&str>,
) -> Result<Vec<String>, McpErrorKind> {
    let mut server = config.request_url()?;
    server.set_query(None);
    server.set_fragment(None);
    let web_client =
        WebClient::new(&config.egress, &server, secrets).map_err(McpErrorKind::Setup)?;
    let mut headers = HeaderMap::new();
    let header_value = challenge.and_then(|text| HeaderValue::from_str(text).ok());
    headers.extend(header_value.map(|value| (WWW_AUTHENTICATE, value)));
    let parsed_challenge = ParsedChallenge::from_headers(&headers);
    let discovery = ProtectedResource::discover(&web_client, &server, &parsed_challenge);
    let resource = discovery
        .await
        .map_err(|error| McpErrorKind::Authorization(Arc::new(error)))?;
    Ok(resource.authorization_servers)
}

/// Returns the metadata URL in a challenge, resolved against the MCP server's URL. Returns `None`
/// if the MCP server uses `https`, but the metadata URL does not.
fn resolve_advertised_url(server: &Url, url: &str) -> Option<Url> {
    let resolved_url = server.join(url.trim()).ok()?;
    let is_downgrade = server.scheme() == "https" && resolved_url.scheme() != "https";
    (!is_downgrade).then_some(resolved_url)
}

fn build_well_known_urls(server: &Url) -> Vec<Url> {
    let server_path = server.path();
    let path = server_path.strip_suffix('/').unwrap_or(server_path);
    let url_for_path = |path: &str| {
        let mut url = server.clone();
        url.set_path(&format!("{WELL_KNOWN_PATH}{path}"));
        url
    };
    let mut urls = vec![url_for_path(path)];
    if !path.is_empty() {
        urls.push(url_for_path(""));
    }
    urls
}

/// Returns whether a resource identifier includes the server (RFC 9728 section 3.3). The identifier
/// must be the server's URL or, as many servers publish, a parent of that URL at the same origin.
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
        let found = |url: &str| resolve_advertised_url(&server, url).map(String::from);
        assert_eq!(found("/meta").as_deref(), Some("https://mcp.example/meta"));
        let other = found("https://x.example/m");
        assert_eq!(other.as_deref(), Some("https://x.example/m"));
        assert_eq!(found("http://mcp.example/meta"), None);
        assert_eq!(found("data:application/json,{}"), None);
    }
}
