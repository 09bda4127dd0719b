use rmcp::transport::auth::AuthorizationMetadata;
use serde::Deserialize;
use url::Url;

use super::OAuthError;
use super::issuer::Issuer;
use super::web::WebClient;

/// The metadata of an authorization server (RFC 8414 section 2), reduced to the members that the
/// client uses.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ServerMetadata {
    pub(super) issuer: Option<String>,
    pub(super) token_endpoint: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
    pub(super) client_id_metadata_document_supported: Option<bool>,
    pub(super) authorization_response_iss_parameter_supported: Option<bool>,
}

impl ServerMetadata {
    /// Fetches the metadata from the issuer's own addresses; `None` if the issuer publishes none.
    ///
    /// # Errors
    /// [`OAuthError::IssuerMismatch`] if a document names an issuer other than those in
    /// `accepted_issuers`; an error of [`check_endpoint`] if an endpoint is not allowed.
    pub(super) async fn fetch(
        web_client: &WebClient,
        issuer: &Issuer,
        accepted_issuers: &[&str],
    ) -> Result<Option<Self>, OAuthError> {
        for url in issuer.build_metadata_urls() {
            let Some(metadata) = web_client.get_json::<Self>(&url).await? else {
                continue;
            };
            let named_issuer = metadata.issuer.as_deref();
            if !named_issuer.is_some_and(|issuer| accepted_issuers.contains(&issuer)) {
                return Err(OAuthError::IssuerMismatch {
                    expected_issuer: issuer.as_str().to_owned(),
                    found_issuer: super::error::shorten_to_line(named_issuer.unwrap_or_default()),
                });
            }
            metadata.check_endpoints(web_client, issuer)?;
            return Ok(Some(metadata));
        }
        Ok(None)
    }

    /// Returns the default endpoints at the origin of a server without metadata (MCP 2025-03-26,
    /// fallbacks for servers without metadata discovery).
    pub(super) fn for_unpublished(issuer: &Issuer) -> Self {
        let endpoint = |path: &str| {
            let mut url = issuer.url().clone();
            url.set_path(path);
            String::from(url)
        };
        Self {
            issuer: Some(issuer.as_str().to_owned()),
            token_endpoint: endpoint("/token"),
            authorization_endpoint: Some(endpoint("/authorize")),
            registration_endpoint: Some(endpoint("/register")),
            ..Self::default()
        }
    }

    /// Checks the endpoints in the metadata. An endpoint may have another origin than the issuer,
    /// as at some large providers, because the metadata comes from the issuer itself.
    fn check_endpoints(&self, web_client: &WebClient, issuer: &Issuer) -> Result<(), OAuthError> {
        check_endpoint(web_client, issuer, "token_endpoint", &self.token_endpoint)?;
        for (name, url) in [
            ("authorization_endpoint", &self.authorization_endpoint),
            ("registration_endpoint", &self.registration_endpoint),
        ] {
            if let Some(url) = url {
                check_endpoint(web_client, issuer, name, url)?;
            }
        }
        Ok(())
    }

    /// Returns whether the server announces PKCE with S256.
    pub(super) fn has_pkce(&self) -> bool {
        contains_value(self.code_challenge_methods_supported.as_ref(), "S256")
    }

    /// Returns whether the server can bind tokens to an ES256 key (RFC 9449 section 5.1).
    pub(super) fn binds_tokens(&self) -> bool {
        contains_value(self.dpop_signing_alg_values_supported.as_ref(), "ES256")
    }

    /// Returns whether the server announces that each of its authorization responses names the
    /// issuer (RFC 9207).
    pub(super) fn announces_issuer(&self) -> bool {
        self.authorization_response_iss_parameter_supported == Some(true)
    }

    /// Returns the metadata for the SDK, for a registration or an authorization request. Always
    /// announces PKCE, because Pillion checks separately whether the server announces PKCE.
    pub(super) fn to_sdk_metadata(&self) -> AuthorizationMetadata {
        let mut metadata = AuthorizationMetadata::default();
        metadata.authorization_endpoint = self.authorization_endpoint.clone().unwrap_or_default();
        metadata.token_endpoint.clone_from(&self.token_endpoint);
        metadata
            .registration_endpoint
            .clone_from(&self.registration_endpoint);
        metadata.issuer.clone_from(&self.issuer);
        metadata.code_challenge_methods_supported = Some(vec!["S256".to_owned()]);
        metadata
    }
}

/// Checks the URL of an endpoint under the egress policy. An issuer with `https` must have
/// endpoints with `https`, and no endpoint may have a user or a fragment (RFC 6749 section 3).
///
/// # Errors
/// [`OAuthError::Endpoint`] if the egress policy rejects the URL; [`OAuthError::InvalidEndpoint`]
/// if the URL is invalid.
fn check_endpoint(
    web_client: &WebClient,
    issuer: &Issuer,
    name: &'static str,
    url: &str,
) -> Result<Url, OAuthError> {
    let endpoint = web_client.parse_allowed_url(url)?;
    let is_downgrade = issuer.url().scheme() == "https" && endpoint.scheme() != "https";
    let has_user = !endpoint.username().is_empty() || endpoint.password().is_some();
    if is_downgrade || has_user || endpoint.fragment().is_some() {
        return Err(OAuthError::InvalidEndpoint { name });
    }
    Ok(endpoint)
}

fn contains_value(values: Option<&Vec<String>>, expected: &str) -> bool {
    values.is_some_and(|values| values.iter().any(|value| value == expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillion_egress::EgressPolicy;

    #[test]
    fn an_endpoint_may_have_another_origin_but_is_as_protected_as_its_issuer() {
        let mut policy = EgressPolicy::default();
        policy.allow_http_for(&Url::parse("http://plain.example").unwrap());
        let server = Url::parse("https://mcp.example/mcp").unwrap();
        let web_client = WebClient::new(&policy, &server, &std::sync::Arc::default()).unwrap();
        let issuer = Issuer::parse("https://as.example").unwrap();
        let check = |url: &str| check_endpoint(&web_client, &issuer, "token_endpoint", url);
        check("https://as.example/token").unwrap();
        check("https://tokens.example/token?a=b").unwrap();
        for url in [
            "http://as.example/token",
            "http://plain.example/token",
            "http://127.0.0.1/token",
            "https://127.0.0.1/token",
            "https://169.254.169.254/token",
            "https://user@as.example/token",
            "https://as.example/token#a",
            "/token",
            "ftp://as.example/token",
        ] {
            assert!(check(url).is_err(), "{url}");
        }
    }
}
